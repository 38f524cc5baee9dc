"""The members of a team file: resolve key names and defaults, and check every member."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config.files import Mistake, Place, read_text
from coterie.config.mistakes import did_you_mean, listing, quoted
from coterie.config.project import user_home
from coterie.config.registry import Registry
from coterie.errors import ConfigError
from coterie.model.agent import GENERIC, AgentDefinition, KnownAgents
from coterie.model.interaction import COTERIE
from coterie.model.team import RATE_LIMIT, YOU, Member, Team, breaks_isolation
from coterie.model.visible import folded
from coterie.model.workspace import SHARED_ASSETS, TEAM_INSTRUCTION, shown

LONGEST_PROMPT = 100_000
"""Bytes.  It may be passed by flag, and the system refuses an argument over 128 KiB."""

LONGEST_PATH = 4096

_TAKEN = frozenset({"team.json", "team.toml", TEAM_INSTRUCTION, SHARED_ASSETS})
"""Names of files beside the members' folders."""


@dataclass(frozen=True)
class FileContext:
    """What the paths and agents in a team file are resolved against."""

    folder: Path
    registry: Registry
    project: Path | None = None
    """The project that the team belongs to; None for a file from elsewhere, used in any project."""

    def absolute(self, path: str) -> Path:
        """Resolve a path in the file: relative to its folder, `~` being the user's home."""
        home = user_home()
        if home and (path == "~" or path.startswith("~/")):
            path = str(home) + path[1:]
        # Symlinks are not resolved: `work` in a member's folder is one, and may change.
        return Path(os.path.normpath(self.folder / path))

    def isolating(self, member: Member) -> frozenset[str]:
        """The environment variables that may not be set for this member."""
        agent = self.registry.agents.get(member.agent or "")
        known = self.registry.known
        return known.isolating(known.of(agent) if agent else None)

    def holds(self, path: str) -> bool:
        """Whether a path in the file stays inside the file's own folder."""
        return _real(self.absolute(path)).is_relative_to(_real(self.folder))


def _real(path: str | Path) -> Path:
    """Resolve a path that anybody may have written; unlike `Path.resolve`, it never fails."""
    return Path(os.path.realpath(path))


@dataclass(frozen=True)
class PlacedValue:
    """A value under its long name, and its place in the file."""

    value: object
    place: Place


PlacedValues = Mapping[str, PlacedValue]
Placed = tuple[Member, PlacedValues]


def check_members(members: Sequence[Placed], context: FileContext) -> Iterator[Mistake]:
    """Yield all mistakes in members whose entries have the right shape."""
    for index, (member, placed_values) in enumerate(members):
        at: Place = ("members", index)
        for key, problem, hint in _complaints(member, context):
            place = placed_values[key].place if key in placed_values else at
            yield Mistake(place, problem, hint)
        isolating = context.isolating(member)
        for variable in member.env:
            if breaks_isolation(variable, isolating):
                place = (*placed_values["env"].place, variable)
                yield Mistake(place, "is set by Coterie for each member; leave it out")
        for key, problem, hint in _metadata(member):
            yield Mistake((*placed_values["metadata"].place, key), problem, hint)
    yield from _shared_names(members)
    yield from _shared_folders(members)


_Complaint = tuple[str, str, str | None]
"""Key, problem, hint."""


def _complaints(member: Member, context: FileContext) -> Iterator[_Complaint]:
    if member.id.casefold() in _TAKEN:
        yield "id", f"is {quoted(member.id)}, which is the name of a file beside it", None
    yield from _reserved_names(member)
    size = len(member.system_instruction.encode())
    if size > LONGEST_PROMPT:
        yield (
            "systemInstruction",
            f"is {size:,} bytes long; expected at most {LONGEST_PROMPT:,}",
            None,
        )
    yield from _agent(member, context.registry)
    yield from _folders(member, context)
    yield from _worktree(member, context.project)


_REFUSED: Mapping[str, tuple[str, str]] = {
    "network": (
        "Coterie cannot block an agent's network access",
        'Remove it, and deny access through tools: "permissions": {"deny": ["fetch(*)"]}',
    ),
    "auth_profile": (
        "Coterie has no login profiles: every member uses its CLI's login",
        "Remove it; to give a member its own key, set it in the member's env in a team file.",
    ),
}
"""Metadata of the ticket design that users would believe to be enforced, and why it is not."""
_KNOWN_METADATA = (RATE_LIMIT, "permissions", *_REFUSED)


def _metadata(member: Member) -> Iterator[_Complaint]:
    """Complain about metadata that cannot be enforced or looks misspelt; allow any other key."""
    for key, value in member.metadata.items():
        if key in _REFUSED:
            why, hint = _REFUSED[key]
            stands = quoted(value) if isinstance(value, str) else "there"
            yield key, f"is {stands}, but {why}", hint
        elif key not in (COMMAND, *_KNOWN_METADATA) and (
            guess := did_you_mean(key, _KNOWN_METADATA)
        ):
            yield key, f"is not a known key.{guess}", None


