"""Write team files: a new team, another member, every field spelled out, and starter teams."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from coterie.config.files import Document, parse_json, parse_toml, read_document, write_atomically
from coterie.config.mistakes import quoted
from coterie.config.project import Project
from coterie.config.registry import Registry
from coterie.config.settings import FILE_NAME as SETTINGS
from coterie.config.settings import set_value
from coterie.config.team_file import FILE_NAMES, LoadedTeam, ReadContext, interpret, team_path
from coterie.config.team_members import long_name
from coterie.config.teams import MemberSpec
from coterie.errors import ConfigError, NotFound, UsageError
from coterie.model.team import Team, safe_name
from coterie.model.workspace import shown

Entry = Mapping[str, object]
"""A member as it is written in a team file."""

_ITS_OWN = frozenset({"id", "name", "displayName", "order"})


def entry_of(member: MemberSpec) -> Entry:
    """The shortest entry for one part of `--agents`."""
    entry: dict[str, object] = {"id": member.id, "agent": member.agent}
    return {**entry, "model": member.model} if member.model else entry


def full_form(team: Team) -> dict[str, object]:
    """A team with every field under its long name; reads back as the same team."""
    full = team.model_dump(mode="json", exclude_none=True)
    for whole, part in ((team, full), *zip(team.members, full["members"], strict=True)):
        if not whole.budget.is_set:
            del part["budget"]
    return full


def render(data: Mapping[str, object]) -> str:
    """A team file's text."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def new_team(
    project: Project,
    name: str,
    entries: Sequence[Entry],
    registry: Registry,
    workflow: str | None = None,
) -> LoadedTeam:
    """Write a new team into the project; nothing is written that could not be read back."""
    if not safe_name(name):
        raise UsageError(f"{quoted(name)} is not a valid team name.", "Use letters, digits, . _ -")
    folder = project.teams / name
    if any((folder / file).exists() for file in FILE_NAMES):
        raise UsageError(f"Team {quoted(name)} already exists.", f"coterie team show {name}")
    data: dict[str, object] = {"members": [dict(entry) for entry in entries]}
    if workflow is not None:
        data = {"workflow": workflow, **data}
    path = folder / FILE_NAMES[0]
    text = render(data)
    loaded = interpret(parse_json(path, text), ReadContext(registry, folder_is_name=True))
    write_atomically(path, text)
    return loaded


def add_member(
    path: Path, entry: Entry, reading: ReadContext, like: str | None = None
) -> LoadedTeam:
    """Add a member to a team file, keeping the rest; `like` copies another member's entry."""
    document = read_document(team_path(path))
    interpret(document, reading)  # so that existing mistakes are not blamed on the new member
    if like is not None:
        entry = _like(document, like, entry)
    changed = _with_member(document, entry)
    loaded = interpret(changed, reading)
    mode = stat.S_IMODE(document.path.stat().st_mode)
    write_atomically(document.path, changed.text, mode)
    return loaded


def rename_member(path: Path, member: str, name: str, reading: ReadContext) -> LoadedTeam:
    """Change a member's id in its team file: it becomes a new member, with its own folder."""
    document = read_document(team_path(path))
    interpret(document, reading).team.member(member)
    if document.kind != "json":
        raise UsageError(
            f"{shown(document.path)} is kept as you wrote it.",
            f'Change id = "{member}" to id = "{name}" in it.',
            str(document.path),
        )
    members = [
        {**entry, "id": name} if entry["id"] == member else entry for entry in _members(document)
    ]
    data = cast("dict[str, object]", document.data)
    if "roles" in data:
        roles = cast("dict[str, str]", data["roles"])
        data["roles"] = {role: name if who == member else who for role, who in roles.items()}
    changed = parse_json(document.path, render({**data, "members": members}))
    loaded = interpret(changed, reading)
    mode = stat.S_IMODE(document.path.stat().st_mode)
    write_atomically(document.path, changed.text, mode)
    return loaded


