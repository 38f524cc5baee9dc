"""The teams of a project: which one to use (`-t`, the only one, the default, `--agents`), and what
the user has allowed them.

A team file is trusted by its content and its path: if it changes or moves, it must be reviewed
again.  Rules that the user made by answering questions are stored beside the team file, not in it:
the file may be somebody else's, or have comments that an edit would lose.
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
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from coterie.config.files import storage_errors
from coterie.config.git_index import tracked_below
from coterie.config.mistakes import MODEL, did_you_mean, listing, quoted, sentence
from coterie.config.project import Project, expanded
from coterie.config.registry import Registry
from coterie.config.settings import Settings
from coterie.config.team_file import FILE_NAMES, LoadedTeam, ReadContext, load_team, team_path
from coterie.config.team_members import COMMAND, FileContext, PlacedValue, check_members
from coterie.config.trust_record import is_trusted, record_trust, trust_entry
from coterie.errors import ConfigError, NotFound, NotTrusted, UsageError
from coterie.model.agent import KnownAgents
from coterie.model.team import Member, Team, safe_name
from coterie.model.workspace import shown
from coterie.workspace.beneath import open_folder, read_file, replace_file

ADHOC = "adhoc"
"""The name of a team given on the command line."""


class AgentsOption(NamedTuple):
    """An option that names agents instead of a team, with examples of its use."""

    name: str
    example: str
    with_model: str


AGENTS = AgentsOption("--agents", "--agents claude,codex", "--agents sec=claude:opus,perf=codex")
ONE_AGENT = AgentsOption("--agent", "--agent claude", "--agent claude:opus")


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
    option: AgentsOption | None = AGENTS,
) -> LoadedTeam:
    """Find the requested team, read and check it, and require that the user trusts it.

    `option` is what the user could have given instead, if anything.
    """
    settings = settings or Settings()
    here = teams_of(project)
    path = _default(here, settings, option) if word is None else _named(word, here)
    loaded = load_team(path, reading_for(path, project, registry, settings))
    require_trust(loaded, project, home)
    return loaded


def reading_for(
    path: Path, project: Project | None, registry: Registry, settings: Settings | None = None
) -> ReadContext:
    """The context for reading a team file: the project's own teams are named by their folders."""
    folder = team_path(path).parent
    own = project is not None and folder.parent.resolve() == project.teams.resolve()
    return ReadContext(registry, settings or Settings(), folder_is_name=own)


def _named(word: str, here: Mapping[str, Path]) -> Path:
    if word in here:
        return here[word]
    path = expanded(word)
    if "/" in word or path.suffix in (".json", ".toml"):
        return team_path(path)
    guess = did_you_mean(word, here)
    hint = None if here else f"coterie team new {word} --agents claude,codex"
    raise NotFound(f"No team {quoted(word)}. Here: {listing(here)}.{guess}", hint)


def _default(here: Mapping[str, Path], settings: Settings, option: AgentsOption | None) -> Path:
    if len(here) == 1:
        return next(iter(here.values()))
    if settings.default_team is not None and settings.default_team in here:
        return here[settings.default_team]
    if not here:
        other = option.example if option else "coterie team new NAME"
        raise NotFound("There is no team here yet.", f"coterie init, or {other}")
    first = next(iter(here))
    raise UsageError(f"Which team? Here: {listing(here)}.", f"Name one: -t {first}")


@dataclass(frozen=True)
class MemberSpec:
    """One part of `--agents`: `[id=]agent[:model]`."""

    id: str
    agent: str
    model: str | None = None


def member_specs(spec: str, option: AgentsOption = AGENTS) -> tuple[MemberSpec, ...]:
    """Parse `--agents claude,sec=codex:gpt-5.5`; agents that are repeated get numbered ids."""
    parsed: list[MemberSpec] = []
    taken: set[str] = set()
    for part in (one.strip() for one in spec.split(",")):
        named, equals, rest = part.partition("=")
        agent, _, model = (rest if equals else named).partition(":")
        wanted = named if equals else agent
        if not agent or not safe_name(wanted) or (model and not re.fullmatch(MODEL, model)):
            raise UsageError(
                f"{quoted(part)} in {option.name} is not understood.",
                f"Write it like {option.example} or {option.with_model}",
            )
        member_id = wanted if equals else _free(wanted, taken)
        taken.add(member_id.casefold())
        parsed.append(MemberSpec(member_id, agent, model or None))
    return tuple(parsed)