def _reserved_names(member: Member) -> Iterator[_Complaint]:
    """Complain about names that already denote somebody else in records and on screen."""
    for key, name in zip(("id", "name", "displayName"), member.names, strict=True):
        if name.casefold() == COTERIE:
            yield key, f"is {quoted(name)}, which is reserved for Coterie; choose another", None
        elif name.casefold() == YOU and member.type != "human":
            who = "the person at the terminal"
            yield key, f"is {quoted(name)}, which is {who}; an agent needs another", None
        else:
            continue
        return


def _worktree(member: Member, project: Path | None) -> Iterator[_Complaint]:
    if member.work == "link":
        return
    if member.execution_dir is not None:
        problem = f'is "worktree", but workDir names {quoted(member.execution_dir, LONGEST_PATH)}'
        yield "work", f"{problem}; keep one", None
    up = (project, *project.parents) if project else ()
    if project and not any((folder / ".git").exists() for folder in up):
        yield "work", f'is "worktree", but {project} is not in a git repository', "git init"


def _agent(member: Member, registry: Registry) -> Iterator[_Complaint]:
    agents = registry.agents
    if member.type == "human":
        if member.agent is not None:
            yield "agentConfigId", f'is {quoted(member.agent)}, but its type is "human"', None
        return
    if member.agent is None:
        yield "type", f'is "ai", but it has no agent; known: {listing(agents)}', None
        return
    definition = agents.get(member.agent)
    if definition is None:
        guess = did_you_mean(member.agent, agents)
        hint = None if guess else "coterie agents scan"
        yield "agentConfigId", f"is {quoted(member.agent)}; known: {listing(agents)}.{guess}", hint
        return
    yield from _agent_conflicts(registry.known, definition, member)


def _agent_conflicts(
    known: KnownAgents, definition: AgentDefinition, member: Member
) -> Iterator[_Complaint]:
    """Yield everything that rules out this member on this agent."""
    facts = known.of(definition)
    flags, spec = known.flags(facts), definition.capabilities
    _, prompts = flags.without_prompts(
        definition.name, member.additional_args, spec.system_prompt_flag
    )
    for prompt in prompts:
        yield "additionalArgs", f'has {prompt.flag}; the prompt belongs in "prompt"', None
    has_own_adapter = definition.adapter != GENERIC and bool(definition.adapter or facts)
    if member.model is not None and spec.model_flag is None and not has_own_adapter:
        problem = f'is "{member.model}"; {definition.name} has no modelFlag to pass it by'
        hint = "Add capabilities.modelFlag to the agent, or use additionalArgs."
        yield "model", problem, hint
    if member.permissions.mode == "full":
        return
    for flag in flags.auto_approving(member.additional_args):
        problem = f'has {flag}, which approves everything; that needs permissions "full"'
        yield "additionalArgs", problem, None
    for flag in flags.auto_approving(definition.base_args):
        registered = f"{definition.name} is registered with {flag}"
        problem = f'needs permissions "full": {registered}, which approves everything'
        yield "permissions", problem, f"Remove {flag} from the baseArgs of {definition.name}."


def _folders(member: Member, context: FileContext) -> Iterator[_Complaint]:
    home = user_home()
    theirs = {Path("/"), *([_real(home)] if home else [])}
    for key, path in (("homeDir", member.home_dir), ("workingDir", member.working_dir)):
        if path is not None and _real(path) in theirs:
            yield (
                key,
                f"is {quoted(path, LONGEST_PATH)}; a member's own folder cannot be yours",
                None,
            )
    work = member.execution_dir
    if work is None or os.path.isdir(work):  # noqa: PTH112 - no error for a name too long
        return
    made_later = Path(member.working_dir or context.folder / member.id)
    if not Path(work).is_relative_to(made_later):
        yield "executionDir", f"is {quoted(work, LONGEST_PATH)}; there is no such folder", None


def _shared_names(members: Sequence[Placed]) -> Iterator[Mistake]:
    """Refuse ambiguous names: they would send `[NEXT: name]` to the wrong member."""
    owners: dict[str, tuple[int, str]] = {}
    for index, (member, placed_values) in enumerate(members):
        mine: set[str] = set()
        for key, name in zip(("id", "name", "displayName"), member.names, strict=True):
            spoken = folded(name)
            owner = owners.get(spoken)
            if owner is not None and owner[0] != index and spoken not in mine:
                place = placed_values[key].place if key in placed_values else ("members", index)
                other = f"the {owner[1]} of members[{owner[0]}]"
                yield Mistake(place, f"is {quoted(name)}, which is also {other}")
            mine.add(spoken)
            owners.setdefault(spoken, (index, key))


def _shared_folders(members: Sequence[Placed]) -> Iterator[Mistake]:
    owners: dict[str, tuple[int, str]] = {}
    for index, (member, placed_values) in enumerate(members):
        for key, path in (("workingDir", member.working_dir), ("homeDir", member.home_dir)):
            if path is None:
                continue
            owner = owners.setdefault(str(_real(path)), (index, key))
            if owner[0] != index:
                other = f"the {owner[1]} of members[{owner[0]}]"
                yield Mistake(
                    placed_values[key].place,
                    f"is {quoted(path, LONGEST_PATH)}, which is also {other}",
                )


