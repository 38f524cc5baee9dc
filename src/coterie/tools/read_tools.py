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
    MAX_OUTPUT_CHARS,
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
    """Read a text file. Returns its text without line numbers, and the range of lines shown. A
    long file comes in parts: continue with offset."""

    path: PathText = Field(description="The path of the file, relative to the workspace.")
    offset: int = Field(1, ge=1, description="The first line to show, starting at 1.")
    limit: int = Field(LINES, ge=1, description="The maximum number of lines to show.")


@dataclass(frozen=True)
class ReadFile(Tool[ReadFileInput]):
    """Shows a member a text file in its workspace."""

    root: WorkspaceRoot
    versions: workspace_files.FileVersions

    name = "readFile"
    inputs = ReadFileInput

    def _run(self, arguments: ReadFileInput) -> ToolOutcome:
        with self.root.resolve(arguments.path) as place, place.open_file() as file:
            size = os.fstat(file.fileno()).st_size
            if size > workspace_files.MAX_WHOLE_FILE_BYTES:
                return ToolOutcome(_of_huge(file, size, arguments, place.path))
            # Not the maximum size: that much memory would be allocated up front.
            data = file.read(size + 1)
        text = TextFile.read(data)
        if text is None:
            raise _binary(place.path, len(data))
        known = workspace_files.digest(data)
        self.versions.record(place.path, known)
        lines = _lines(text.text)
        if arguments.offset > max(1, len(lines)):
            raise ToolError(
                f"{place.path} has no line {arguments.offset}: its last line is {len(lines)}."
            )
        shown = _shown(lines[arguments.offset - 1 :], arguments, f"{len(lines):,}")
        return ToolOutcome({"path": place.path, **shown, "digest": known})


def _of_huge(file: BinaryIO, size: int, arguments: ReadFileInput, path: str) -> dict[str, object]:
    first = TextFile.read(file.read(workspace_files.SNIFFED))
    if first is None or first.encoding != "utf-8":
        raise _binary(path, size)
    file.seek(0)
    data = file.read(4 * MAX_OUTPUT_CHARS + 1) if _skip(file, arguments.offset - 1) else b""
    if not data:
        raise ToolError(f"{path} has no line {arguments.offset}.")
    begun, ends = _lines(data.decode("utf-8", "replace")), len(data) <= 4 * MAX_OUTPUT_CHARS
    return {"path": path, **_shown(begun, arguments, f"a file of {size:,} bytes", ends=ends)}


def _skip(file: BinaryIO, lines: int) -> bool:
    """Seek past this many lines; False if the file has fewer."""
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
    begun: list[str], arguments: ReadFileInput, whole: str, *, ends: bool = True
) -> dict[str, object]:
    """Return as many of these lines as were asked for and fit."""
    window = list(islice(begun, arguments.limit))
    fits = max(
        1, sum(total <= MAX_OUTPUT_CHARS for total in accumulate(len(line) + 1 for line in window))
    )
    text = truncated(visible("\n".join(window[:fits])))
    last = arguments.offset + len(window[:fits]) - 1
    output: dict[str, object] = {"lines": f"{arguments.offset}-{last} of {whole}", "text": text}
    if len(begun) > fits or not ends:
        output["note"] = f"There is more: continue with offset {last + 1}."
    return output


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _binary(path: str, size: int) -> ToolError:
    return ToolError(f"{path} is not a text file ({size:,} bytes).")


MAX_FILES = 50_000
GIT_TIMEOUT = 20.0


def files_below(root: WorkspaceRoot, folder: int, path: str) -> list[str]:
    """List the files below an open folder, by paths relative to it; blocks."""
    # Git ignores Coterie's own folder, but a member may see its part of it.
    options = ("--cached", "--others", "--deduplicate")
    listed = [] if COTERIE in path.split("/") else list(_by_git(root, path, *options))
    return sorted(listed or islice(_by_walk(folder), MAX_FILES))


