"""The teams of a project: which one is meant (`-t`, the only one, the default, `--agents`), and
what the user has allowed them.

A team file is trusted by its content and its place: one that changed is looked at again, and so is
the same one elsewhere.  Rules that the user made by answering are kept beside the team and not in
its file: that may be somebody else's, or have comments that an edit would lose.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from coterie.config.files import storage_errors
from coterie.config.git_index import tracked_below
from coterie.config.mistakes import MODEL, did_you_mean, listing, quoted, sentence
from coterie.config.project import Project, expanded
from coterie.config.registry import Registry
from coterie.config.settings import Settings
from coterie.config.team_file import FILE_NAMES, LoadedTeam, Reading, load_team, team_path
from coterie.config.team_members import COMMAND, Given, Surroundings, check_members
from coterie.config.trust_record import is_trusted, record_trust, trust_entry
from coterie.errors import ConfigError, NotFound, NotTrusted, UsageError
from coterie.model.agent import KnownAgents
from coterie.model.team import Member, Team, safe_name
from coterie.model.workspace import shown
from coterie.workspace.beneath import opened_folder, read_file, replace_file

ADHOC = "adhoc"
"""The name of a team that was made on the command line."""


def teams_of(project: Project) -> dict[str, Path]:
    """The folders of the project's own teams, by name."""
    try:
        folders = sorted(project.teams.iterdir())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{project.teams} cannot be read: {error.strerror}.") from None
    return {
        folder.name: folder
        for folder in folders
        if safe_name(folder.name) and any((folder / name).exists() for name in FILE_NAMES)
    }


def choose_team(
    project: Project,
    word: str | None,
    registry: Registry,
    settings: Settings | None = None,
    home: Path | None = None,
) -> LoadedTeam:
    """The team that is meant, read, checked and allowed to be used."""
    settings = settings or Settings()
    here = teams_of(project)
    path = _default(here, settings) if word is None else _named(word, here)
    loaded = load_team(path, reading_for(path, project, registry, settings))
    require_trust(loaded, project, home)
    return loaded


def reading_for(
    path: Path, project: Project | None, registry: Registry, settings: Settings | None = None
) -> Reading:
    """How a team file is read: one of the project's own is called as its folder is."""
    folder = team_path(path).parent
    own = project is not None and folder.parent.resolve() == project.teams.resolve()
    return Reading(registry, settings or Settings(), folder_is_name=own)


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


@dataclass(frozen=True)
class Power:
    """Something a team file asks for that could do harm."""

    member: str
    kind: str
    """Which key asks for it."""
    what: str
    """All of it, for a person who wants to look; of variables only their names."""


_LOOSER = {"full": "never asks", "accept-edits": "edits files unasked"}
"""What modes do unasked that nobody chose who did not write them."""


def powers(loaded: LoadedTeam, project: Project | None = None) -> tuple[Power, ...]:
    """All that a team file asks for."""
    found = [
        Power(member.id, kind, what)
        for member in loaded.team.members
        for kind, what in _asked(member, project)
    ]
    shared = loaded.team.permissions
    if shared and shared.allow:
        what = f"asks nobody about {_words(shared.allow)}"
        found.append(Power(loaded.team.name, "allow", what))
    found += [
        Power(loaded.team.name, "promptFile", f"takes a prompt from {path}")
        for path in loaded.outside_prompts
    ]
    return tuple(found)


def _asked(member: Member, project: Project | None) -> Iterator[tuple[str, str]]:
    if member.permissions.mode in _LOOSER:
        yield member.permissions.mode, _LOOSER[member.permissions.mode]
    if member.permissions.allow:
        yield "allow", f"is not asked about {_words(member.permissions.allow)}"
    if COMMAND in member.metadata:
        yield COMMAND, f"runs {quoted(str(member.metadata[COMMAND]), 200)}"
    if member.env:
        yield "env", f"sets {', '.join(member.env)}"
    if member.additional_args:
        yield "additionalArgs", f"adds {_words(member.additional_args)}"
    yield from _folders(member, project)


def _folders(member: Member, project: Project | None) -> Iterator[tuple[str, str]]:
    if project and member.execution_dir and (where := _odd_place(member.execution_dir, project)):
        yield "workDir", f"works in {member.execution_dir}, {where}"
    # Even inside: what lies there is taken for the member's own, and programs start with it.
    if member.working_dir:
        yield "workingDir", f"keeps its files in {member.working_dir}"
    if member.home_dir:
        yield "homeDir", f"has its home in {member.home_dir}"


