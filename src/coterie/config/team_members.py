"""The members of a team file: one name for each thing, defaults, and what must hold of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config.files import Mistake, Place, read_text
from coterie.config.mistakes import did_you_mean, listing, quoted
from coterie.config.registry import Registry
from coterie.errors import ConfigError
from coterie.model.agent import GENERIC, AgentDefinition, KnownAgents
from coterie.model.conversation import YOU
from coterie.model.interaction import NOBODY
from coterie.model.team import RATE_LIMIT, Member, Team, breaks_isolation
from coterie.model.workspace import SHARED_ASSETS, TEAM_INSTRUCTION, shown

LONGEST_PROMPT = 100_000
"""Bytes.  It may go by flag, and the system refuses an argument over 128 KiB."""

LONGEST_PATH = 4096

_TAKEN = frozenset({"team.json", "team.toml", TEAM_INSTRUCTION, SHARED_ASSETS})
"""Files beside the members' folders."""


@dataclass(frozen=True)
class Surroundings:
    """What a team file stands among."""

    folder: Path
    registry: Registry
    user_home: Path | None = None
    project: Path | None = None
    """The project whose own team it is; None for a file from elsewhere, used in any project."""

    def absolute(self, path: str) -> Path:
        """A path in the file: relative to the file, `~` is the user's home."""
        if self.user_home and (path == "~" or path.startswith("~/")):
            path = str(self.user_home) + path[1:]
        # Links are left as they are: `work` in a member's folder is one, and may change.
        return Path(os.path.normpath(self.folder / path))

    def isolating(self, member: Member) -> frozenset[str]:
        """The variables that may not be set for this member."""
        agent = self.registry.agents.get(member.agent or "")
        known = self.registry.known
        return known.isolating(known.of(agent) if agent else None)

    def holds(self, path: str) -> bool:
        """Whether a path in the file stays inside the file's own folder."""
        return self.absolute(path).resolve().is_relative_to(self.folder.resolve())


@dataclass(frozen=True)
class Given:
    """A value under its long name, and where it stands."""

    value: object
    place: Place


Givens = Mapping[str, Given]
Placed = tuple[Member, Givens]


def check_members(members: Sequence[Placed], around: Surroundings) -> Iterator[Mistake]:
    """All that is wrong with members whose entries have the right shape."""
    for index, (member, givens) in enumerate(members):
        at: Place = ("members", index)
        for key, problem, hint in _about(member, around):
            place = givens[key].place if key in givens else at
            yield Mistake(place, problem, hint)
        isolating = around.isolating(member)
        for variable in member.env:
            if breaks_isolation(variable, isolating):
                place = (*givens["env"].place, variable)
                yield Mistake(place, "is set by Coterie for each member; leave it out")
        for key, problem, hint in _metadata(member):
            yield Mistake((*givens["metadata"].place, key), problem, hint)
    yield from _shared_names(members)
    yield from _shared_folders(members)


_Complaint = tuple[str, str, str | None]
"""Key, problem, hint."""


def _about(member: Member, around: Surroundings) -> Iterator[_Complaint]:
    if member.id.casefold() in _TAKEN:
        yield "id", f"is {quoted(member.id)}, which is the name of a file beside it", None
    yield from _of_others(member)
    size = len(member.system_instruction.encode())
    if size > LONGEST_PROMPT:
        yield (
            "systemInstruction",
            f"is {size:,} bytes long; expected at most {LONGEST_PROMPT:,}",
            None,
        )
    yield from _agent(member, around.registry)
    yield from _folders(member, around)
    yield from _worktree(member, around.project)


_REFUSED: Mapping[str, tuple[str, str]] = {
    "network": (
        "Coterie cannot keep an agent from the network",
        'Leave it out, and deny what reaches it: "permissions": {"deny": ["fetch(*)"]}',
    ),
    "auth_profile": (
        "Coterie has no profiles of logins: every member has the login of its CLI",
        "Leave it out; a key of its own is given in a team file, in the member's env.",
    ),
}
"""Metadata of the ticket design that would be believed to hold, with why it does not."""
_KNOWN_METADATA = (RATE_LIMIT, "permissions", *_REFUSED)


