"""The registry of version 1.1: how it is read, and what it becomes in 1.2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from coterie.config.files import Notice
from coterie.config.mistakes import quoted
from coterie.errors import InvalidTime
from coterie.model import instant
from coterie.model.agent import AgentFacts, KnownAgents
from coterie.model.flags import DroppedPrompt

VERSION = "1.1"
MIGRATE = "coterie agents migrate"

_SAME = ("name", "displayName", "command", "usePty", "version", "adapter", "env")
_REPLACED = ("args", "baseArgs", "capabilities", "installedAt", "completion", "endMarker")
"""`endMarker` waited for a `[DONE]` that no agent prints: a turn's end is known otherwise now."""


@dataclass(frozen=True)
class Modern:
    """An entry in its new form, with what was left behind."""

    entry: object
    yes: tuple[str, ...] = ()
    """Arguments that answer yes to everything."""
    dropped: tuple[DroppedPrompt, ...] = ()
    ignored: tuple[str, ...] = ()


def modernise(
    known: KnownAgents, entries: Mapping[str, object]
) -> tuple[dict[str, object], tuple[Notice, ...]]:
    """A 1.1 file's content in the form of 1.2, and what a reader of it should be told."""
    made: dict[str, object] = {"schemaVersion": "1.2"}
    notices = [Notice("The registry is of version 1.1; it is still read.", MIGRATE)]
    if "agents" in entries:
        made["agents"] = entries["agents"]
    if isinstance(entries.get("agents"), dict):
        agents: dict[str, object] = {}
        for name, entry in cast("dict[str, object]", entries["agents"]).items():
            modern = modern_entry(known, name, entry)
            agents[name] = modern.entry
            notices += [
                Notice(f"{name}: a prompt in its arguments is not used ({prompt.flag}).", MIGRATE)
                for prompt in modern.dropped
            ]
            notices += notices_of(name, modern)
        made["agents"] = agents
    return made, tuple(notices)


def notices_of(name: str, modern: Modern) -> list[Notice]:
    """What a person should know of one entry besides the prompts that were taken out of it."""
    said: list[Notice] = []
    if modern.ignored:
        keys = ", ".join(quoted(key) for key in modern.ignored)
        said.append(Notice(f"{name}: {keys} is not used any more."))
    said += [
        Notice(
            f"{name}: {flag} answers yes to everything; "
            "only members with permissions full may use it.",
            f"Take {flag} out of the baseArgs of {name}.",
        )
        for flag in modern.yes
    ]
    return said


def modern_entry(known: KnownAgents, name: str, entry: object) -> Modern:
    """One old entry in its new form; what cannot be read is left for the check to refuse."""
    if not isinstance(entry, dict):
        return Modern(entry)
    given = {
        key: value for key, value in cast("dict[str, object]", entry).items() if value is not None
    }
    args = given.get("baseArgs", given.get("args", []))
    words = texts(args)
    if words is None:
        return Modern({**{key: given[key] for key in _SAME if key in given}, "baseArgs": args})
    facts = known.ours.get(name)
    flags = known.flags(facts)
    capabilities = _capabilities(given, facts)
    kept, dropped = flags.without_prompts(name, words, capabilities.get("systemPromptFlag"))
    made = {key: given[key] for key in _SAME if key in given}
    if facts is not None:
        made.setdefault("displayName", facts.display_name)
    made["baseArgs"] = list(kept)
    made["capabilities"] = capabilities
    ignored = [key for key in given if key not in _SAME and key not in _REPLACED]
    ignored += _moment(given, made)
    return Modern(made, tuple(flags.yes_to_all(kept)), dropped, tuple(ignored))


def texts(value: object) -> list[str] | None:
    """A list of texts, or None where it is something else."""
    if not isinstance(value, list):
        return None
    words = cast("list[object]", value)
    found = [word for word in words if isinstance(word, str)]
    return found if len(found) == len(words) else None


def _moment(given: Mapping[str, object], made: dict[str, object]) -> list[str]:
    """Old times are often without an offset; a time nobody relies on is no reason to refuse."""
    if "installedAt" not in given:
        return []
    try:
        made["installedAt"] = instant.parse(str(given["installedAt"]))
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
