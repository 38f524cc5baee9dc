"""The registry file: which agents this machine has, and the technical facts of each.

A file of version 1.1 is read too, converted to 1.2.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import cast

from pydantic import ValidationError

from coterie.config.files import Document, Mistake, Notice, Place, nulls, read_document
from coterie.config.mistakes import (
    VARIABLE,
    described,
    did_you_mean,
    mistakes_of,
    object_in,
    quoted,
    refusal,
)
from coterie.config.project import coterie_home, expanded
from coterie.errors import InvalidTime
from coterie.model import instant
from coterie.model.agent import GENERIC, AgentDefinition, AgentFacts, Capabilities, KnownAgents
from coterie.model.flags import DroppedPrompt, split_words
from coterie.model.team import breaks_isolation, safe_name

VERSION = "1.2"

FILE_KEYS = ("schemaVersion", "agents")


@dataclass(frozen=True)
class Registry:
    """The agents of this machine by name, and the notices from reading them."""

    path: Path
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    notices: tuple[Notice, ...] = ()
    schema_version: str | None = None
    """The version stated in the file; None when there is no file yet."""
    known: KnownAgents = field(default=KnownAgents(), repr=False, compare=False)
    """What is known of agents by name, registered or not."""

    def with_agents(self, *more: AgentDefinition) -> Registry:
        """Return a copy with these agents added, replacing those of the same name."""
        return replace(self, agents={**self.agents, **{agent.name: agent for agent in more}})

    def with_all_known(self) -> Registry:
        """Return a copy with every agent that is known by name, as if it were installed."""
        known = (facts for name, facts in self.known.ours.items() if name not in self.agents)
        return self.with_agents(*(facts.definition(facts.name, None, "") for facts in known))


def registry_path(home: Path | None = None) -> Path:
    """Where the registry is stored."""
    return (home or coterie_home()) / "agents" / "config.json"


def load_registry(known: KnownAgents, path: Path | None = None) -> Registry:
    """Read and check the registry; one that does not exist yet holds only the built-in agent.

    An adapter written for an agent decides how it is called, so mode words in the entry's
    `baseArgs` are dropped with a notice.
    """
    return as_used(read_registry(known, path or registry_path()))


def as_used(registry: Registry) -> Registry:
    """The registry as Coterie uses it: without mode words, and with the installed agents that are
    part of Coterie."""
    registry = _with_own(registry)
    agents = registry.agents.items()
    used = {name: _without_mode_words(registry.known, agent) for name, agent in agents}
    return replace(registry, agents=used, notices=(*registry.notices, *_notices(registry)))


def _with_own(registry: Registry) -> Registry:
    # They need no entry, but an existing entry takes precedence.
    own = [
        AgentDefinition(name=facts.name, display_name=facts.display_name, command=facts.name)
        for facts in registry.known.ours.values()
        if facts.name not in registry.agents and is_included(facts)
    ]
    return registry.with_agents(*own) if own else registry


def is_included(facts: AgentFacts) -> bool:
    """Whether an agent is part of Coterie and its Python packages are installed."""
    return facts.needs is not None and find_spec(facts.needs) is not None


def read_registry(known: KnownAgents, path: Path) -> Registry:
    """The registry exactly as written."""
    return interpret(known, read_document(path)) if path.exists() else Registry(path, known=known)


def interpret(known: KnownAgents, document: Document) -> Registry:
    """The registry that a document holds, exactly as written; raises ConfigError with all its
    mistakes."""
    entries = object_in(document)
    version = entries.get("schemaVersion")
    notices: tuple[Notice, ...] = ()
    if version == OLD_VERSION:
        entries, notices = modernize(known, entries)
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
    version = described(entries["schemaVersion"])
    return Mistake(("schemaVersion",), f'is {version}; expected "{VERSION}" (or "{OLD_VERSION}")')


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
    definitions: dict[str, AgentDefinition] = {}
    mistakes: list[Mistake] = []
    if not isinstance(agents, dict):
        return definitions, mistakes
    for name, entry in cast("dict[str, object]", agents).items():
        parsed = definition_of(known, name, entry)
        if isinstance(parsed, AgentDefinition):
            definitions[name] = parsed
        else:
            mistakes += parsed
    return definitions, mistakes


def definition_of(known: KnownAgents, name: str, entry: object) -> AgentDefinition | list[Mistake]:
    """The agent that an entry describes, or all mistakes in the entry."""
    at: Place = ("agents", name)
    if not isinstance(entry, dict):
        return [Mistake(at, f"is {described(entry)}; expected an object")]
    given = cast("dict[str, object]", entry)
    mistakes = nulls(given, at)
    if not safe_name(name):
        mistakes.append(
            Mistake(at, "is not a valid agent name; expected letters, digits, . _ or -")
        )
    try:
        definition = AgentDefinition.model_validate({"name": name, **given}, by_name=False)
    except ValidationError as error:
        new = [replace(one, place=(*at, *one.place)) for one in mistakes_of(error, given, _keys_at)]
        reported = {mistake.place for mistake in mistakes}
        return mistakes + [one for one in new if one.place not in reported]
    update = {"command": str(expanded(definition.command))}
    if not definition.display_name:
        update["display_name"] = name[:1].upper() + name[1:]
    definition = definition.model_copy(update=update)
    mistakes += [replace(one, place=(*at, *one.place)) for one in _rules(known, name, definition)]
    return mistakes or definition


def _keys_at(place: Place) -> tuple[str, ...]:
    model = Capabilities if place == ("capabilities",) else AgentDefinition
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _rules(known: KnownAgents, name: str, agent: AgentDefinition) -> Iterator[Mistake]:
    if agent.name != name:
        yield Mistake(("name",), f"is {quoted(agent.name)}; expected {quoted(name)}, its key")
    program = PurePath(agent.command)
    if len(program.parts) > 1 and not program.is_absolute():
        expected = "a program on PATH or an absolute path"
        yield Mistake(("command",), f"is {quoted(agent.command)}; expected {expected}")
    yield from _environment(known, agent)
    if "\0" in "".join((agent.command, *agent.base_args)):
        yield Mistake(("baseArgs",), "has a null character, which cannot be passed to a program")
    flags, named = known.flags(known.of(agent)), agent.capabilities.system_prompt_flag
    _, prompts = flags.without_prompts(name, agent.base_args, named)
    for prompt in prompts:
        problem = f"holds a role's prompt ({prompt.flag}); it belongs to the member"
        yield Mistake(("baseArgs",), problem, MIGRATE)
    for mistake in _completion(agent.capabilities):
        yield replace(mistake, place=("capabilities", *mistake.place))


def _environment(known: KnownAgents, agent: AgentDefinition) -> Iterator[Mistake]:
    isolating = known.isolating(known.of(agent))
    for variable, value in agent.env.items():
        if breaks_isolation(variable, isolating):
            yield Mistake(("env", variable), "is set by Coterie for each member; leave it out")
        elif not re.fullmatch(VARIABLE, variable) or "\0" in value:
            yield Mistake(("env", variable), "is not a valid environment variable")


def _completion(spec: Capabilities) -> Iterator[Mistake]:
    detection = spec.detection
    if detection == "jsonl" and not spec.completion_types:
        yield Mistake((), 'has no "completionTypes"; expected the event types that end a reply')
    if detection == "custom" and (spec.completion_pattern is None) == (spec.detector is None):
        yield Mistake((), 'is "custom"; expected either a completionPattern or a detector')
    if spec.completion_types and detection != "jsonl":
        yield Mistake(("completionTypes",), 'needs "completionDetection": "jsonl"')
    for key, value in (("completionPattern", spec.completion_pattern), ("detector", spec.detector)):
        if value is not None and detection != "custom":
            yield Mistake((key,), 'needs "completionDetection": "custom"')
    if spec.completion_pattern is not None:
        try:
            re.compile(spec.completion_pattern)
        except (re.error, OverflowError, RecursionError) as error:
            yield Mistake(("completionPattern",), f"is not a valid regular expression: {error}")


def _without_mode_words(known: KnownAgents, agent: AgentDefinition) -> AgentDefinition:
    kept, dropped = split_words(agent.base_args, known.mode_words(agent))
    return agent.model_copy(update={"base_args": kept}) if dropped else agent


def unused(
    known: KnownAgents, agent: AgentDefinition, who: str, key: str, words: Sequence[str]
) -> Iterator[Notice]:
    """Notices about arguments that an agent's own adapter does not pass on."""
    if dropped := known.unused_words(agent, words):
        yield Notice(
            f"{who}: {shlex.join(dropped)} in {key} is ignored; "
            f"the {known.adapter_name(agent)} adapter decides how the agent is started."
        )