def _members(document: Document) -> list[dict[str, object]]:
    return cast("dict[str, list[dict[str, object]]]", document.data)["members"]


def _like(document: Document, like: str, entry: Entry) -> Entry:
    known = {str(member["id"]).casefold(): member for member in _members(document)}
    original = known.get(like.casefold())
    if original is None:
        here = ", ".join(str(member["id"]) for member in _members(document))
        raise NotFound(f"No member {quoted(like)} in {shown(document.path)}. Here: {here}.")
    own_keys = {long_name(key) for key in entry}
    copied = {
        key: value
        for key, value in original.items()
        if key not in _ITS_OWN and long_name(key) not in own_keys
    }
    return {"id": entry["id"], **copied, **entry}


def _with_member(document: Document, entry: Entry) -> Document:
    if document.kind == "json":
        data = cast("dict[str, object]", document.data)
        text = render({**data, "members": [*_members(document), dict(entry)]})
        return parse_json(document.path, text)
    # TOML is appended to as text: people choose it for its comments.
    text = f"{document.text.rstrip()}\n\n{toml_member(entry)}"
    try:
        return parse_toml(document.path, text)
    except ConfigError:
        raise UsageError(
            f"{shown(document.path)} lists its members in one value, which cannot be added to.",
            "Write each of them as [[members]], or add the new one by hand.",
            str(document.path),
        ) from None


def toml_member(entry: Entry) -> str:
    """A member as a `[[members]]` table."""
    lines = [f"{_toml_key(key)} = {_toml(value)}" for key, value in entry.items()]
    return "\n".join(["[[members]]", *lines]) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml(one)}" for key, one in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in cast("Sequence[object]", value)) + "]"
    if isinstance(value, str):
        # A JSON string is a TOML string, except for the one control character JSON does not escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def mark_default(project: Project, name: str) -> None:
    """Make a team the default, used when none is named."""
    set_value(project.folder / SETTINGS, "defaultTeam", name)


_PAIR = (
    {"id": "ada", "prompt": "You write the code. Keep changes small; say what you changed."},
    {
        "id": "rex",
        "prompt": "You review what ada did. You never edit. Name files and lines.",
        "permissions": "read",
    },
)
_REVIEW = (
    {"id": "sec", "role": "security", "prompt": "You review security only. Name files and lines."},
    {"id": "perf", "role": "speed", "prompt": "You review speed only. Name files and lines."},
    {
        "id": "read",
        "role": "readability",
        "prompt": "You review readability only. Name files and lines.",
    },
)
_DEBATE = (
    {"id": "pro", "prompt": "You argue for the proposal, with reasons that can be checked."},
    {"id": "con", "prompt": "You argue against the proposal, with reasons that can be checked."},
)

_WORKER = {
    "role": "worker",
    "prompt": "You work on one ticket at a time: all that it asks for, and nothing else.",
    "permissions": "accept-edits",
}
_TICKETS = (
    {
        "id": "mira",
        "role": "manager",
        "prompt": "You plan and review. You never do the work yourself. You approve only what you "
        "would put your name to.",
    },
    {"id": "wren", **_WORKER},
    {"id": "finn", **_WORKER},
)

PRESETS: Mapping[str, Sequence[Mapping[str, object]]] = {
    "pair": _PAIR,
    "review": _REVIEW,
    "debate": _DEBATE,
    "tickets": _TICKETS,
}


def preset_members(preset: str, agents: Sequence[str]) -> list[Entry]:
    """The members of a preset, assigned to the given agents in turn."""
    entries: list[Entry] = []
    for place, member in enumerate(PRESETS[preset]):
        entry = {"id": member["id"], "agent": agents[place % len(agents)], **member}
        if preset == "review":
            entry["permissions"] = "read"
        entries.append(entry)
    return [*entries, {"id": "you", "type": "human"}] if preset == "review" else entries
