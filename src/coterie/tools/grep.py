"""grep: lines that match a pattern, by ripgrep where there is one, else by a search of ours."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from coterie.process.programs import CapturedOutput, CaptureRequest, capture
from coterie.tools import scan
from coterie.tools.excerpt import MOST, visible
from coterie.tools.text_file import WHOLE, TextFile
from coterie.tools.toolbox import Tool, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_root import COTERIE, GIT, ToolError, WorkspaceRoot

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
    f"--max-filesize={WHOLE}",
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
    path: Utf8Text = Field(".", description="The folder or file to search.")
    glob: Utf8Text = Field("", description="Only files of this form, such as *.py or src/**/*.ts.")


@dataclass(frozen=True)
class Grep(Tool[GrepInput]):
    """Searches the files of a member's workspace."""

    name = "grep"
    inputs = GrepInput

    root: WorkspaceRoot
    search_path: str
    """The PATH on which ripgrep is looked up."""

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """The lines; those that are too many are left out and said to be."""
        asked = GrepInput.model_validate(given)
        folder, name, path = await anyio.to_thread.run_sync(self._reach, asked.path)
        try:
            words = await anyio.to_thread.run_sync(self._words, asked, name)
            env = {"PATH": self.search_path, "LC_ALL": "C.UTF-8"}
            query = CaptureRequest(
                words, _entered(folder, self.root.path / path), env, HITS, TIMEOUT
            )
            answer = await capture(query)
        finally:
            os.close(folder)
        _refuse_failed(answer)
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
                    yield f"{prefix}{name}:{number}:{text[:LONGEST_LINE]}"

    def _text(self, path: str) -> list[str]:
        try:
            with self.root.resolve(path) as place, place.open_file() as file:
                text = TextFile.read(file.read(WHOLE))
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


def _entered(folder: int, path: Path) -> str:
    """A name for an open folder that leads nowhere else, whatever is swapped meanwhile."""
    return f"/proc/self/fd/{folder}" if sys.platform == "linux" else str(path)


def _refuse_failed(answer: CapturedOutput) -> None:
    if answer.late and not answer.output:
        raise ToolError(f"The search took over {TIMEOUT:g} s. Look in fewer files.")
    if answer.status not in (None, 0, NOTHING_FOUND) and not answer.output:
        raise ToolError(f"The search failed: {answer.complaint.strip()[-1000:]}")


def _hits(output: bytes) -> Iterator[tuple[str, int]]:
    """The files and line numbers in what a search has printed; half a line at its end is none."""
    for line in output.split(b"\n")[:-1]:
        name, _, rest = line.partition(b"\0")
        number = rest.partition(b":")[0]
        if number.isdigit():
            yield os.fsdecode(name).removeprefix("./"), int(number)