def _was_scanned(known: KnownAgents, agent: AgentDefinition) -> bool:
    """Whether our own scan wrote the arguments, so that the user need not be told about them."""
    facts = known.of(agent)
    unchanged = facts is not None and facts.base_args == agent.base_args
    return unchanged and agent.installed_at is not None


def _notices(registry: Registry) -> Iterator[Notice]:
    known = registry.known
    for name, agent in registry.agents.items():
        adapter = known.adapter_name(agent)
        if not _was_scanned(known, agent):
            yield from unused(known, agent, name, "baseArgs", agent.base_args)
        spec = agent.capabilities
        if spec.supports_system_prompt and not spec.system_prompt_flag and adapter == GENERIC:
            yield Notice(
                f"{name}: it has no systemPromptFlag, so a role is put before the message."
            )


OLD_VERSION = "1.1"
MIGRATE = "coterie agents migrate"

_SAME = ("name", "displayName", "command", "usePty", "version", "adapter", "env")
_REPLACED = ("args", "baseArgs", "capabilities", "installedAt", "completion", "endMarker")
"""`endMarker` waited for a `[DONE]` that no agent prints; a turn's end is found otherwise now."""


@dataclass(frozen=True)
class ModernEntry:
    """An entry in its new form, with what was left out of it."""

    entry: object
    yes: tuple[str, ...] = ()
    """Arguments that answer yes to everything."""
    dropped: tuple[DroppedPrompt, ...] = ()
    ignored: tuple[str, ...] = ()