def _metadata(member: Member) -> Iterator[_Complaint]:
    """What is said of a member that cannot be held; what means nothing to Coterie is kept."""
    for key, value in member.metadata.items():
        if key in _REFUSED:
            why, hint = _REFUSED[key]
            stands = quoted(value) if isinstance(value, str) else "there"
            yield key, f"is {stands}, but {why}", hint
        elif key not in (COMMAND, *_KNOWN_METADATA) and (
            guess := did_you_mean(key, _KNOWN_METADATA)
        ):
            yield key, f"is not a known key.{guess}", None


def _of_others(member: Member) -> Iterator[_Complaint]:
    """Names by which the record and the screen know somebody else."""
    for key, name in zip(("id", "name", "displayName"), member.names, strict=True):
        if name.casefold() == NOBODY:
            yield key, f"is {quoted(name)}, which is Coterie itself; take another", None
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
        yield "work", f'is "worktree", but {project} is in no git repository', "git init"


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
    yield from _on_its_agent(registry.known, definition, member)


def _on_its_agent(
    known: KnownAgents, definition: AgentDefinition, member: Member
) -> Iterator[_Complaint]:
    """Everything that speaks against this member on this agent."""
    facts = known.of(definition)
    flags, told = known.flags(facts), definition.capabilities
    _, prompts = flags.without_prompts(
        definition.name, member.additional_args, told.system_prompt_flag
    )
    for prompt in prompts:
        yield "additionalArgs", f"has {prompt.flag}; the prompt is given as prompt", None
    has_own_adapter = definition.adapter != GENERIC and bool(definition.adapter or facts)
    if member.model is not None and told.model_flag is None and not has_own_adapter:
        problem = f'is "{member.model}"; {definition.name} has no modelFlag to pass it by'
        hint = "Add capabilities.modelFlag to the agent, or use additionalArgs."
        yield "model", problem, hint
    if member.permissions.mode == "full":
        return
    for flag in flags.yes_to_all(member.additional_args):
        problem = f'has {flag}, which answers yes to everything; that needs permissions "full"'
        yield "additionalArgs", problem, None
    for flag in flags.yes_to_all(definition.base_args):
        registered = f"{definition.name} is registered with {flag}"
        problem = f'needs permissions "full": {registered}, which answers yes to everything'
        yield "permissions", problem, f"Take {flag} out of the baseArgs of {definition.name}."


def _folders(member: Member, around: Surroundings) -> Iterator[_Complaint]:
    theirs = {Path("/"), *([around.user_home.resolve()] if around.user_home else [])}
    for key, path in (("homeDir", member.home_dir), ("workingDir", member.working_dir)):
        if path is not None and Path(path).resolve() in theirs:
            yield (
                key,
                f"is {quoted(path, LONGEST_PATH)}; a member's own folder cannot be yours",
                None,
            )
    work = member.execution_dir
    if work is None or Path(work).is_dir():
        return
    made_later = Path(member.working_dir or around.folder / member.id)
    if not Path(work).is_relative_to(made_later):
        yield "executionDir", f"is {quoted(work, LONGEST_PATH)}; there is no such folder", None


def _shared_names(members: Sequence[Placed]) -> Iterator[Mistake]:
    """A name that meant two members would send `[NEXT: name]` to the wrong one."""
    owners: dict[str, tuple[int, str]] = {}
    for index, (member, givens) in enumerate(members):
        mine: set[str] = set()
        for key, name in zip(("id", "name", "displayName"), member.names, strict=True):
            folded = name.casefold()
            owner = owners.get(folded)
            if owner is not None and owner[0] != index and folded not in mine:
                place = givens[key].place if key in givens else ("members", index)
                other = f"the {owner[1]} of members[{owner[0]}]"
                yield Mistake(place, f"is {quoted(name)}, which is also {other}")
            mine.add(folded)
            owners.setdefault(folded, (index, key))


def _shared_folders(members: Sequence[Placed]) -> Iterator[Mistake]:
    owners: dict[str, tuple[int, str]] = {}
    for index, (member, givens) in enumerate(members):
        for key, path in (("workingDir", member.working_dir), ("homeDir", member.home_dir)):
            if path is None:
                continue
            owner = owners.setdefault(str(Path(path).resolve()), (index, key))
            if owner[0] != index:
                other = f"the {owner[1]} of members[{owner[0]}]"
                yield Mistake(
                    givens[key].place, f"is {quoted(path, LONGEST_PATH)}, which is also {other}"
                )


@dataclass(frozen=True)
class Written:
    """An entry under its long names, with what is wrong about the names."""

    givens: dict[str, Given]
    mistakes: list[Mistake]
    outside_prompts: list[str]
    """Prompt files that lie outside the team file's folder."""