def _free(wanted: str, taken: set[str]) -> str:
    number = 2
    free = wanted
    while free.casefold() in taken:
        free, number = f"{wanted}{number}", number + 1
    return free


def team_of_agents(
    spec: str,
    registry: Registry,
    settings: Settings | None = None,
    option: AgentsOption = AGENTS,
) -> LoadedTeam:
    """A team without a file, for `--agents`."""
    settings = settings or Settings()
    members = tuple(
        _member_of(one, order) for order, one in enumerate(member_specs(spec, option), 1)
    )
    placed = [(member, _places(member)) for member in members]
    wrong = list(check_members(placed, FileContext(Path.cwd(), registry)))
    if wrong:
        sentences = [sentence(f"{option.name}:", mistake) for mistake in wrong]
        raise UsageError("\n".join(sentences), wrong[0].hint)
    team = Team(
        name=ADHOC,
        members=members,
        context_message_count=settings.context_message_count,
        context_characters=settings.context_characters,
    )
    return LoadedTeam(team, None)


def _places(member: Member) -> dict[str, PlacedValue]:
    names = {"id": "id", "agentConfigId": "agent", "model": "model"}
    return {key: PlacedValue(None, (member.id, name)) for key, name in names.items()}


def _member_of(spec: MemberSpec, order: int) -> Member:
    return Member(
        id=spec.id,
        name=spec.id,
        display_name=spec.id[:1].upper() + spec.id[1:],
        order=order,
        agent=spec.agent,
        model=spec.model,
    )


@dataclass(frozen=True)
class Power:
    """Something a team file asks for that could do harm."""

    member: str
    kind: str
    """The key that asks for it."""
    what: str
    """The details for a person to review; of variables only the names."""


_UNASKED_MODES = {"full": "never asks", "accept-edits": "edits files unasked"}
"""What modes allow unasked, beyond what a user who did not write the file would expect."""


def powers(loaded: LoadedTeam, project: Project | None = None) -> tuple[Power, ...]:
    """Everything a team file asks for that could do harm."""
    result = [
        Power(member.id, kind, what)
        for member in loaded.team.members
        for kind, what in _powers_of(member, project)
    ]
    shared = loaded.team.permissions
    if shared and shared.allow:
        what = f"does not ask about {_words(shared.allow)}"
        result.append(Power(loaded.team.name, "allow", what))
    result += [
        Power(loaded.team.name, "promptFile", f"takes a prompt from {path}")
        for path in loaded.outside_prompts
    ]
    return tuple(result)


def _powers_of(member: Member, project: Project | None) -> Iterator[tuple[str, str]]:
    if member.permissions.mode in _UNASKED_MODES:
        yield member.permissions.mode, _UNASKED_MODES[member.permissions.mode]
    if member.permissions.allow:
        yield "allow", f"does not ask about {_words(member.permissions.allow)}"
    if COMMAND in member.metadata:
        yield COMMAND, f"runs {_words([str(member.metadata[COMMAND])])}"
    if member.env:
        yield "env", f"sets {', '.join(member.env)}"
    if member.additional_args:
        yield "additionalArgs", f"adds {_words(member.additional_args)}"
    yield from _folders(member, project)


def _folders(member: Member, project: Project | None) -> Iterator[tuple[str, str]]:
    if (
        project
        and member.execution_dir
        and (where := _folder_warning(member.execution_dir, project))
    ):
        yield "workDir", f"works in {member.execution_dir}, {where}"
    # Even inside the project: files there become the member's own, and programs load them.
    if member.working_dir:
        yield "workingDir", f"keeps its files in {member.working_dir}"
    if member.home_dir:
        yield "homeDir", f"has its home in {member.home_dir}"


