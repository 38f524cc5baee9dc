"""The `openspec` tool on the user's machine, and projects that keep their specs with it.

All calls block.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from coterie.errors import NotOurs
from coterie.model.visible import visible
from coterie.workspace.beneath import open_folder, remove_tree, write_file

OPENSPEC = "openspec"
INSTALL = "npm install -g @fission-ai/openspec"
_QUIET = "OPENSPEC_TELEMETRY=0 DO_NOT_TRACK=1 OPENSPEC_NO_UPDATE_CHECK=1"
_CHANGES = "changes"
_MOST = 20


class SpecIssue(NamedTuple):
    """A problem that the tool found in a change."""

    place: str
    message: str


def find_openspec(root: Path) -> Path | None:
    """Return the installed tool; one inside the project does not count: it is repository code."""
    program = shutil.which(OPENSPEC)
    if program is None or not Path(program).is_absolute():
        return None
    project = root.resolve()
    places = (Path(program).absolute(), Path(program).resolve())
    return None if any(one.is_relative_to(project) for one in places) else places[0]


def validate_command(tool: Path, change: str) -> str:
    """Return the command that validates a change in the folder it runs in."""
    words = (str(tool), "validate", change, "--type", "change", "--strict", "--json")
    return f"{_QUIET} {shlex.join(words)} --no-interactive"


def issues_in(output: str) -> list[SpecIssue] | None:
    """Parse the tool's output into issues; None if it is not one of its reports."""
    start, end = output.find("{"), output.rfind("}")
    try:
        report = cast("object", json.loads(output[start : end + 1] if start >= 0 else ""))
        items = cast("list[Mapping[str, list[Mapping[str, object]]]]", _of(report, "items"))
        issues = [issue for item in items for issue in item["issues"]]
        serious = [one for one in issues if one.get("level") != "INFO"]
        return [
            SpecIssue(visible(str(one.get("path", ""))), visible(str(one["message"])))
            for one in serious[:_MOST]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _of(report: object, key: str) -> object:
    return cast("Mapping[str, object]", report)[key]


def uses_openspec(folder: Path) -> bool:
    """Whether a project keeps its specs with OpenSpec; a link in place of a folder does not
    count."""
    with suppress(OSError, NotOurs), open_folder(folder, OPENSPEC, _CHANGES):
        return True
    return False


def clear_change(folder: Path, change: str) -> None:
    """Remove a change, if it exists, below the folder that contains `openspec`."""
    with suppress(FileNotFoundError), open_folder(folder, OPENSPEC, _CHANGES, change):
        remove_tree(folder / OPENSPEC / _CHANGES / change)


def write_change(folder: Path, change: str, files: Mapping[str, str]) -> None:
    """Write the files of a change into a project that uses OpenSpec, replacing any earlier ones."""
    clear_change(folder, change)
    for path, text in files.items():
        write_file(folder, Path(path).parts, text.encode())