_NAMES: Mapping[str, tuple[str, str]] = {
    # key: (the long name it stands for, which way of writing it is)
    "agent": ("agentConfigId", "short"),
    "agentConfigId": ("agentConfigId", "long"),
    "agentName": ("agentConfigId", "long"),
    "prompt": ("systemInstruction", "short"),
    "promptFile": ("systemInstruction", "short"),
    "systemInstruction": ("systemInstruction", "long"),
    "workDir": ("executionDir", "long"),
    "executionDir": ("executionDir", "long"),
}
"""A short name beside another of the same thing is an error; two long ones may say the same."""


def long_name(key: str) -> str:
    """The one name of what a key means."""
    return _NAMES.get(key, (key, "long"))[0]


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


def written_member(entry: Mapping[str, object], at: Place, around: Surroundings) -> Written:
    """An entry (of `members`, or `defaults`) under its long names."""
    givens: dict[str, Given] = {}
    mistakes: list[Mistake] = []
    outside: list[str] = []
    for key, value in entry.items():
        long, way = _NAMES.get(key, (key, "long"))
        place = (*at, key)
        try:
            meant = Given(_meant(key, long, value, around), place)
        except ConfigError as error:
            mistakes.append(Mistake(place, f"cannot be used: {error}"))
            continue
        if key == "promptFile" and not around.holds(str(value)):
            outside.append(str(around.absolute(str(value))))
        first = givens.setdefault(long, meant)
        if first is not meant:
            mistakes += _clash(first, meant, way)
    return Written(givens, mistakes, outside)


def _clash(first: Given, second: Given, way: str) -> Iterator[Mistake]:
    one = first.place[-1]
    short = way == "short" or _NAMES[str(one)][1] == "short"
    if short:
        yield Mistake(second.place, f'means the same as "{one}", which stands there too; keep one')
    elif first.value != second.value:
        yield Mistake(second.place, f'differs from "{one}", which means the same; keep one')


def _meant(key: str, long: str, value: object, around: Surroundings) -> object:
    if long in _FOLDERS:
        return str(around.absolute(str(value)))
    if key == "promptFile":
        return _prompt(around.absolute(str(value)))
    if key == "permissions" and isinstance(value, str):
        return {"mode": value}
    return value


def _prompt(path: Path) -> str:
    text = read_text(path)
    if "\0" in text:
        raise ConfigError(f"{shown(path)} holds null characters.", None, str(path))
    return text


def merged(defaults: Givens, own: Givens, team: Givens) -> Givens:
    """What a member has of its own, over what all have; variables are merged one by one.

    A mode that is not named is that of the defaults, else that of the team.
    """
    human = own["type"].value == "human" if "type" in own else False
    under = {key: given for key, given in defaults.items() if not (human and key in _OF_AN_AGENT)}
    made = {**under, **own}
    if "env" in under and "env" in own:
        both = {**_variables(under["env"]), **_variables(own["env"])}
        made["env"] = Given(both, own["env"].place)
    if "agentConfigId" in made:
        layers = (layer.get("permissions") for layer in (own, under, team))
        made |= _with_mode([layer for layer in layers if layer])
    return made


def _with_mode(layers: Sequence[Given]) -> Givens:
    for layer in layers:
        mode = _variables(layer).get("mode")
        if mode is not None:
            # Rules of the team hold for everybody, and stay with the team.
            rules = {} if layers[0].place == ("permissions",) else _variables(layers[0])
            return {"permissions": Given({**rules, "mode": mode}, layers[0].place)}
    return {}


def _variables(given: Given) -> dict[str, object]:
    return cast("dict[str, object]", given.value)


COMMAND = "cli_command"
"""In the metadata of a member whose agent is no registry's: what it runs."""


def agents_of(team: Team | Sequence[Member]) -> dict[str, AgentDefinition]:
    """The generic agents that a roles file's commands stand for, by name."""
    members = team.members if isinstance(team, Team) else team
    found: dict[str, AgentDefinition] = {}
    for member in members:
        command = member.metadata.get(COMMAND)
        if isinstance(command, str) and member.agent is not None:
            program, *args = shlex.split(command)
            found[member.agent] = AgentDefinition(
                name=member.agent,
                display_name=member.agent,
                command=program,
                base_args=tuple(args),
                adapter="generic",
            )
    return found
