"""Which team is meant: `-t` by name or path, the only one, the marked one, or `--agents`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.config.files import expanded
from coterie.config.mistakes import did_you_mean, listing, quoted, sentence
from coterie.config.patterns import MODEL
from coterie.config.project import Project
from coterie.config.registry import Registry
from coterie.config.roles_file import roles_path
from coterie.config.settings import FILE_NAME as SETTINGS
from coterie.config.settings import Settings, set_value
from coterie.config.team_file import FILE_NAMES, LoadedTeam, Reading, load_team, team_path
from coterie.config.team_members import Given
from coterie.config.team_rules import Surroundings, check_members
from coterie.config.trust import require_trust
from coterie.errors import NotFound, UsageError
from coterie.model.team import Member, Team, safe_name

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
