"""What is wrong with a file, in words: file, line, place, what stands there, what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from coterie.config.document import Document, Place
from coterie.config.patterns import WORDS
from coterie.errors import ConfigError
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST = 20
"""More mistakes than these help nobody."""


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong at one place; `problem` goes on after the place's name."""

    place: Place
    problem: str
    hint: str | None = None


@dataclass(frozen=True)
class Notice:
    """Something worth knowing that stops nothing."""

    message: str
    hint: str | None = None


def refusal(document: Document, mistakes: Iterable[Mistake]) -> ConfigError:
    """One error for all mistakes of a file, the first of them leading."""
    lines = document.lines()
    # As a dictionary: a mistake in `defaults` is found again for every member.
    once = {mistake: lines.of(mistake.place) for mistake in mistakes}
    placed = sorted(once, key=once.__getitem__)
    name = shown(document.path)
    said = [sentence(f"{name}:{once[mistake]}", mistake) for mistake in placed]
    if len(said) > MOST:
        said = [*said[:MOST], f"… and {len(said) - MOST} more."]
    first = placed[0]
    place = f"{document.path}:{once[first]} {place_name(first.place)}".rstrip()
    return ConfigError("\n".join(said), first.hint, place)


def sentence(at: str, mistake: Mistake) -> str:
    """A mistake in words, after the name of what it is in."""
    where = place_name(mistake.place)
    end = "" if mistake.problem.endswith((".", "?")) else "."
    return f"{at} {where} {mistake.problem}{end}" if where else f"{at} {mistake.problem}{end}"


def doubled_keys(document: Document) -> list[Mistake]:
    """A key that stands twice in one object: only the last would count, and nobody would know."""
    if not document.doubled:
        return []
    return [Mistake(place, "stands there twice") for place in document.lines().doubled]


def nulls(data: object, at: Place = ()) -> list[Mistake]:
    """Values that are null: in our files a key that says nothing is left out."""
    if data is None:
        return [Mistake(at, "is null; leave it out")]
    if not isinstance(data, dict) or len(at) > 4:
        return []
    parts = cast("dict[str, object]", data)
    return [found for key, value in parts.items() for found in nulls(value, (*at, key))]


def place_name(place: Place) -> str:
    """A place as people write it: `members[1].agent`."""
    name = ""
    for part in place:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            said = part if part.replace("-", "_").replace("$", "_").isidentifier() else quoted(part)
            name += f".{said}" if name else said
    return name


def quoted(text: str, longest: int = 60) -> str:
    """Text of unknown origin, safe to print and not too long."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return f'"{short}"' if short.isprintable() and '"' not in short else json.dumps(short)


def described(value: object) -> str:
    """What stands there."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int | float):
        return json.dumps(value)[:40] if abs(value) < 1 << 64 else "a huge number"
    return kind(value)


def kind(value: object) -> str:
    """What sort of thing stands there, where the thing itself may be a secret."""
    kinds: tuple[tuple[type, str], ...] = (
        (str, "text"),
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (dict, "an object"),
        (list, "a list"),
    )
    if value is None:
        return "null"
    return next((name for type_, name in kinds if isinstance(value, type_)), "a date or time")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean codex?`, or nothing."""
    import difflib

    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.6)
    return f" Did you mean {names[close[0]]}?" if close else ""


def listing(names: Iterable[str]) -> str:
    """`claude, codex`, or `none`."""
    return ", ".join(names) or "none"


# -- what pydantic found -----------------------------------------------------------------------

_WANTED: Mapping[str, str] = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "int_type": "a whole number",
    "list_type": "a list",
    "mapping_type": "an object",
    "model_type": "an object",
    "string_type": "text",
    "string_unicode": "valid Unicode",
    "tuple_type": "a list",
}

_BOUNDED: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "greater_than": lambda said: f"more than {said['gt']}",
    "greater_than_equal": lambda said: f"at least {said['ge']}",
    "less_than_equal": lambda said: f"at most {said['le']}",
    "literal_error": lambda said: str(said["expected"]).replace("'", ""),
    "string_pattern_mismatch": lambda said: WORDS.get(str(said["pattern"]), "another form"),
    "string_too_long": lambda said: f"at most {said['max_length']} characters",
    "string_too_short": lambda said: "some text",
    "too_long": lambda said: f"at most {said['max_length']} of them",
    "too_short": lambda said: f"at least {said['min_length']}",
}

_SECRET = frozenset({"additionalArgs", "args", "baseArgs", "env"})
"""Under these, what stands there is not repeated: it may be a key or a password."""


def found_by(
    error: ValidationError, data: object, known_keys: Callable[[Place], Sequence[str]]
) -> list[Mistake]:
    """Mistakes of shape; `known_keys` says which keys the object at a place may have."""
    return [_translate(one, data, known_keys) for one in error.errors(include_url=False)]


def _translate(
    error: ErrorDetails, data: object, known_keys: Callable[[Place], Sequence[str]]
) -> Mistake:
    place = standing(data, tuple(error["loc"]))
    kind_of = error["type"]
    if kind_of == "missing":
        return Mistake(place, f'has no "{error["loc"][-1]}"')
    if kind_of == "extra_forbidden":
        key = str(place[-1])
        return Mistake(place, f"is not a known key.{did_you_mean(key, known_keys(place[:-1]))}")
    at_key = error["loc"][-1:] == ("[key]",)
    return Mistake(place, _complaint(error, secret=not at_key and bool(_SECRET & set(place))))


def _complaint(error: ErrorDetails, *, secret: bool) -> str:
    value: object = error["input"]
    stands = kind(value) if secret else described(value)
    wanted = _WANTED.get(error["type"]) or _bounds(error)
    if wanted is None:
        return f"cannot be used: {error['msg'].removeprefix('Value error, ')}"
    guess = ""
    if error["type"] == "literal_error" and isinstance(value, str):
        guess = did_you_mean(value, wanted.replace(" or ", ", ").split(", ")).strip()
    return f"is {stands}; expected {wanted}{'. ' + guess if guess else ''}"


def _bounds(error: ErrorDetails) -> str | None:
    words = _BOUNDED.get(error["type"])
    return words(cast("Mapping[str, object]", error.get("ctx", {}))) if words else None


def standing(data: object, place: Place) -> Place:
    """The part of a place that is really there: pydantic names steps of its own besides."""
    there: list[str | int] = []
    for part in place:
        if isinstance(data, dict) and part in data:
            data = cast("dict[object, object]", data)[part]
        elif (
            isinstance(data, list)
            and isinstance(part, int)
            and part < len(cast("list[object]", data))
        ):
            data = cast("list[object]", data)[part]
        else:
            break
        there.append(part)
    return tuple(there)
