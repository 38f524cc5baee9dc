"""Lenient reading of JSON of unknown origin: a value of an unexpected type reads as empty."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

Json = dict[str, object]


def mapping(value: object) -> Json:
    """The object, or an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def nested(value: object, *keys: str) -> Json:
    """The object below these keys, or an empty one."""
    for key in keys:
        value = mapping(value).get(key)
    return mapping(value)


def items(value: object) -> list[object]:
    """The list, or an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def mappings(value: object) -> Iterator[Json]:
    """The objects in a list."""
    return (cast("Json", item) for item in items(value) if isinstance(item, dict))


def text(value: object) -> str:
    """The text, or an empty one."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> tuple[str, ...]:
    """The texts in a string or in a list of parts with a `text` field."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(part["text"]) for part in mappings(value) if "text" in part)


def parsed(value: str) -> Json | str:
    """Parse a text as a JSON object; returns the text itself if it is not one."""
    try:
        data: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return cast("Json", data) if isinstance(data, dict) else value


def compact(value: object) -> str:
    """Serialize as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