@dataclass(frozen=True)
class ResolvedEntry:
    """An entry under its long names, with the mistakes found in resolving them."""

    placed_values: dict[str, PlacedValue]
    mistakes: list[Mistake]
    outside_prompts: list[str]
    """Prompt files that lie outside the team file's folder."""


_LONG_NAMES: Mapping[str, str] = {
    "agent": "agentConfigId",
    "agentName": "agentConfigId",
    "prompt": "systemInstruction",
    "promptFile": "systemInstruction",
    "workDir": "executionDir",
}
_SHORT = frozenset({"agent", "prompt", "promptFile"})
"""A short name beside another name for the same thing is an error; two long names may agree."""


def long_name(key: str) -> str:
    """The long name of a key that may be a short one."""
    return _LONG_NAMES.get(key, key)


_FOLDERS = frozenset({"executionDir", "homeDir", "workingDir"})
_OF_AN_AGENT = frozenset(
    {
        "additionalArgs",
        "agentConfigId",
        "budget",
        "capabilities",
        "env",
        "metadata",
        "model",
        "permissions",
        "supportsMultipleInstances",
        "systemInstruction",
        "work",
    }
)


def resolve_entry(entry: Mapping[str, object], at: Place, context: FileContext) -> ResolvedEntry:
    """Resolve an entry (of `members`, or `defaults`) to its long names."""
    placed_values: dict[str, PlacedValue] = {}
    mistakes: list[Mistake] = []
    outside: list[str] = []
    for key, value in entry.items():
        long, place = long_name(key), (*at, key)
        try:
            meant = PlacedValue(_meant(key, long, value, context), place)
        except ConfigError as error:
            mistakes.append(Mistake(place, f"cannot be used: {error}"))
            continue
        if key == "promptFile" and not context.holds(str(value)):
            outside.append(str(context.absolute(str(value))))
        first = placed_values.setdefault(long, meant)
        if first is not meant:
            mistakes += _clash(first, meant)
    return ResolvedEntry(placed_values, mistakes, outside)


def _clash(first: PlacedValue, second: PlacedValue) -> Iterator[Mistake]:
    one = first.place[-1]
    if not _SHORT.isdisjoint((one, second.place[-1])):
        yield Mistake(second.place, f'means the same as "{one}", which is also given; keep one')
    elif first.value != second.value:
        yield Mistake(second.place, f'conflicts with "{one}", which means the same; keep one')


def _meant(key: str, long: str, value: object, context: FileContext) -> object:
    if long in _FOLDERS:
        return str(context.absolute(str(value)))
    if key == "promptFile":
        return _prompt(context.absolute(str(value)))
    if key == "permissions" and isinstance(value, str):
        return {"mode": value}
    return value


def _prompt(path: Path) -> str:
    text = read_text(path)
    if "\0" in text:
        raise ConfigError(f"{shown(path)} holds null characters.", None, str(path))
    return text


def merged(defaults: PlacedValues, own: PlacedValues, team: PlacedValues) -> PlacedValues:
    """A member's own values over the defaults; environment variables are merged one by one.

    A mode that is not stated comes from the defaults, else from the team.
    """
    human = own["type"].value == "human" if "type" in own else False
    under = {key: given for key, given in defaults.items() if not (human and key in _OF_AN_AGENT)}
    values = {**under, **own}
    if "env" in under and "env" in own:
        both = {**_variables(under["env"]), **_variables(own["env"])}
        values["env"] = PlacedValue(both, own["env"].place)
    if "agentConfigId" in values:
        layers = (layer.get("permissions") for layer in (own, under, team))
        values |= _with_mode([layer for layer in layers if layer])
    return values


def _with_mode(layers: Sequence[PlacedValue]) -> PlacedValues:
    for layer in layers:
        mode = _variables(layer).get("mode")
        if mode is not None:
            # Team rules apply to everybody, and stay with the team.
            rules = {} if layers[0].place == ("permissions",) else _variables(layers[0])
            return {"permissions": PlacedValue({**rules, "mode": mode}, layers[0].place)}
    return {}


def _variables(given: PlacedValue) -> dict[str, object]:
    return cast("dict[str, object]", given.value)


COMMAND = "cli_command"
"""The metadata key for the command of a member whose agent is not in the registry."""


def agents_of(team: Team | Sequence[Member]) -> dict[str, AgentDefinition]:
    """The generic agents for the commands of a roles file, by name."""
    members = team.members if isinstance(team, Team) else team
    agents: dict[str, AgentDefinition] = {}
    for member in members:
        command = member.metadata.get(COMMAND)
        if isinstance(command, str) and member.agent is not None:
            program, *args = shlex.split(command)
            agents[member.agent] = AgentDefinition(
                name=member.agent,
                display_name=member.agent,
                command=program,
                base_args=tuple(args),
                adapter="generic",
            )
    return agents
