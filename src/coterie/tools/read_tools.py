"""The tools that only read files: readFile, listFiles and grep."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread
from pydantic import Field

from coterie.errors import GitFailed
from coterie.model.visible import visible_path
from coterie.process.launch import CapturedOutput, capture
from coterie.tools import scan, workspace_files
from coterie.tools.toolbox import (
    MOST,
    PathText,
    Tool,
    ToolInput,
    ToolOutcome,
    Utf8Text,
    truncated,
    visible,
)
from coterie.tools.workspace_files import COTERIE, GIT, TextFile, ToolError, WorkspaceRoot
from coterie.workspace.git import repository_of

LINES = 2000
BLOCK = 1024 * 1024


class ReadFileInput(ToolInput):
    """Read a text file. Gives its text without line numbers, and which lines those are. A long
    file comes in parts: go on with offset."""

    path: PathText = Field(description="The file, from the top of the workspace.")
    offset: int = Field(1, ge=1, description="The first line to show, counted from 1.")
    limit: int = Field(LINES, ge=1, description="How many lines to show at most.")


@dataclass(frozen=True)
class ReadFile(Tool[ReadFileInput]):
    """Shows a member a text file of its workspace."""

    root: WorkspaceRoot
    versions: workspace_files.FileVersions

    name = "readFile"
    inputs = ReadFileInput

    def _run(self, asked: ReadFileInput) -> ToolOutcome:
        with self.root.resolve(asked.path) as place, place.open_file() as file:
            size = os.fstat(file.fileno()).st_size
            if size > workspace_files.WHOLE:
                return ToolOutcome(_of_huge(file, size, asked, place.path))
            # Not of the greatest size: so much room would be made for it first.
            data = file.read(size + 1)
        text = TextFile.read(data)
        if text is None:
            raise _binary(place.path, len(data))
        known = workspace_files.digest(data)
        self.versions.record(place.path, known)
        lines = _lines(text.text)
        if asked.offset > max(1, len(lines)):
            raise ToolError(f"{place.path} has no line {asked.offset}: it ends with {len(lines)}.")
        shown = _shown(lines[asked.offset - 1 :], asked, f"{len(lines):,}")
        return ToolOutcome({"path": place.path, **shown, "digest": known})


def _of_huge(file: BinaryIO, size: int, asked: ReadFileInput, path: str) -> dict[str, object]:
    first = TextFile.read(file.read(workspace_files.SNIFFED))
    if first is None or first.encoding != "utf-8":
        raise _binary(path, size)
    file.seek(0)
    if not _skip(file, asked.offset - 1):
        raise ToolError(f"{path} has no line {asked.offset}.")
    begun = _lines(file.read(4 * MOST).decode("utf-8", "replace"))
    return {"path": path, **_shown(begun, asked, f"a file of {size:,} bytes", ends=False)}


def _skip(file: BinaryIO, lines: int) -> bool:
    """Go to the line after so many; False if there are not as many."""
    while lines > 0:
        start, block = file.tell(), file.read(BLOCK)
        if not block:
            return False
        if (ended := block.count(b"\n")) < lines:
            lines -= ended
            continue
        at = -1
        for _ in range(lines):
            at = block.index(b"\n", at + 1)
        file.seek(start + at + 1)
        lines = 0
    return True


def _shown(
    begun: list[str], asked: ReadFileInput, whole: str, *, ends: bool = True
) -> dict[str, object]:
    """As many of these lines as were asked for and can be shown."""
    window = list(islice(begun, asked.limit))
    fits = max(1, sum(total <= MOST for total in accumulate(len(line) + 1 for line in window)))
    text = truncated(visible("\n".join(window[:fits])))
    last = asked.offset + len(window[:fits]) - 1
    output: dict[str, object] = {"lines": f"{asked.offset}-{last} of {whole}", "text": text}
    if len(begun) > fits or not ends:
        output["note"] = f"There is more: go on with offset {last + 1}."
    return output


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _binary(path: str, size: int) -> ToolError:
    return ToolError(f"{path} is no text: {size:,} bytes of something else.")


MOST_FILES = 50_000
GIT_TIMEOUT = 20.0
_CACHES = ".hg .mypy_cache .pytest_cache .ruff_cache .svn .tox .venv __pycache__ node_modules"
IGNORED = frozenset({COTERIE, GIT, *_CACHES.split()})
"""Folders that hold nothing a person wrote."""


def files_below(root: WorkspaceRoot, folder: int, path: str) -> list[str]:
    """The files below an open folder, by their paths from it; blocks."""
    # Git ignores Coterie's own folder, of which a member may see its part.
    listed = [] if COTERIE in path.split("/") else list(_by_git(root, path))
    return sorted(listed or islice(_by_walk(folder), MOST_FILES))


def _by_git(root: WorkspaceRoot, path: str) -> Iterator[str]:
    """What git tracks or would track; nothing without a repository, or where all is ignored."""
    repository = repository_of(root.path)
    if repository is None:
        return
    top = (root.path / path).relative_to(repository.folder.resolve())
    prefix = "" if top == Path() else f"{top}/"
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    try:
        listed = repository.run(*words, "--", f":(literal){top}", patience=GIT_TIMEOUT)
    except GitFailed:
        return  # not installed, or not to be trusted: then we look ourselves
    for name in islice(filter(None, listed.split("\0")), MOST_FILES):
        if os.path.lexists(repository.folder / name):  # tracked, and deleted meanwhile
            yield name.removeprefix(prefix)


def _by_walk(folder: int) -> Iterator[str]:
    for place, folders, names, _ in os.fwalk(".", dir_fd=folder):
        folders[:] = [name for name in folders if name not in IGNORED]
        yield from (str(Path(place, name)) for name in names)


def folded(files: list[str], most: int) -> list[str]:
    """The files, or where there are too many the folders they are in, as deep as there is room."""
    depth = max((name.count("/") for name in files), default=0)
    lines = Counter(files)
    while len(lines) > most and depth > 0:
        depth -= 1
        lines = Counter(_at_depth(name, depth) for name in files)
    return sorted(
        f"{name} ({count:,} files)" if name.endswith("/") else name for name, count in lines.items()
    )


def _at_depth(name: str, depth: int) -> str:
    parts = name.split("/")
    return name if len(parts) <= depth + 1 else "/".join(parts[: depth + 1]) + "/"


MOST_LINES = 800


class ListFilesInput(ToolInput):
    """List the files in a folder and below it, without those that git ignores. Where there are too
    many, folders are shown with the number of their files."""

    path: PathText = Field(".", description="The folder, from the top of the workspace.")


@dataclass(frozen=True)
class ListFiles(Tool[ListFilesInput]):
    """Shows a member the files of a folder, and of the folders in it."""

    root: WorkspaceRoot

    name = "listFiles"
    inputs = ListFilesInput

    def _run(self, asked: ListFilesInput) -> ToolOutcome:
        with self.root.resolve(asked.path) as place:
            folder = place.open_folder()
            try:
                files = files_below(self.root, folder, place.path)
            finally:
                os.close(folder)
        count = f"more than {MOST_FILES:,}" if len(files) >= MOST_FILES else f"{len(files):,}"
        names = map(visible_path, folded(files, MOST_LINES))
        text = truncated(visible("\n".join(names)))
        return ToolOutcome({"path": place.path, "count": count, "files": text})


TIMEOUT = 20.0
HITS = 256 * 1024
"""How many bytes of names and line numbers are read; more lines could not be shown."""
LONGEST_LINE = 400
NOTHING_FOUND = 1
RIPGREP = "rg"
_OPTIONS = (
    "--no-config",
    "--color=never",
    "--crlf",
    "--hidden",
    "--line-number",
    "--max-columns=1",  # of a line only its number is wanted
    f"--max-filesize={workspace_files.WHOLE}",
    "--no-heading",
    "--no-messages",
    "--null",
    "--sort=path",
    "--with-filename",
)


class GrepInput(ToolInput):
    """Find lines by a regular expression. Gives path:line:text. Files that git ignores are passed
    over."""

    pattern: Utf8Text = Field(description="A regular expression, found anywhere in a line.")
    path: PathText = Field(".", description="The folder or file to search.")
    glob: Utf8Text = Field("", description="Only files of this form, such as *.py or src/**/*.ts.")


@dataclass(frozen=True)
class Grep(Tool[GrepInput]):
    """Searches the files of a member's workspace."""

    name = "grep"
    inputs = GrepInput

    root: WorkspaceRoot
    search_path: str
    """The PATH on which ripgrep is looked up."""

    async def run(self, asked: GrepInput) -> ToolOutcome:
        """The lines; those that are too many are left out and said to be."""
        folder, name, path = await anyio.to_thread.run_sync(self._reach, asked.path)
        try:
            words = await anyio.to_thread.run_sync(self._words, asked, name)
            env = {"PATH": self.search_path, "LC_ALL": "C.UTF-8"}
            # A name for the open folder that leads nowhere else, whatever is swapped meanwhile.
            named = f"/proc/self/fd/{folder}" if sys.platform == "linux" else self.root.path / path
            answer = await capture(words, str(named), env, most=HITS, patience=TIMEOUT)
        finally:
            os.close(folder)
        if answer.late and not answer.output:
            raise ToolError(f"The search took over {TIMEOUT:g} s. Look in fewer files.")
        if answer.status not in (None, 0, NOTHING_FOUND) and not answer.output:
            raise ToolError(f"The search failed: {answer.complaint.strip()[-1000:]}")
        return await anyio.to_thread.run_sync(self._shown, answer, path)

    def _shown(self, answer: CapturedOutput, path: str) -> ToolOutcome:
        lines, size, more = list[str](), 0, answer.cut or answer.late
        for line in self._lines(answer.output, path):
            size += len(line) + 1
            if size > MOST:
                more = True
                break
            lines.append(line)
        output: dict[str, object] = {"count": len(lines), "matches": "\n".join(lines)}
        if more:
            output["note"] = "There are more: look for less, or in fewer files."
        return ToolOutcome(output)

    def _lines(self, hits: bytes, path: str) -> Iterator[str]:
        """What stands where something was found, each file opened anew and never through a link.

        A search goes by names, behind which a link may have been put meanwhile: so its word is
        taken for where, and not for what.
        """
        prefix = "" if path == "." else f"{path}/"
        for name, found in groupby(_hits(hits), key=lambda hit: hit[0]):
            lines = self._text(prefix + name)
            for _, number in found:
                if number <= len(lines):
                    text = visible(lines[number - 1].rstrip("\r"))
                    yield f"{visible_path(prefix + name)}:{number}:{text[:LONGEST_LINE]}"

    def _text(self, path: str) -> list[str]:
        try:
            with self.root.resolve(path) as place, place.open_file() as file:
                text = TextFile.read(file.read(workspace_files.WHOLE))
        except (ToolError, OSError):
            return []  # gone, or another by now
        return [] if text is None else text.text.split("\n")

    def _reach(self, path: str) -> tuple[int, str, str]:
        """The folder to search, which is open; the one file in it that is meant, if it is one;
        and the folder's path."""
        with self.root.resolve(path) as place:
            if place.is_folder():
                return place.open_folder(), "", place.path
            return os.dup(place.folder), place.name, place.path.rpartition("/")[0] or "."

    def _words(self, asked: GrepInput, name: str) -> tuple[str, ...]:
        program = shutil.which(RIPGREP, path=self.search_path)
        if program is None:
            ours = (sys.executable, "-I", "-S", str(Path(scan.__file__)))
            return (*ours, asked.pattern, asked.glob, name)
        # The last glob that fits a file decides, so the user's cannot let Coterie's folder in.
        only = [f"--glob=/{glob.escape(name)}", "--max-depth=1"] if name else []
        wanted = [f"--glob={asked.glob}"] if asked.glob and not name else []
        never = [f"--glob=!{folder}" for folder in (COTERIE, GIT)]
        return (program, *_OPTIONS, *wanted, *only, *never, f"--regexp={asked.pattern}", "--", ".")


def _hits(output: bytes) -> Iterator[tuple[str, int]]:
    """The files and line numbers in what a search has printed; half a line at its end is none."""
    for line in output.split(b"\n")[:-1]:
        name, _, rest = line.partition(b"\0")
        number = rest.partition(b":")[0]
        if number.isdigit():
            yield os.fsdecode(name).removeprefix("./"), int(number)