def modernize(
    known: KnownAgents, entries: Mapping[str, object]
) -> tuple[dict[str, object], tuple[Notice, ...]]:
    """Convert the content of a 1.1 file to 1.2; also return the notices for the user."""
    made = {"schemaVersion": VERSION} | {key: entries[key] for key in ("agents",) if key in entries}
    notices = [Notice("The registry has the old format 1.1, which is still read.", MIGRATE)]
    if isinstance(agents := entries.get("agents"), dict):
        given = cast("dict[str, object]", agents).items()
        modern = {name: modern_entry(known, name, entry) for name, entry in given}
        made["agents"] = {name: one.entry for name, one in modern.items()}
        for name, one in modern.items():
            notices += [
                Notice(f"{name}: a prompt in its arguments is not used ({prompt.flag}).", MIGRATE)
                for prompt in one.dropped
            ]
            notices += notices_of(name, one)
    return made, tuple(notices)


def notices_of(name: str, modern: ModernEntry) -> list[Notice]:
    """Notices about one converted entry, except for the prompts that were removed from it."""
    notices: list[Notice] = []
    if modern.ignored:
        keys = ", ".join(quoted(key) for key in modern.ignored)
        notices.append(Notice(f"{name}: {keys} is no longer used."))
    notices += [
        Notice(
            f"{name}: {flag} approves everything; only members with permissions full may use it.",
            f"Remove {flag} from the baseArgs of {name}.",
        )
        for flag in modern.yes
    ]
    return notices


def modern_entry(known: KnownAgents, name: str, entry: object) -> ModernEntry:
    """Convert one old entry; anything unreadable is left for validation to refuse."""
    if not isinstance(entry, dict):
        return ModernEntry(entry)
    given = {
        key: value for key, value in cast("dict[str, object]", entry).items() if value is not None
    }
    args = given.get("baseArgs", given.get("args", []))
    words = texts(args)
    if words is None:
        return ModernEntry({**{key: given[key] for key in _SAME if key in given}, "baseArgs": args})
    facts = known.ours.get(name)
    flags = known.flags(facts)
    capabilities = _capabilities(given, facts)
    kept, dropped = flags.without_prompts(name, words, capabilities.get("systemPromptFlag"))
    converted = {key: given[key] for key in _SAME if key in given}
    if facts is not None:
        converted.setdefault("displayName", facts.display_name)
    converted["baseArgs"] = list(kept)
    converted["capabilities"] = capabilities
    ignored = [key for key in given if key not in _SAME and key not in _REPLACED]
    ignored += _moment(given, converted)
    return ModernEntry(converted, tuple(flags.auto_approving(kept)), dropped, tuple(ignored))


def texts(value: object) -> list[str] | None:
    """The value if it is a list of strings, else None."""
    if not isinstance(value, list):
        return None
    words = cast("list[object]", value)
    strings = [word for word in words if isinstance(word, str)]
    return strings if len(strings) == len(words) else None


def _moment(given: Mapping[str, object], converted: dict[str, object]) -> list[str]:
    """Convert `installedAt`; returns it as an ignored key if it is invalid.

    Old times often lack an offset, and a time nobody relies on is no reason to refuse the file.
    """
    if "installedAt" not in given:
        return []
    try:
        converted["installedAt"] = instant.parse(str(given["installedAt"]))
    except InvalidTime:
        return ["installedAt"]
    return []


def _capabilities(given: Mapping[str, object], facts: AgentFacts | None) -> dict[str, object]:
    stated = given.get("capabilities")
    if isinstance(stated, dict):
        return cast("dict[str, object]", stated)
    if facts is not None:
        return dict(facts.capabilities)
    if given.get("completion") == "jsonl":
        return {"completionDetection": "jsonl", "completionTypes": ["result", "turn.completed"]}
    return {"completionDetection": "idleTimeout"}
