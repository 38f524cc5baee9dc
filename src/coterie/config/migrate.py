"""`coterie agents migrate`: the registry in its newest form, a copy of the old one kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config import legacy, registry
from coterie.config.files import Document, Notice, keep_copy, locked, read_document
from coterie.config.mistakes import doubled_keys, refusal
from coterie.errors import NotFound
from coterie.model.agent import KnownAgents
from coterie.model.flags import DroppedPrompt


@dataclass(frozen=True)
class Migration:
    """What a migration did; nothing when the registry was as it should be."""

    path: Path
    changed: bool
    backup: Path | None = None
    dropped: tuple[DroppedPrompt, ...] = ()
    notices: tuple[Notice, ...] = ()


def migrate(known: KnownAgents, path: Path | None = None) -> Migration:
    """Rewrite the registry to 1.2 without roles' prompts; done twice it changes nothing more."""
    path = path or registry.registry_path()
    if not path.exists():
        raise NotFound("There is no registry yet.", "coterie agents scan", str(path))
    with locked(path):
        document = read_document(path)
        if document.doubled:
            raise refusal(document, doubled_keys(document))
        cleaned, dropped, notices = _cleaned(known, document.data)
        if cleaned is None:
            registry.interpret(known, document)  # refuses what is neither 1.1 nor 1.2
            return Migration(path, changed=False)
        # Everything is checked before anything is written.
        made = registry.interpret(known, Document(path, document.text, cleaned, document.kind))
        version = cast("Mapping[str, object]", document.data)["schemaVersion"]
        backup = keep_copy(path, f"{path.name}.{version}.bak")
        registry.save_registry(made)
    return Migration(path, True, backup, dropped, notices)


def _cleaned(
    known: KnownAgents, data: object
) -> tuple[dict[str, object] | None, tuple[DroppedPrompt, ...], tuple[Notice, ...]]:
    """The content to be written, or None where there is nothing to do."""
    entries = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    agents = entries.get("agents")
    version = entries.get("schemaVersion")
    if version not in (legacy.VERSION, registry.VERSION) or not isinstance(agents, dict):
        return None, (), ()
    is_old = version == legacy.VERSION
    made: dict[str, object] = {}
    dropped: list[DroppedPrompt] = []
    notices: list[Notice] = []
    for name, entry in cast("dict[str, object]", agents).items():
        modern = (legacy.modern_entry if is_old else _without_prompts)(known, name, entry)
        made[name] = modern.entry
        dropped += modern.dropped
        notices += legacy.notices_of(name, modern) if is_old else ()
    if not is_old and not dropped:
        return None, (), ()
    return {"schemaVersion": registry.VERSION, "agents": made}, tuple(dropped), tuple(notices)


def _without_prompts(known: KnownAgents, name: str, entry: object) -> legacy.Modern:
    if not isinstance(entry, dict):
        return legacy.Modern(entry)
    given = cast("dict[str, object]", entry)
    words = legacy.texts(given.get("baseArgs"))
    if words is None:
        return legacy.Modern(given)
    told = given.get("capabilities")
    flag = (
        cast("dict[str, object]", told).get("systemPromptFlag") if isinstance(told, dict) else None
    )
    kept, dropped = known.flags(known.ours.get(name)).without_prompts(name, words, flag)
    return legacy.Modern({**given, "baseArgs": list(kept)}, dropped=dropped)
