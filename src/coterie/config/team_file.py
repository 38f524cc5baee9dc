"""The team file: turn what a person wrote into a fully resolved team, or report all mistakes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from coterie.config import team_entry, team_members
from coterie.config.files import Document, Mistake, Notice, Place, read_document, read_text
from coterie.config.mistakes import duplicate_keys, mistakes_of, quoted, refusal
from coterie.config.registry import Registry, unused
from coterie.config.roles_file import read_roles
from coterie.config.settings import Settings
from coterie.errors import ConfigError, NotFound
from coterie.model.team import Member, Team, safe_name
from coterie.model.workspace import OURS, TEAM_INSTRUCTION, UNWRITTEN

FILE_NAMES = ("team.json", "team.toml")


@dataclass(frozen=True)
class LoadedTeam:
    """A team as its file describes it."""

    team: Team
    path: Path | None
    """None for a team that was made without a file."""
    digest: str = ""
    """Digest of the file's text."""
    stated_workflow: str | None = None
    """The workflow that the file names; a team without one is only `chat` by default."""
    outside_prompts: tuple[str, ...] = ()
    """Prompt files that lie outside the team file's folder."""
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class ReadContext:
    """The context in which a team file is read."""

    registry: Registry
    settings: Settings = Settings()
    folder_is_name: bool = False
    """Whether the folder is the team's own, so that `name` may only repeat the folder's name."""


def load_team(path: Path, reading: ReadContext) -> LoadedTeam:
    """Read and check a team file; raises ConfigError with every mistake, in order."""
    return team_in(read_document(team_path(path)), reading)


def team_in(document: Document, reading: ReadContext) -> LoadedTeam:
    """The team that a document holds, by its members, or by roles if it works on tickets."""
    return _of_roles(document, reading) if _is_roles(document) else interpret(document, reading)


def _is_roles(document: Document) -> bool:
    """Whether a document lists roles instead of members."""
    data = document.data
    return isinstance(data, dict) and "roles" in data and "members" not in data


def _of_roles(document: Document, reading: ReadContext) -> LoadedTeam:
    context = team_members.FileContext(document.path.parent, reading.registry)
    members, notices = read_roles(document, context)
    team = Team(
        name=name_for(document.path),
        workflow="tickets",
        members=members,
        context_message_count=reading.settings.context_message_count,
        context_characters=reading.settings.context_characters,
    )
    all_notices = (*notices, *_notices(team, reading.registry))
    return LoadedTeam(team, document.path, _digest(document), team.workflow, notices=all_notices)


def team_path(path: Path) -> Path:
    """The team file, given itself or its folder."""
    path = Path(os.path.normpath(path.absolute()))
    if not path.is_dir():
        if not path.exists():
            raise NotFound(f"{path} does not exist.", "coterie team", str(path))
        return path
    paths = [path / name for name in FILE_NAMES if (path / name).exists()]
    if not paths:
        raise NotFound(f"There is no team.json in {path}.", "coterie team", str(path))
    if len(paths) > 1:
        raise ConfigError(f"{path} holds both team.json and team.toml.", "Remove one.", str(path))
    return paths[0]


def interpret(document: Document, reading: ReadContext) -> LoadedTeam:
    """The team that a document with members holds."""
    mistakes = duplicate_keys(document)
    shape = _shape_mistakes(document.data)
    mistakes += shape
    data = _without(document.data, shape)
    if data is None:
        raise refusal(document, mistakes)
    folder = document.path.parent
    # A project's own team is `.coterie/teams/<team>`.
    project = folder.parents[2] if reading.folder_is_name else None
    context = team_members.FileContext(folder, reading.registry, project)
    members = _members(data, context)
    mistakes += members.mistakes
    name, wrong = _name(data, document.path, reading)
    mistakes += wrong
    instruction, wrong = _instruction(data, folder)
    mistakes += wrong
    mistakes += _role_mistakes(data, members.made)
    if mistakes:
        raise refusal(document, mistakes)
    stated = data.get("workflow")
    team = Team.model_validate(
        {
            "contextMessageCount": reading.settings.context_message_count,
            "contextCharacters": reading.settings.context_characters,
            **{key: data[key] for key in _PLAIN if key in data},
            "name": name,
            "members": members.made,
            "permissions": members.permissions,
            "teamInstruction": instruction,
        }
    )
    return LoadedTeam(
        team,
        document.path,
        _digest(document),
        stated if isinstance(stated, str) else None,
        members.outside_prompts,
        tuple(_notices(team, reading.registry)),
    )


