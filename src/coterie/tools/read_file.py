"""readFile: a part of a text file, with which part it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import BinaryIO

from pydantic import Field

from coterie.tools.excerpt import MOST, truncated, visible
from coterie.tools.text_file import SNIFFED, WHOLE, FileVersions, TextFile, digest
from coterie.tools.toolbox import Tool, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_root import ToolError, WorkspaceRoot

LINES = 2000
BLOCK = 1024 * 1024


class ReadFileInput(ToolInput):
    """Read a text file. Gives its text without line numbers, and which lines those are. A long
    file comes in parts: go on with offset."""

    path: Utf8Text = Field(description="The file, from the top of the workspace.")
    offset: int = Field(1, ge=1, description="The first line to show, counted from 1.")
    limit: int = Field(LINES, ge=1, description="How many lines to show at most.")


@dataclass(frozen=True)
class ReadFile(Tool[ReadFileInput]):
    """Shows a member a text file of its workspace."""

    root: WorkspaceRoot
    versions: FileVersions

    name = "readFile"
    inputs = ReadFileInput

    def _run(self, asked: ReadFileInput) -> ToolOutcome:
        with self.root.resolve(asked.path) as place, place.open_file() as file:
            size = os.fstat(file.fileno()).st_size
            if size > WHOLE:
                return ToolOutcome(_of_huge(file, size, asked, place.path))
            # Not of the greatest size: so much room would be made for it first.
            data = file.read(size + 1)
        text = TextFile.read(data)
        if text is None:
            raise _binary(place.path, len(data))
        known = digest(data)
        self.versions.record(place.path, known)
        lines = _lines(text.text)
        if asked.offset > max(1, len(lines)):
            raise ToolError(f"{place.path} has no line {asked.offset}: it ends with {len(lines)}.")
        begun = lines[asked.offset - 1 :]
        shown = _shown(begun, asked, f"{len(lines):,}")
        return ToolOutcome({"path": place.path, **shown, "digest": known})


def _of_huge(file: BinaryIO, size: int, asked: ReadFileInput, path: str) -> dict[str, object]:
    first = TextFile.read(file.read(SNIFFED))
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