def _by_git(root: WorkspaceRoot, path: str, *which: str) -> Iterator[str]:
    """Yield what `git ls-files` lists below a path, relative to it; nothing without a repository.

    By default what git ignores is not listed; with `--ignored` nothing else is.
    """
    repository = repository_of(root.path)
    if repository is None:
        return
    top = (root.path / path).relative_to(repository.folder.resolve())
    prefix = "" if top == Path() else f"{top}/"
    words = ("ls-files", "-z", "--exclude-standard", *which)
    try:
        listed = repository.run(*words, "--", f":(literal){top}", timeout=GIT_TIMEOUT)
    except GitFailed:
        return  # not installed or not trusted: the caller walks the folder
    for name in islice(filter(None, listed.split("\0")), MAX_FILES):
        # Skip tracked files that were deleted, and the ignored folder that the path is in.
        if name.startswith(prefix) and os.path.lexists(repository.folder / name):
            yield name.removeprefix(prefix)


def _by_walk(folder: int) -> Iterator[str]:
    for place, folders, names, _ in os.fwalk(".", dir_fd=folder):
        is_deepest = place.count("/") >= scan.DEEPEST
        folders[:] = [] if is_deepest else [one for one in folders if one not in scan.IGNORED]
        yield from (str(Path(place, name)) for name in names)


def folded(files: list[str], most: int) -> list[str]:
    """Return the files; if there are too many, their folders, as deep as fits."""
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


MAX_LINES = 800


class ListFilesInput(ToolInput):
    """List the files in a folder and below it, except those that git ignores. If there are too
    many, folders are shown with their number of files instead."""

    path: PathText = Field(".", description="The path of the folder, relative to the workspace.")


@dataclass(frozen=True)
class ListFiles(Tool[ListFilesInput]):
    """Shows a member the files in and below a folder."""

    root: WorkspaceRoot

    names_only = True
    name = "listFiles"
    inputs = ListFilesInput

    def _run(self, arguments: ListFilesInput) -> ToolOutcome:
        with self.root.resolve(arguments.path) as place:
            folder = place.open_folder()
            try:
                files = files_below(self.root, folder, place.path)
            finally:
                os.close(folder)
        count = f"more than {MAX_FILES:,}" if len(files) >= MAX_FILES else f"{len(files):,}"
        names = map(visible_path, folded(files, MAX_LINES))
        text = truncated(visible("\n".join(names)))
        return ToolOutcome({"path": place.path, "count": count, "files": text})


TIMEOUT = 20.0
HITS = 256 * 1024
"""How many bytes of names and line numbers are read; more lines could not be shown."""
LONGEST_LINE = 400
NOTHING_FOUND = 1
_IGNORED_BY_GIT = ("--others", "--ignored", "--directory")
RIPGREP = "rg"
_OPTIONS = (
    "--no-config",
    "--color=never",
    "--crlf",
    "--hidden",
    "--line-number",
    "--max-columns=1",  # only line numbers are needed
    f"--max-filesize={workspace_files.MAX_WHOLE_FILE_BYTES}",
    "--no-heading",
    "--no-messages",
    "--null",
    "--sort=path",
    "--with-filename",
)


class GrepInput(ToolInput):
    """Find lines that match a regular expression, shown as path:line:text. Files that git ignores
    are skipped."""

    pattern: Utf8Text = Field(description="A regular expression; it may match anywhere in a line.")
    path: PathText = Field(".", description="The folder or file to search.")
    glob: Utf8Text = Field(
        "", description="Search only files that match this glob, such as *.py or src/**/*.ts."
    )