def _folder_warning(folder: str, project: Project) -> str:
    """Why a work folder is not just an ordinary part of the project; empty if it is."""
    place = Path(folder).resolve()
    if not place.is_relative_to(project.root):
        return "outside the project"
    # Paths guarded by name, such as `.git`, cannot be recognized from inside them.
    hidden = any(name.startswith(".") for name in place.relative_to(project.root).parts)
    return "among the configuration of programs" if hidden else ""


def _words(words: Sequence[str]) -> str:
    return " ".join(quoted(word, len(word)) for word in words)  # all of it is reviewed


def require_trust(loaded: LoadedTeam, project: Project, home: Path | None = None) -> None:
    """Refuse a team that asks for powers the user has not reviewed."""
    path = loaded.path
    wanted = powers(loaded, project)
    if path is None or not wanted:
        return
    if _is_the_users(path, project) or _is_trusted(loaded, path, home):
        return
    kinds: dict[str, list[str]] = {}
    for power in wanted:
        kinds.setdefault(power.member, []).append(power.kind)
    summary = "; ".join(f"{member}: {', '.join(names)}" for member, names in kinds.items())
    raise NotTrusted(
        f"{shown(path)} asks for powers that you have not reviewed ({summary}).",
        f"coterie team trust {shlex.quote(shown(path))}",
        str(path),
    )


def _is_the_users(path: Path, project: Project) -> bool:
    """Whether only the user writes the file: it is under `.coterie`, and git tracks none of it."""
    inside = path.resolve().is_relative_to(project.folder.resolve())
    return inside and tracked_below(project.folder) is None


def trust(loaded: LoadedTeam, now: str, home: Path | None = None) -> None:
    """Record that the user has reviewed this content."""
    record_trust(_key(loaded), str(loaded.path), now, home)


def _key(loaded: LoadedTeam) -> str:
    """The key for trust in a team: its file's content and path, and the prompts that it uses.

    The path counts because the same text can allow other things where other files are.
    """
    place = str(loaded.path.resolve()) if loaded.path else ""
    prompts = [member.system_instruction for member in loaded.team.members]
    seen = json.dumps([place, loaded.digest, prompts])
    return f"team:{hashlib.sha256(seen.encode()).hexdigest()}"


def _is_trusted(loaded: LoadedTeam, path: Path, home: Path | None) -> bool:
    # An earlier version recorded the path under the file's digest alone.
    before = trust_entry(loaded.digest, home)
    return is_trusted(_key(loaded), home) or before.get("path") == str(path)


def instruction_files(known: KnownAgents, root: Path) -> tuple[str, ...]:
    """The instruction files for agents that a folder contains."""
    names = (name for facts in known.all for name in facts.instructions)
    return tuple(name for name in dict.fromkeys(names) if (root / name).is_file())


_RULES: TypeAdapter[dict[str, list[str]]] = TypeAdapter(dict[str, list[str]])


def rules_path(project: Project, team: str) -> Path:
    """Where a team's learned rules are stored."""
    return project.teams / team / "rules.json"


def learned_rules(project: Project, team: str) -> Mapping[str, list[str]]:
    """By member: the rules for what it may do unasked, from the user's answers."""
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
    """Store one more rule; returns the file that holds it."""
    path = rules_path(project, team)
    with storage_errors(path.parent), open_folder(project.folder, "teams", team, make=True) as at:
        fcntl.flock(at, fcntl.LOCK_EX)  # the user may be answering in another terminal too
        rules = {name: list(known) for name, known in learned_rules(project, team).items()}
        mine = rules.setdefault(member, [])
        if rule not in mine:
            mine.append(rule)
            text = json.dumps(rules, indent=2, ensure_ascii=False) + "\n"
            replace_file(at, path.name, text.encode(), durable=True)
    return path


def with_learned(team: Team, rules: Mapping[str, list[str]]) -> Team:
    """The team with these rules added to its members' permissions."""
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
