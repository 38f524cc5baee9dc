"""The `openspec` tool of the user's machine, and projects that keep their specs with it.

All of it blocks.
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
from coterie.workspace.beneath import opened_folder, write_file

OPENSPEC = "openspec"
INSTALL = "npm install -g @fission-ai/openspec"
_QUIET = "OPENSPEC_TELEMETRY=0 DO_NOT_TRACK=1 OPENSPEC_NO_UPDATE_CHECK=1"
_CHANGES = "changes"
_MOST = 20


class SpecIssue(NamedTuple):
    """What the tool finds wrong with a change."""

    place: str
    message: str


def find_openspec(root: Path) -> Path | None:
    """The tool, where it is installed; one that lies in the project is the repository's code."""
    found = shutil.which(OPENSPEC)
    if found is None or not Path(found).is_absolute():
        return None
    project = root.resolve()
    places = (Path(found).absolute(), Path(found).resolve())
    return None if any(one.is_relative_to(project) for one in places) else places[0]


def validate_command(tool: Path, change: str) -> str:
    """The command that checks a change in the folder it is run in."""
    words = (str(tool), "validate", change, "--type", "change", "--strict", "--json")
    return f"{_QUIET} {shlex.join(words)} --no-interactive"


def issues_in(output: str) -> list[SpecIssue] | None:
    """What the tool found, from what it printed; None where that is no report of it."""
    start, end = output.find("{"), output.rfind("}")
    try:
        report = cast("object", json.loads(output[start : end + 1] if start >= 0 else ""))
        items = cast("list[Mapping[str, list[Mapping[str, object]]]]", _of(report, "items"))
        found = [issue for item in items for issue in item["issues"]]
        serious = [one for one in found if one.get("level") != "INFO"]
        return [
            SpecIssue(visible(str(one.get("path", ""))), visible(str(one["message"])))
            for one in serious[:_MOST]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _of(report: object, key: str) -> object:
    return cast("Mapping[str, object]", report)[key]


def uses_openspec(folder: Path) -> bool:
    """Whether a project keeps its specs with OpenSpec; a link in the place of a folder does not
    count."""
    with suppress(OSError, NotOurs), opened_folder(folder, OPENSPEC, _CHANGES):
        return True
    return False


def clear_change(folder: Path, change: str) -> None:
    """Remove what is there of a change, below the folder that holds `openspec`."""
    with suppress(FileNotFoundError), opened_folder(folder, OPENSPEC, _CHANGES, change):
        shutil.rmtree(folder / OPENSPEC / _CHANGES / change)


def write_change(folder: Path, change: str, files: Mapping[str, str]) -> None:
    """Put the files of a change into a project that uses OpenSpec, in place of what it had."""
    clear_change(folder, change)
    for path, text in files.items():
        write_file(folder, Path(path).parts, text.encode())