def _notices(team: Team, registry: Registry) -> Iterator[Notice]:
    """Notices about members' arguments."""
    for member in team.members:
        agent = registry.agents.get(member.agent or "")
        if agent is not None:
            words = member.additional_args
            yield from unused(registry.known, agent, member.id, "additionalArgs", words)


def _digest(document: Document) -> str:
    return f"sha256:{hashlib.sha256(document.text.encode()).hexdigest()}"


_PLAIN = ("workflow", "routing", "budget", "contextMessageCount", "contextCharacters", "roles")


def _role_mistakes(data: Mapping[str, object], members: tuple[Member, ...]) -> Iterator[Mistake]:
    """Unknown pipeline roles, and members that cannot fill theirs."""
    roles = data.get("roles")
    if isinstance(roles, dict) and roles:
        from coterie.model.pipeline_roles import role_mistakes

        for role, problem in role_mistakes(cast("dict[str, str]", roles), members):
            yield Mistake(("roles", role), problem)


def _shape_mistakes(data: object) -> list[Mistake]:
    try:
        team_entry.team_adapter().validate_python(data)
    except ValidationError as error:
        return mistakes_of(error, data, _keys_at)
    return []


def _keys_at(place: Place) -> tuple[str, ...]:
    match place:
        case ():
            return team_entry.TEAM_KEYS
        case (*_, "permissions"):
            return team_entry.PERMISSION_KEYS
        case (*_, "budget"):
            return team_entry.BUDGET_KEYS
        case (*_, "budget", "perDay" | "perTicket"):
            return team_entry.ALLOWANCE_KEYS
        case ("defaults",):
            return team_entry.DEFAULT_KEYS
        case _:
            return team_entry.MEMBER_KEYS


def _without(data: object, mistakes: list[Mistake]) -> dict[str, object] | None:
    """The rest of the data to check, without what is known to be wrong."""
    if not isinstance(data, dict):
        return None
    spoiled = {mistake.place for mistake in mistakes}
    given = cast("dict[str, object]", data)
    kept = {key: value for key, value in given.items() if (key,) not in spoiled}
    if any(place[:1] == ("permissions",) for place in spoiled):
        kept["permissions"] = "full"  # as for a member, see below
    if isinstance(kept.get("defaults"), dict):
        kept["defaults"] = _pruned(kept["defaults"], ("defaults",), spoiled)
    if isinstance(kept.get("members"), list):
        members = cast("list[object]", kept["members"])
        kept["members"] = [
            _pruned(member, ("members", place), spoiled) for place, member in enumerate(members)
        ]
    return kept


def _pruned(entry: object, at: Place, spoiled: set[Place]) -> object:
    if not isinstance(entry, dict):
        return {}
    depth = len(at)
    wrong = {place[depth] for place in spoiled if len(place) > depth and place[:depth] == at}
    if wrong & _AGENT_KEYS:
        wrong.add("type")  # cannot be checked without the agent
    given = cast("dict[str, object]", entry)
    kept = {key: value for key, value in given.items() if key not in wrong}
    if "permissions" in wrong:
        kept["permissions"] = "full"  # no complaint that "full" is needed: it may be what is meant
    if "env" in wrong and (*at, "env") not in spoiled:
        kept["env"] = _pruned(given["env"], (*at, "env"), spoiled)
    return kept


_AGENT_KEYS: set[str | int] = {"agent", "agentConfigId", "agentName"}


