"""The registry file: which agents this machine has, and the technical facts of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import cast

from pydantic import ValidationError

from coterie.config import legacy
from coterie.config.files import (
    Document,
    Mistake,
    Notice,
    Place,
    locked,
    nulls,
    read_document,
    write_atomically,
)
from coterie.config.mistakes import (
    VARIABLE,
    described,
    did_you_mean,
    doubled_keys,
    found_by,
    listing,
    quoted,
    refusal,
    sentence,
)
from coterie.config.project import coterie_home, expanded
from coterie.errors import NotFound, UsageError
from coterie.model.agent import GENERIC, AgentDefinition, AgentFacts, Capabilities, KnownAgents
from coterie.model.flags import split_words
from coterie.model.team import breaks_isolation, safe_name

VERSION = "1.2"

FILE_KEYS = ("$schema", "schemaVersion", "agents")


def _aliases(model: type[AgentDefinition | Capabilities]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


@dataclass(frozen=True)
class Registry:
    """The agents of this machine, by name, and what was worth saying when they were read."""

    path: Path
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    notices: tuple[Notice, ...] = ()
    schema_version: str | None = None
    """The version that stands in the file; None when there is no file yet."""
    known: KnownAgents = field(default=KnownAgents(), repr=False, compare=False)
    """What is known of agents by name, registered or not."""

    def get(self, name: str) -> AgentDefinition:
        """The agent of this name."""
        found = self.agents.get(name)
        if found is None:
            guess = did_you_mean(name, self.agents)
            raise NotFound(
                f"No agent {quoted(name)}. Known: {listing(self.agents)}.{guess}",
                "coterie agents scan",
                str(self.path),
            )
        return found

    def with_agents(self, *more: AgentDefinition) -> Registry:
        """The same with these added, or put in the place of those with their names."""
        return replace(self, agents={**self.agents, **{agent.name: agent for agent in more}})


def registry_path(home: Path | None = None) -> Path:
    """Where the registry is kept."""
    return (home or coterie_home()) / "agents" / "config.json"


def load_registry(known: KnownAgents, path: Path | None = None) -> Registry:
    """Read and check the registry; one that does not exist yet has nobody but the built-in agent.

    Where an agent has an adapter of its own, that chooses the way of calling: mode words in the
    entry's `baseArgs` are dropped with a notice.
    """
    return as_used(_read(known, path or registry_path()))


def as_used(registry: Registry) -> Registry:
    """A registry as it was written, without mode words, and with the agents that are a part of
    Coterie and installed."""
    registry = _with_own(registry)
    agents = registry.agents.items()
    used = {name: _without_mode_words(registry.known, agent) for name, agent in agents}
    return replace(registry, agents=used, notices=(*registry.notices, *_notices(registry, used)))


def _with_own(registry: Registry) -> Registry:
    # They need no entry, but one that is there counts.
    own = [
        AgentDefinition(name=facts.name, display_name=facts.display_name, command=facts.name)
        for facts in registry.known.ours.values()
        if facts.name not in registry.agents and is_included(facts)
    ]
    return registry.with_agents(*own) if own else registry


def is_included(facts: AgentFacts) -> bool:
    """Whether an agent is a part of Coterie whose Python packages were installed."""
    return facts.needs is not None and find_spec(facts.needs) is not None


def _read(known: KnownAgents, path: Path) -> Registry:
    return interpret(known, read_document(path)) if path.exists() else Registry(path, known=known)


def interpret(known: KnownAgents, document: Document) -> Registry:
    """The registry that a document holds, word for word, or a ConfigError with all that is wrong
    with it."""
    if document.doubled:
        raise refusal(document, doubled_keys(document))
    data = document.data
    if not isinstance(data, dict):
        raise refusal(document, [Mistake((), f"is {described(data)}; expected an object")])
    entries = cast("dict[str, object]", data)
    version = entries.get("schemaVersion")
    notices: tuple[Notice, ...] = ()
    if version == legacy.VERSION:
        entries, notices = legacy.modernise(known, entries)
    elif version != VERSION:
        raise refusal(document, [_wrong_version(entries)])
    mistakes = [*_unknown_keys(entries), *_agents_shape(entries)]
    agents, wrong = _definitions(known, entries.get("agents"))
    mistakes += wrong
    if mistakes:
        raise refusal(document, mistakes)
    return Registry(document.path, agents, notices, str(version), known)


def _wrong_version(entries: Mapping[str, object]) -> Mistake:
    if "schemaVersion" not in entries:
        return Mistake((), f'has no "schemaVersion"; expected "{VERSION}"')
    found = described(entries["schemaVersion"])
    return Mistake(("schemaVersion",), f'is {found}; expected "{VERSION}" (or "{legacy.VERSION}")')


def _unknown_keys(entries: Mapping[str, object]) -> Iterator[Mistake]:
    for key in entries:
        if key not in FILE_KEYS:
            yield Mistake((key,), f"is not a known key.{did_you_mean(key, FILE_KEYS)}")


def _agents_shape(entries: Mapping[str, object]) -> Iterator[Mistake]:
    if "agents" not in entries:
        yield Mistake((), 'has no "agents"; expected an object of agents by name')
    elif not isinstance(entries["agents"], dict):
        yield Mistake(("agents",), f"is {described(entries['agents'])}; expected an object")


def _definitions(
    known: KnownAgents, agents: object
) -> tuple[dict[str, AgentDefinition], list[Mistake]]:
    made: dict[str, AgentDefinition] = {}
    mistakes: list[Mistake] = []
    if not isinstance(agents, dict):
        return made, mistakes
    for name, entry in cast("dict[str, object]", agents).items():
        found = _definition(known, name, entry)
        if isinstance(found, AgentDefinition):
            made[name] = found
        else:
            mistakes += found
    return made, mistakes


def _definition(known: KnownAgents, name: str, entry: object) -> AgentDefinition | list[Mistake]:
    at: Place = ("agents", name)
    if not isinstance(entry, dict):
        return [Mistake(at, f"is {described(entry)}; expected an object")]
    given = cast("dict[str, object]", entry)
    mistakes = nulls(given, at)
    if not safe_name(name):
        mistakes.append(Mistake(at, "is no name for an agent; expected letters, digits, . _ or -"))
    try:
        definition = AgentDefinition.model_validate({"name": name, **given}, by_name=False)
    except ValidationError as error:
        found = [replace(one, place=(*at, *one.place)) for one in found_by(error, given, _keys_at)]
        told = {mistake.place for mistake in mistakes}
        return mistakes + [one for one in found if one.place not in told]
    update = {"command": str(expanded(definition.command))}
    if not definition.display_name:
        update["display_name"] = name[:1].upper() + name[1:]
    definition = definition.model_copy(update=update)
    mistakes += [replace(one, place=(*at, *one.place)) for one in _rules(known, name, definition)]
    return mistakes or definition


def _keys_at(place: Place) -> tuple[str, ...]:
    return _aliases(Capabilities if place == ("capabilities",) else AgentDefinition)


# -- rules that span several facts -------------------------------------------------------------


def _rules(known: KnownAgents, name: str, agent: AgentDefinition) -> Iterator[Mistake]:
    if agent.name != name:
        yield Mistake(("name",), f"is {quoted(agent.name)}; expected {quoted(name)}, its key")
    program = PurePath(agent.command)
    if len(program.parts) > 1 and not program.is_absolute():
        expected = "a program on PATH or an absolute path"
        yield Mistake(("command",), f"is {quoted(agent.command)}; expected {expected}")
    yield from _environment(known, agent)
    if "\0" in "".join((agent.command, *agent.base_args)):
        yield Mistake(("baseArgs",), "has a null character, which no program can be given")
    flags, named = known.flags(known.of(agent)), agent.capabilities.system_prompt_flag
    _, prompts = flags.without_prompts(name, agent.base_args, named)
    for prompt in prompts:
        problem = f"holds a role's prompt ({prompt.flag}); it belongs to the member"
        yield Mistake(("baseArgs",), problem, legacy.MIGRATE)
    for mistake in _completion(agent.capabilities):
        yield replace(mistake, place=("capabilities", *mistake.place))


def _environment(known: KnownAgents, agent: AgentDefinition) -> Iterator[Mistake]:
    isolating = known.isolating(known.of(agent))
    for variable, value in agent.env.items():
        if breaks_isolation(variable, isolating):
            yield Mistake(("env", variable), "is set by Coterie for each member; leave it out")
        elif not re.fullmatch(VARIABLE, variable) or "\0" in value:
            yield Mistake(("env", variable), "is no variable that a program can be given")


def _completion(told: Capabilities) -> Iterator[Mistake]:
    detection = told.detection
    if detection == "jsonl" and not told.completion_types:
        yield Mistake((), 'has no "completionTypes"; expected the event types that end a reply')
    if detection == "custom" and (told.completion_pattern is None) == (told.detector is None):
        yield Mistake((), 'is "custom"; expected either a completionPattern or a detector')
    if told.completion_types and detection != "jsonl":
        yield Mistake(("completionTypes",), 'needs "completionDetection": "jsonl"')
    for key, value in (("completionPattern", told.completion_pattern), ("detector", told.detector)):
        if value is not None and detection != "custom":
            yield Mistake((key,), 'needs "completionDetection": "custom"')
    if told.completion_pattern is not None:
        try:
            re.compile(told.completion_pattern)
        except (re.error, OverflowError, RecursionError) as error:
            yield Mistake(("completionPattern",), f"is no regular expression: {error}")


def _without_mode_words(known: KnownAgents, agent: AgentDefinition) -> AgentDefinition:
    kept, dropped = split_words(agent.base_args, known.mode_words(agent))
    return agent.model_copy(update={"base_args": kept}) if dropped else agent


def _notices(registry: Registry, used: Mapping[str, AgentDefinition]) -> Iterator[Notice]:
    known = registry.known
    for name, agent in registry.agents.items():
        adapter, facts = known.adapter_name(agent), known.of(agent)
        # What our own scan wrote is nobody's mistake.
        if used[name] != agent and not (facts and facts.base_args == agent.base_args):
            _, dropped = split_words(agent.base_args, known.mode_words(agent))
            yield Notice(
                f"{name}: {' '.join(dropped)} in baseArgs is not used; "
                f"the {adapter} adapter chooses how it is called."
            )
        told = agent.capabilities
        if told.supports_system_prompt and not told.system_prompt_flag and adapter == GENERIC:
            yield Notice(
                f"{name}: it has no systemPromptFlag, so a role stands in front of the message."
            )


# -- writing -----------------------------------------------------------------------------------


def save_registry(registry: Registry) -> None:
    """Write the registry as a whole, readable by its user alone."""
    write_atomically(registry.path, render(registry.agents))


def render(agents: Mapping[str, AgentDefinition]) -> str:
    """The registry file's text, schema 1.2."""
    data = {
        "schemaVersion": VERSION,
        "agents": {name: _dumped(agent) for name, agent in agents.items()},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _dumped(agent: AgentDefinition) -> dict[str, object]:
    return agent.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def add_agent(
    known: KnownAgents, agent: AgentDefinition, path: Path | None = None, *, replacing: bool = False
) -> Registry:
    """Add one agent by hand; one of that name is only replaced when told to."""
    path = path or registry_path()
    agent = define(known, agent.name, _dumped(agent))
    with locked(path):
        registry = current(known, path)
        if agent.name in registry.agents and not replacing:
            raise UsageError(f'There is an agent "{agent.name}" already.', "coterie agents list")
        registry = registry.with_agents(agent)
        save_registry(registry)
    return registry


def define(known: KnownAgents, name: str, entry: Mapping[str, object]) -> AgentDefinition:
    """An agent from facts that were given on the command line, checked like the file's."""
    made = _definition(known, name, dict(entry))
    if isinstance(made, AgentDefinition):
        return made
    said = [
        sentence("", replace(mistake, place=(name, *mistake.place[2:]))).strip() for mistake in made
    ]
    raise UsageError("\n".join(said), made[0].hint)


def current(known: KnownAgents, path: Path) -> Registry:
    """The registry to be written again; an old one must be migrated first, so nothing is lost."""
    registry = _read(known, path)
    if registry.schema_version == legacy.VERSION:
        raise UsageError(f"The registry is of version {legacy.VERSION}.", legacy.MIGRATE, str(path))
    return registry
