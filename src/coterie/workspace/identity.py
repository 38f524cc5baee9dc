"""Who a member is, as its folder remembers it: editing a team never silently changes that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.model.team import Member, Team
from coterie.workspace.folder import member_folder

FILE_NAME = "identity.json"


@dataclass(frozen=True)
class Changed:
    """A member whose prompt is not the one its folder was made with."""

    member: Member
    settled: str
    """The prompt that its folder knows."""


def changed_members(root: Path, team: Team) -> list[Changed]:
    """The members of a team whose prompt was edited and not settled yet."""
    found: list[Changed] = []
    for member in team.ai_members:
        known = _read(_file(root, team.name, member))
        if known is None or member.system_instruction in (known["prompt"], known.get("declined")):
            continue
        found.append(Changed(member, known["prompt"]))
    return found


def as_settled(root: Path, team: Team) -> Team:
    """The team with the prompts that count: of a member that keeps its old one, the old one."""
    members = tuple(_settled(root, team.name, member) for member in team.members)
    return team.model_copy(update={"members": members})


def settle_if_new(root: Path, team: str, member: Member) -> None:
    """A folder that is new remembers who lives there."""
    if member.type == "ai" and not _file(root, team, member).exists():
        settle(root, team, member)


def settle(root: Path, team: str, member: Member) -> None:
    """From now on the member is who its team file says."""
    _write(_file(root, team, member), {"prompt": member.system_instruction})


def keep(root: Path, team: str, member: Member) -> None:
    """The member stays who it was, whatever its team file says now."""
    path = _file(root, team, member)
    known = _read(path)
    if known is not None:
        _write(path, {"prompt": known["prompt"], "declined": member.system_instruction})


def _settled(root: Path, team: str, member: Member) -> Member:
    known = _read(_file(root, team, member)) if member.type == "ai" else None
    if known is None or known.get("declined") != member.system_instruction:
        return member
    return member.model_copy(update={"system_instruction": known["prompt"]})


def _file(root: Path, team: str, member: Member) -> Path:
    return member_folder(root, team, member) / FILE_NAME


def _read(path: Path) -> dict[str, str] | None:
    try:
        data: object = json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # not settled yet, or nothing that could be: then the team file counts
    if not isinstance(data, dict):
        return None
    entries = cast("dict[str, object]", data)
    known = {key: value for key, value in entries.items() if isinstance(value, str)}
    return known if "prompt" in known else None


def _write(path: Path, identity: dict[str, str]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(identity, indent=2) + "\n")
    new.replace(path)
