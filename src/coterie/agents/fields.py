"""Read what agents print: whatever a field holds, the result has the expected type."""

from __future__ import annotations

import difflib
import json
import re
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import PurePath
from typing import Any, cast

from coterie.agents.process import Object
from coterie.model import instant
from coterie.model.visible import patch_lines, patch_name
from coterie.process.streams import clean, replace_surrogates

LONGEST = 20_000
"""The most characters kept of any text in a tool's output."""
DEEPEST = 40
LONGEST_SAID = 2_000
"""The most characters of an agent's words that are shown with its question."""
_GREATEST = 2**53
"""Up to here a float holds every whole number, and sums still fit into 64 bits."""


def mapping(value: object) -> Object:
    """Return the value if it is a JSON object, otherwise an empty one."""
    return cast("Object", value) if isinstance(value, dict) else {}


def mappings(value: object) -> list[Object]:
    """Return the JSON objects in a list."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Object", item) for item in listed if isinstance(item, dict)]


def text(value: object) -> str:
    """Return the value if it is a string, cleaned for any store; otherwise an empty string."""
    return clean(value) if isinstance(value, str) else ""


def strings(value: object) -> list[str]:
    """Return the strings in a list, cleaned for any store."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [clean(item) for item in listed if isinstance(item, str)]


def number(value: object) -> int | float:
    """Return the value if it is a number that any store can hold, otherwise 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0
    return value if abs(value) <= _GREATEST else 0  # which no NaN is


def texts(value: object) -> str:
    """Return the text of a message or tool result: a string, or the texts of its blocks."""
    if isinstance(value, str):
        return text(value)
    parts = (text(block.get("text")) or f"[{text(block.get('type'))}]" for block in mappings(value))
    return "\n".join(parts)


def brief(words: str) -> str:
    """Shorten what an agent said to what is shown with its question."""
    return str(bounded(words, LONGEST_SAID))


def bounded(value: object, longest: int = LONGEST, depth: int = DEEPEST) -> Any:
    """Return JSON data with long strings cut and too deeply nested parts left out."""
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


def verbatim(value: object, depth: int = DEEPEST) -> Any:
    """Return JSON data exactly as a tool gets it, however long: somebody approves it.

    Parts nested deeper than anyone could read become one JSON string.
    """
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict | list) and not depth:
        return replace_surrogates(_as_json(cast("object", value)))
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        return {replace_surrogates(name): verbatim(item, depth - 1) for name, item in given.items()}
    if isinstance(value, list):
        return [verbatim(item, depth - 1) for item in cast("list[object]", value)]
    return value


class _Json(str):
    """A piece of JSON, as opposed to a string that is to become one."""


def _as_json(value: object) -> str:
    """Return what `json.dumps` would, which needs more stack for each level of nesting."""
    pieces: list[str] = []
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if isinstance(item, dict | list):
            remaining += reversed(_spread(cast("dict[str, object] | list[object]", item)))
        else:
            is_json = isinstance(item, _Json)
            pieces.append(item if is_json else json.dumps(item, ensure_ascii=False))
    return "".join(pieces)


def _spread(value: dict[str, object] | list[object]) -> list[object]:
    """Return the pieces of an object or array, with its items between them."""
    if isinstance(value, list):
        named, (first, last) = [("", item) for item in value], "[]"
    else:
        named = [
            (f"{json.dumps(name, ensure_ascii=False)}: ", item) for name, item in value.items()
        ]
        first, last = "{}"
    pieces: list[object] = [_Json(first)]
    for number, (name, item) in enumerate(named):
        pieces += [_Json(f"{', ' if number else ''}{name}"), item]
    return [*pieces, _Json(last)]


def exact_text(value: object) -> str:
    """Return a string exactly as a tool gets it; empty if the value is something else."""
    return replace_surrogates(value) if isinstance(value, str) else ""


NOTHING = "/dev/null"


def unified(path: str, old: str, new: str) -> str:
    """Return one file's unified diff; an empty text means no file.  Comparing may take a while."""
    name = patch_name(path)
    names = (name if old else NOTHING, name if new else NOTHING)
    lines = difflib.unified_diff(patch_lines(old), patch_lines(new), *names, lineterm="")
    return "\n".join(lines) or f"--- {name}\n+++ {name}\n(no change)"


_LONGEST_LIMIT = 8 * 24 * 3600
"""The longest known limit lasts a week; a later end is an error, or a bill to pay."""


def limit_ends_at(moment: float) -> str | None:
    """Return the instant of a Unix timestamp; None if it is past or implausibly far away."""
    left = moment - int(_now().timestamp())
    return instant.of(datetime.fromtimestamp(moment, UTC)) if 0 < left <= _LONGEST_LIMIT else None


def limit_ends_after(seconds: float) -> str | None:
    """Return the instant in this many seconds; None if it is past or implausibly far away."""
    return (
        instant.of(_now() + timedelta(seconds=seconds)) if 0 < seconds <= _LONGEST_LIMIT else None
    )


def _now() -> datetime:
    return datetime.fromisoformat(instant.now())


_GLOB_CHARACTERS = frozenset("*?[{")
_LEADS_UP = re.compile(r"\{[^{}]*(?:/|\.\.)|[{,]\.*[,}/]|\[\.\]")
"""What may become `..`, or hide where a pattern leads: `{a/b,c}`, `{..,a}`, `.{.,a}`, `[.][.]`."""
ANYWHERE = "/"


def searched(folder: str, pattern: str = "") -> str:
    """Return the folder that a search covers: the given one, or where its pattern leads."""
    names = pattern.split("/")
    plain = pattern.replace("\\", "")
    if ".." in plain.split("/") or _LEADS_UP.search(plain):
        return ANYWHERE
    fixed = takewhile(lambda name: not _GLOB_CHARACTERS.intersection(name), names[:-1])
    root = "/" if pattern.startswith("/") else ""
    return str(PurePath(folder or ".", root + "/".join(fixed).lstrip("/")))