@dataclass(frozen=True)
class _Members:
    made: tuple[Member, ...]
    permissions: object
    """The team's own permissions, as an object."""
    mistakes: list[Mistake]
    outside_prompts: tuple[str, ...]


def _members(data: Mapping[str, object], context: team_members.FileContext) -> _Members:
    entries = cast("list[dict[str, object]]", data.get("members") or [])
    shared = cast("dict[str, object]", data.get("defaults") or {})
    stated = {"permissions": data["permissions"]} if "permissions" in data else {}
    team = team_members.resolve_entry(stated, (), context)
    defaults = team_members.resolve_entry(shared, ("defaults",), context)
    own = [
        team_members.resolve_entry(entry, ("members", place), context)
        for place, entry in enumerate(entries)
    ]
    placed_values = [
        team_members.merged(defaults.placed_values, one.placed_values, team.placed_values)
        for one in own
    ]
    made = [(_member(given, place), given) for place, given in enumerate(placed_values)]
    parts = (defaults, *own)
    return _Members(
        tuple(member for member, _ in made),
        team.placed_values["permissions"].value if stated else None,
        [mistake for part in parts for mistake in part.mistakes]
        + list(team_members.check_members(made, context))
        + [mistake for _, given in made for mistake in _reserved(given)],
        tuple(path for part in parts for path in part.outside_prompts),
    )


def _reserved(placed_values: team_members.PlacedValues) -> Iterator[Mistake]:
    """Mistakes for metadata that has a meaning only in a roles file."""
    given = placed_values.get("metadata")
    if given is None:
        return
    metadata = cast("dict[str, object]", given.value)
    beside = {"permissions": "permissions", team_members.COMMAND: "agent"}
    for key in beside.keys() & metadata.keys():
        yield Mistake((*given.place, key), f"is only for roles files; use {beside[key]} here")


def _member(placed_values: team_members.PlacedValues, place: int) -> Member:
    values = {key: given.value for key, given in placed_values.items()}
    # A missing id has been reported already; the position keeps such members apart.
    known = str(values.setdefault("id", f"#{place}"))
    name = str(values.setdefault("name", known))
    values.setdefault("displayName", name[:1].upper() + name[1:])
    values.setdefault("order", place + 1)
    values.setdefault("type", "ai" if "agentConfigId" in values else "human")
    return Member.model_validate(values)


def _name(
    data: Mapping[str, object], path: Path, reading: ReadContext
) -> tuple[str, list[Mistake]]:
    stated = data.get("name")
    folder = path.parent.name
    if not isinstance(stated, str):
        return (folder if reading.folder_is_name else name_for(path)), []
    if reading.folder_is_name and stated != folder:
        problem = f"is {quoted(stated)}; expected {quoted(folder)}, the name of its folder"
        return stated, [Mistake(("name",), problem)]
    return stated, []


def name_for(path: Path) -> str:
    """The name of a team that does not state one, from its folder or file, made valid."""
    wanted = path.resolve().parent.name if path.name in FILE_NAMES else path.stem
    if safe_name(wanted):
        return wanted
    return re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:64] or "team"


def _instruction(data: Mapping[str, object], folder: Path) -> tuple[str | None, list[Mistake]]:
    stated = data.get("teamInstruction")
    beside = folder / TEAM_INSTRUCTION
    if not beside.is_file():
        return (stated if isinstance(stated, str) else None), []
    try:
        text = read_text(beside)
    except ConfigError as error:
        return None, [Mistake((), str(error).removesuffix("."))]
    first, _, rest = text.partition("\n")
    if first.strip() == UNWRITTEN:
        text = rest.strip()
    if not text or first.strip() == OURS:  # not written yet, or generated from what is stated
        return (stated if isinstance(stated, str) else None), []
    if isinstance(stated, str) and stated.strip() != text.strip():
        problem = f"differs from {TEAM_INSTRUCTION} beside this file; keep one of them"
        return None, [Mistake(("teamInstruction",), problem)]
    return text, []
