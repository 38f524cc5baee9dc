"""Reading what agents print: whatever a field holds, it has the type that was asked for."""

from __future__ import annotations

from typing import Any, cast

from coterie.agents.wire import Object
from coterie.process.stdio_turns import clean

LONGEST = 20_000
"""So much of any text is kept of what goes into a tool and comes out of it."""
DEEPEST = 40
LONGEST_SAID = 2_000
"""So much of what an agent said is shown beside its question."""


def mapping(value: object) -> Object:
    """A JSON object; an empty one where it is something else."""
    return cast("Object", value) if isinstance(value, dict) else {}


def mappings(value: object) -> list[Object]:
    """The JSON objects of a list."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Object", item) for item in listed if isinstance(item, dict)]


def text(value: object) -> str:
    """A text that any store can take; an empty one where it is something else."""
    return clean(value) if isinstance(value, str) else ""


def strings(value: object) -> list[str]:
    """The texts of a list."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [clean(item) for item in listed if isinstance(item, str)]


def number(value: object) -> int | float:
    """A number; 0 where it is something else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def texts(value: object) -> str:
    """What a message or a tool result says: a text, or the texts of its blocks."""
    if isinstance(value, str):
        return text(value)
    said = (text(block.get("text")) or f"[{text(block.get('type'))}]" for block in mappings(value))
    return "\n".join(said)


def brief(said: str) -> str:
    """What an agent said, as far as it is shown beside its question."""
    return str(bounded(said, LONGEST_SAID))


def bounded(value: object, longest: int = LONGEST, depth: int = DEEPEST) -> Any:
    """JSON data with its texts cut to what is kept, and no deeper than anyone could read."""
    if isinstance(value, str):
        kept = clean(value)
        return kept if len(kept) <= longest else f"{kept[:longest]}… ({len(kept)} characters)"
    if isinstance(value, dict | list) and not depth:
        return "…"
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        return {clean(name): bounded(item, longest, depth - 1) for name, item in given.items()}
    if isinstance(value, list):
        return [bounded(item, longest, depth - 1) for item in cast("list[object]", value)]
    return value