def _odd_place(folder: str, project: Project) -> str:
    """Why a work folder is more than a part of the project; empty where it is not."""
    place = Path(folder).resolve()
    if not place.is_relative_to(project.root):
        return "outside the project"
    # What is guarded by its name, such as `.git`, is not told from other files inside of it.
    hidden = any(name.startswith(".") for name in place.relative_to(project.root).parts)
    return "among what programs are set up by" if hidden else ""


def _words(words: Sequence[str]) -> str:
    return " ".join(quoted(word, 200) for word in words)


def require_trust(loaded: LoadedTeam, project: Project, home: Path | None = None) -> None:
    """Refuse a team that asks for powers nobody has looked at."""
    path = loaded.path
    wanted = powers(loaded, project)
    if path is None or not wanted:
        return
    if _is_the_users(path, project) or _is_trusted(loaded, path, home):
        return
    kinds: dict[str, list[str]] = {}
    for power in wanted:
        kinds.setdefault(power.member, []).append(power.kind)
    said = "; ".join(f"{member}: {', '.join(asked)}" for member, asked in kinds.items())
    raise NotTrusted(
        f"{shown(path)} asks for powers that you have not looked at ({said}).",
        f"coterie team trust {shlex.quote(shown(path))}",
        str(path),
    )


def _is_the_users(path: Path, project: Project) -> bool:
    """Under `.coterie` only the user writes, unless somebody put that folder under git."""
    inside = path.resolve().is_relative_to(project.folder.resolve())
    return inside and tracked_below(project.folder) is None


def trust(loaded: LoadedTeam, now: str, home: Path | None = None) -> None:
    """Record that the user has looked at this content."""
    record_trust(_key(loaded), str(loaded.path), now, home)


def _key(loaded: LoadedTeam) -> str:
    """What trust in a team is trust in: its file, in this place, with the prompts that it takes.

    The same words let other things be done where other files are.
    """
    place = str(loaded.path.resolve()) if loaded.path else ""
    prompts = [member.system_instruction for member in loaded.team.members]
    seen = json.dumps([place, loaded.digest, prompts])
    return f"team:{hashlib.sha256(seen.encode()).hexdigest()}"


def _is_trusted(loaded: LoadedTeam, path: Path, home: Path | None) -> bool:
    # Of an earlier version the place stands beside the digest alone.
    before = trust_entry(loaded.digest, home)
    return is_trusted(_key(loaded), home) or before.get("path") == str(path)


def instruction_files(known: KnownAgents, root: Path) -> tuple[str, ...]:
    """The instruction files that a folder brings for agents."""
    names = (name for facts in known.all for name in facts.instructions)
    return tuple(name for name in dict.fromkeys(names) if (root / name).is_file())


_RULES: TypeAdapter[dict[str, list[str]]] = TypeAdapter(dict[str, list[str]])


def rules_path(project: Project, team: str) -> Path:
    """Where a team's rules are."""
    return project.teams / team / "rules.json"


def learned_rules(project: Project, team: str) -> Mapping[str, list[str]]:
    """By member: what it may do unasked since the user said so."""
    path = rules_path(project, team)
    try:
        return _RULES.validate_json(read_file(project.folder, "teams", team, path.name))
    except FileNotFoundError:
        return {}
    except ValidationError:
        raise ConfigError(
            f"{shown(path)} is not an object of lists of rules.",
            'Write {"member": ["run(npm test)"]}, or delete it.',
            str(path),
        ) from None


def learn_rule(project: Project, team: str, member: str, rule: str) -> Path:
    """Keep one more rule; returns the file that holds it now."""
    path = rules_path(project, team)
    with storage_errors(path.parent), opened_folder(project.folder, "teams", team, make=True) as at:
        fcntl.flock(at, fcntl.LOCK_EX)  # somebody may answer in another terminal just now
        rules = {name: list(known) for name, known in learned_rules(project, team).items()}
        mine = rules.setdefault(member, [])
        if rule not in mine:
            mine.append(rule)
            text = json.dumps(rules, indent=2, ensure_ascii=False) + "\n"
            replace_file(at, path.name, text.encode(), durable=True)
    return path


def with_learned(team: Team, rules: Mapping[str, list[str]]) -> Team:
    """The team with these rules added to what its members may do."""
    if not rules:
        return team
    members = tuple(
        member.model_copy(
            update={
                "permissions": member.permissions.model_copy(
                    update={"allow": (*member.permissions.allow, *rules.get(member.id, ()))}
                )
            }
        )
        for member in team.members
    )
    return team.model_copy(update={"members": members})
