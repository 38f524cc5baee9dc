"""Reading what agents print: whatever a field holds, it has the type that was asked for."""

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
from coterie.process.streams import clean, whole

LONGEST = 20_000
"""So much of any text is kept of what comes out of a tool."""
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


def exactly(value: object, depth: int = DEEPEST) -> Any:
    """JSON data as it goes into a tool, however long: somebody says yes to it.

    What is deeper than anyone could read is one text.
    """
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict | list) and not depth:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        return {whole(name): exactly(item, depth - 1) for name, item in given.items()}
    if isinstance(value, list):
        return [exactly(item, depth - 1) for item in cast("list[object]", value)]
    return value


def exact_text(value: object) -> str:
    """A text as it goes into a tool; an empty one where it is something else."""
    return whole(value) if isinstance(value, str) else ""


NOTHING = "/dev/null"


def unified(path: str, old: str, new: str) -> str:
    """The change of one file; an empty text stands for no file.  To compare may take a while."""
    name = patch_name(path)
    names = (name if old else NOTHING, name if new else NOTHING)
    lines = difflib.unified_diff(patch_lines(old), patch_lines(new), *names, lineterm="")
    return "\n".join(lines) or f"--- {name}\n+++ {name}\n(no change)"


_FARTHEST = 8 * 24 * 3600
"""The longest limit that is known is a week's; what ends later is an error, or a bill to pay."""


def limit_ends_at(moment: float) -> str | None:
    """The instant of seconds since 1970; None for what is over, or too far away to be meant."""
    left = moment - int(_now().timestamp())
    return instant.of(datetime.fromtimestamp(moment, UTC)) if 0 < left <= _FARTHEST else None


def limit_ends_after(seconds: float) -> str | None:
    """The instant in so many seconds; None for what is over, or too far away to be meant."""
    return instant.of(_now() + timedelta(seconds=seconds)) if 0 < seconds <= _FARTHEST else None


def _now() -> datetime:
    return datetime.fromisoformat(instant.now())


_WILD = frozenset("*?[{")
_BRACED = re.compile(r"\{[^}]*/")
ANYWHERE = "/"


def searched(folder: str, pattern: str = "") -> str:
    """The folder that a search is in: the one it was given, or where its pattern itself leads."""
    names = pattern.split("/")
    if ".." in names or _BRACED.search(pattern):
        return ANYWHERE
    fixed = takewhile(lambda name: not _WILD.intersection(name), names[:-1])
    root = "/" if pattern.startswith("/") else ""
    return str(PurePath(folder or ".", root + "/".join(fixed).lstrip("/")))