@dataclass(frozen=True)
class Grep(Tool[GrepInput]):
    """Searches the files in a member's workspace."""

    name = "grep"
    inputs = GrepInput

    root: WorkspaceRoot
    search_path: str
    """The PATH on which ripgrep is looked up."""

    async def run(self, arguments: GrepInput) -> ToolOutcome:
        """Return the matching lines; excess lines are left out, with a note."""
        folder, name, path = await anyio.to_thread.run_sync(self._reach, arguments.path)
        try:
            words, given = await anyio.to_thread.run_sync(self._words, arguments, name, path)
            env = {"PATH": self.search_path, "LC_ALL": "C.UTF-8"}
            # Names the open folder itself, whatever is swapped in at its path meanwhile.
            named = f"/proc/self/fd/{folder}" if sys.platform == "linux" else self.root.path / path
            answer = await capture(
                words, str(named), env, most=HITS, time_limit=TIMEOUT, given=given
            )
        finally:
            os.close(folder)
        if answer.late and not answer.output:
            raise ToolError(f"The search took over {TIMEOUT:g} s. Search fewer files.")
        if answer.status not in (None, 0, NOTHING_FOUND) and not answer.output:
            raise ToolError(f"The search failed: {answer.complaint.strip()[-1000:]}")
        return await anyio.to_thread.run_sync(self._shown, answer, path)

    def _shown(self, answer: CapturedOutput, path: str) -> ToolOutcome:
        lines, size, more = list[str](), 0, answer.cut or answer.late
        for line in self._lines(answer.output, path):
            size += len(line) + 1
            if size > MAX_OUTPUT_CHARS:
                more = True
                break
            lines.append(line)
        output: dict[str, object] = {"count": len(lines), "matches": "\n".join(lines)}
        if more:
            output["note"] = "There are more matches: narrow the pattern or search fewer files."
        return ToolOutcome(output)

    def _lines(self, hits: bytes, path: str) -> Iterator[str]:
        """Yield the line of each hit, reopening every file without following links.

        The search opens files by name, where a link may have been swapped in: so it is trusted
        for the position of a hit, not for its text.
        """
        prefix = "" if path == "." else f"{path}/"
        for name, line_hits in groupby(_hits(hits), key=lambda hit: hit[0]):
            lines = self._text(prefix + name)
            for _, number in line_hits:
                if number <= len(lines):
                    text = visible(lines[number - 1].rstrip("\r"))
                    yield f"{visible_path(prefix + name)}:{number}:{text[:LONGEST_LINE]}"

    def _text(self, path: str) -> list[str]:
        try:
            with self.root.resolve(path) as place, place.open_file() as file:
                text = TextFile.read(file.read(workspace_files.MAX_WHOLE_FILE_BYTES))
        except (ToolError, OSError):
            return []  # gone or replaced by now
        return [] if text is None else text.text.split("\n")

    def _reach(self, path: str) -> tuple[int, str, str]:
        """Return the opened folder to search; the file in it, if the path is a file; and the
        folder's path."""
        with self.root.resolve(path) as place:
            if place.is_folder():
                return place.open_folder(), "", place.path
            return os.dup(place.folder), place.name, place.path.rpartition("/")[0] or "."

    def _words(self, arguments: GrepInput, name: str, path: str) -> tuple[tuple[str, ...], bytes]:
        """Return the search program with its arguments, and its input."""
        program = shutil.which(RIPGREP, path=self.search_path)
        if program is None:
            script = (sys.executable, "-I", "-S", str(Path(scan.__file__)))
            skips = () if name else _by_git(self.root, path, *_IGNORED_BY_GIT)
            return (*script, arguments.pattern, arguments.glob, name), os.fsencode("\0".join(skips))
        # The last matching glob wins, so the given one cannot let Coterie's folder in.
        only = [f"--glob=/{glob.escape(name)}", "--max-depth=1"] if name else []
        wanted = [f"--glob={arguments.glob}"] if arguments.glob and not name else []
        never = [f"--glob=!{folder}" for folder in (COTERIE, GIT)]
        globs = (*wanted, *only, *never)
        # Git ignores Coterie's own folder, but a member may see its part of it.
        globs = ("--no-ignore", *globs) if COTERIE in path.split("/") else globs
        return (program, *_OPTIONS, *globs, f"--regexp={arguments.pattern}", "--", "."), b""


def _hits(output: bytes) -> Iterator[tuple[str, int]]:
    """Parse the files and line numbers that a search printed; a partial last line is ignored."""
    for line in output.split(b"\n")[:-1]:
        name, _, rest = line.partition(b"\0")
        number = rest.partition(b":")[0]
        if number.isdigit():
            yield os.fsdecode(name).removeprefix("./"), int(number)
