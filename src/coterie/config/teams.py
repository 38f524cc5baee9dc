"""The teams of a project: which one is meant (`-t`, the only one, the default, `--agents`), and
writing team files: a new team, another member, every field spelled out."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config.files import Document, parse_json, parse_toml, read_document, write_atomically
from coterie.config.mistakes import MODEL, did_you_mean, listing, quoted, sentence
from coterie.config.project import Project, expanded
from coterie.config.registry import Registry
from coterie.config.roles_file import roles_path
from coterie.config.settings import FILE_NAME as SETTINGS
from coterie.config.settings import Settings, set_value
from coterie.config.team_file import (
    FILE_NAMES,
    LoadedTeam,
    Reading,
    interpret,
    load_team,
    team_path,
)
from coterie.config.team_members import Given, Surroundings, check_members, long_name
from coterie.config.trust import require_trust
from coterie.errors import ConfigError, NotFound, UsageError
from coterie.model.team import Member, Team, safe_name
from coterie.model.workspace import shown

ADHOC = "adhoc"
"""The name of a team that was made on the command line."""


@dataclass(frozen=True)
class TeamPlace:
    """A team of the project, not read yet."""

    name: str
    path: Path


def teams_of(project: Project) -> tuple[TeamPlace, ...]:
    """The project's own teams, by name."""
    try:
        folders = sorted(project.teams.iterdir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UsageError(f"{project.teams} cannot be read: {error.strerror}.") from None
    return tuple(
        TeamPlace(folder.name, folder)
        for folder in folders
        if safe_name(folder.name) and any((folder / name).exists() for name in FILE_NAMES)
    )


def choose_team(
    project: Project,
    word: str | None,
    registry: Registry,
    settings: Settings | None = None,
    home: Path | None = None,
) -> LoadedTeam:
    """The team that is meant, read, checked and allowed to be used."""
    settings = settings or Settings()
    here = {place.name: place.path for place in teams_of(project)}
    path = _default(here, settings) if word is None else _named(word, here)
    loaded = load_team(path, reading_for(path, project, registry, settings))
    require_trust(loaded, project, home)
    return loaded


def reading_for(
    path: Path,
    project: Project | None,
    registry: Registry,
    settings: Settings | None = None,
) -> Reading:
    """How a team file is read: one of the project's own is called as its folder is."""
    folder = team_path(path).parent
    own = project is not None and folder.parent.resolve() == project.teams.resolve()
    return Reading(registry, settings or Settings(), folder_is_name=own)


def roles_word(project: Project) -> str | None:
    """What names the project's roles file as a team; None where there is none."""
    path = roles_path(project)
    return None if path is None else str(path)


def _named(word: str, here: Mapping[str, Path]) -> Path:
    if word in here:
        return here[word]
    path = expanded(word)
    if "/" in word or path.suffix in (".json", ".toml"):
        return team_path(path)
    guess = did_you_mean(word, here)
    hint = None if here else f"coterie team new {word} --agents claude,codex"
    raise NotFound(f"No team {quoted(word)}. Here: {listing(here)}.{guess}", hint)


def _default(here: Mapping[str, Path], settings: Settings) -> Path:
    if len(here) == 1:
        return next(iter(here.values()))
    if settings.default_team is not None and settings.default_team in here:
        return here[settings.default_team]
    if not here:
        raise NotFound("There is no team here yet.", "coterie init, or --agents claude,codex")
    first = next(iter(here))
    raise UsageError(f"Which team? Here: {listing(here)}.", f"Name one: -t {first}")


def mark_default(project: Project, name: str) -> None:
    """Make a team the one that is meant when none is named."""
    set_value(project.folder / SETTINGS, "defaultTeam", name)


# -- without a file ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Seat:
    """One part of `--agents`: `[id=]agent[:model]`."""

    id: str
    agent: str
    model: str | None = None


def seats(spec: str) -> tuple[Seat, ...]:
    """What `--agents claude,sec=codex:gpt-5.5` asks for; agents that come twice are numbered."""
    found: list[Seat] = []
    taken: set[str] = set()
    for part in (one.strip() for one in spec.split(",")):
        named, equals, rest = part.partition("=")
        agent, _, model = (rest if equals else named).partition(":")
        wanted = named if equals else agent
        if not agent or not safe_name(wanted) or (model and not re.fullmatch(MODEL, model)):
            raise UsageError(
                f"{quoted(part)} in --agents is not understood.",
                "Write it like --agents claude,codex or --agents sec=claude:opus,perf=codex",
            )
        member_id = wanted if equals else _free(wanted, taken)
        taken.add(member_id.casefold())
        found.append(Seat(member_id, agent, model or None))
    return tuple(found)


def _free(wanted: str, taken: set[str]) -> str:
    number = 2
    free = wanted
    while free.casefold() in taken:
        free, number = f"{wanted}{number}", number + 1
    return free


def team_of_agents(spec: str, registry: Registry, settings: Settings | None = None) -> LoadedTeam:
    """A team without a file, for `--agents`."""
    settings = settings or Settings()
    members = tuple(_sitting(seat, place) for place, seat in enumerate(seats(spec), 1))
    placed = [(member, _places(member)) for member in members]
    wrong = list(check_members(placed, Surroundings(Path.cwd(), registry)))
    if wrong:
        said = [sentence("--agents:", mistake) for mistake in wrong]
        raise UsageError("\n".join(said), wrong[0].hint)
    team = Team(
        name=ADHOC,
        members=members,
        context_message_count=settings.context_message_count,
        context_characters=settings.context_characters,
    )
    return LoadedTeam(team, None)


def _places(member: Member) -> dict[str, Given]:
    names = {"id": "id", "agentConfigId": "agent", "model": "model"}
    return {key: Given(None, (member.id, name)) for key, name in names.items()}


def _sitting(seat: Seat, order: int) -> Member:
    return Member(
        id=seat.id,
        name=seat.id,
        display_name=seat.id[:1].upper() + seat.id[1:],
        order=order,
        agent=seat.agent,
        model=seat.model,
    )


Entry = Mapping[str, object]
"""A member as it is written in a team file."""

_ITS_OWN = frozenset({"id", "name", "displayName", "order"})


def entry_of(seat: Seat) -> Entry:
    """The shortest entry for one part of `--agents`."""
    entry: dict[str, object] = {"id": seat.id, "agent": seat.agent}
    return {**entry, "model": seat.model} if seat.model else entry


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
    """Write a new team into the project; nothing is written that would not be read again."""
    if not safe_name(name):
        raise UsageError(f"{quoted(name)} is no name for a team.", "Use letters, digits, . _ -")
    folder = project.teams / name
    if any((folder / file).exists() for file in FILE_NAMES):
        raise UsageError(f"There is a team {quoted(name)} already.", f"coterie team show {name}")
    data: dict[str, object] = {"members": [dict(entry) for entry in entries]}
    if workflow is not None:
        data = {"workflow": workflow, **data}
    path = folder / FILE_NAMES[0]
    text = render(data)
    loaded = interpret(parse_json(path, text), Reading(registry, folder_is_name=True))
    write_atomically(path, text)
    return loaded


def add_member(
    path: Path,
    entry: Entry,
    registry: Registry,
    project: Project | None = None,
    like: str | None = None,
) -> LoadedTeam:
    """Add a member to a team file, which keeps all else it says; `like` copies another's entry."""
    document = read_document(team_path(path))
    reading = reading_for(path, project, registry)
    interpret(document, reading)  # what is wrong already is not blamed on the new member
    if like is not None:
        entry = _like(document, like, entry)
    changed = _with_member(document, entry)
    loaded = interpret(changed, reading)
    mode = stat.S_IMODE(document.path.stat().st_mode)
    write_atomically(document.path, changed.text, mode)
    return loaded


def rename_member(
    path: Path, member: str, name: str, registry: Registry, project: Project
) -> LoadedTeam:
    """Give a member another id in its team file: a new member, with a folder of its own."""
    document = read_document(team_path(path))
    reading = reading_for(path, project, registry)
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
    changed = parse_json(document.path, render({**data, "members": members}))
    loaded = interpret(changed, reading)
    mode = stat.S_IMODE(document.path.stat().st_mode)
    write_atomically(document.path, changed.text, mode)
    return loaded


def _members(document: Document) -> list[dict[str, object]]:
    return cast("dict[str, list[dict[str, object]]]", document.data)["members"]


def _like(document: Document, like: str, entry: Entry) -> Entry:
    known = {str(member["id"]).casefold(): member for member in _members(document)}
    found = known.get(like.casefold())
    if found is None:
        here = ", ".join(str(member["id"]) for member in _members(document))
        raise NotFound(f"No member {quoted(like)} in {shown(document.path)}. Here: {here}.")
    said = {long_name(key) for key in entry}
    copied = {
        key: value
        for key, value in found.items()
        if key not in _ITS_OWN and long_name(key) not in said
    }
    return {"id": entry["id"], **copied, **entry}


def _with_member(document: Document, entry: Entry) -> Document:
    if document.kind == "json":
        data = cast("dict[str, object]", document.data)
        text = render({**data, "members": [*_members(document), dict(entry)]})
        return parse_json(document.path, text)
    # TOML is added to as text: people chose it for their comments.
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
        # A JSON string is a TOML string, but for the one control character JSON leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
