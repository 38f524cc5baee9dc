"""Describe what is wrong with a file: file, line, place, what was found, what was expected."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from coterie.config.files import Document, Mistake, Place, nulls
from coterie.errors import ConfigError, FileMistake
from coterie.model.team import NAME_PATTERN
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

T = TypeVar("T")

LINE = r"^[^\x00-\x1f\x7f-\x9f\[\]]{1,80}$"
"""A name that is printed and used in `[NEXT: name]`."""
LABEL = r"^[^\x00-\x1f\x7f-\x9f]{0,200}$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
ARGUMENT = r"^[^\x00]*$"
"""What the operating system can pass to a process at all."""
PATH = r"^[^\x00]+$"
MODEL = r"^[^\x00-\x20\x7f-][^\x00-\x20\x7f]*$"
"""It follows a flag on the command line, so it must not look like a flag itself."""
DURATION = r"^[1-9][0-9]{0,8}(ms|s|m|h)$"

PATTERNS: Mapping[str, str] = {
    NAME_PATTERN: "letters, digits, . _ or -, at most 64, starting with a letter or digit",
    LINE: "one line of at most 80 characters without [ or ]",
    LABEL: "one line of at most 200 characters",
    VARIABLE: "letters, digits and _, not starting with a digit",
    ARGUMENT: "text without null characters",
    PATH: "a path",
    MODEL: "a model name without spaces, not starting with -",
    DURATION: "a time such as 90s, 5m or 1h",
}

MAX_LISTED = 20
"""Listing more mistakes than this helps nobody."""


def refusal(document: Document, mistakes: Iterable[Mistake]) -> ConfigError:
    """One error for all mistakes in a file, in the order of their lines."""
    lines = lines_of(document)
    # A dictionary drops duplicates: a mistake in `defaults` is found again for every member.
    once = {mistake: lines.of(mistake.place) for mistake in mistakes}
    placed = sorted(once, key=once.__getitem__)
    name = shown(document.path)
    sentences = [sentence(f"{name}:{once[mistake]}", mistake) for mistake in placed]
    if len(sentences) > MAX_LISTED:
        sentences = [*sentences[:MAX_LISTED], f"… and {len(sentences) - MAX_LISTED} more."]
    placed = placed[:MAX_LISTED]
    each = [FileMistake(once[one], place_name(one.place), one.problem) for one in placed]
    place = f"{document.path}:{each[0].line} {each[0].place}".rstrip()
    return ConfigError("\n".join(sentences), placed[0].hint, place, tuple(each))


def sentence(at: str, mistake: Mistake) -> str:
    """A mistake as a sentence, after the name of what it is in."""
    where = place_name(mistake.place)
    end = "" if mistake.problem.endswith((".", "?")) else "."
    return f"{at} {where} {mistake.problem}{end}" if where else f"{at} {mistake.problem}{end}"


def duplicate_keys(document: Document) -> list[Mistake]:
    """A mistake for each duplicate key in an object: only the last would count, silently."""
    if not document.has_duplicates:
        return []
    return [Mistake(place, "appears twice") for place in lines_of(document).duplicates]


def object_in(document: Document) -> dict[str, object]:
    """The object that a document holds, without `$schema`; raises ConfigError for anything else
    and for duplicate keys."""
    data = document.data
    if not isinstance(data, dict):
        raise refusal(document, [Mistake((), f"is {described(data)}; expected an object")])
    if document.has_duplicates:
        raise refusal(document, duplicate_keys(document))
    given = cast("dict[str, object]", data)
    return {key: value for key, value in given.items() if key != "$schema"}


def validated(
    document: Document,
    validate: Callable[[dict[str, object]], T],
    known_keys: Callable[[Place], Sequence[str]],
) -> T:
    """Validate a document's object as a model; raises ConfigError with all its mistakes."""
    from pydantic import ValidationError

    given = object_in(document)
    if mistakes := nulls(given):
        raise refusal(document, mistakes)
    try:
        return validate(given)
    except ValidationError as error:
        raise refusal(document, mistakes_of(error, given, known_keys)) from None


def place_name(place: Place) -> str:
    """A place as people write it: `members[1].agent`."""
    name = ""
    for part in place:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            key = part if part.replace("-", "_").replace("$", "_").isidentifier() else quoted(part)
            name += f".{key}" if name else key
    return name


def quoted(text: str, longest: int = 60) -> str:
    """Quote text of unknown origin so that it is safe to print and not too long."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return f'"{short}"' if short.isprintable() and '"' not in short else json.dumps(short)


def described(value: object) -> str:
    """Describe a value for a message."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int | float):
        return json.dumps(value)[:40] if abs(value) < 1 << 64 else "a huge number"
    return kind(value)


def kind(value: object) -> str:
    """Name the type of a value, for values that may be secret."""
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
    "greater_than": lambda ctx: f"more than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"at least {ctx['ge']}",
    "less_than_equal": lambda ctx: f"at most {ctx['le']}",
    "literal_error": lambda ctx: str(ctx["expected"]).replace("'", ""),
    "string_pattern_mismatch": lambda ctx: PATTERNS.get(str(ctx["pattern"]), "another form"),
    "string_too_long": lambda ctx: f"at most {ctx['max_length']} characters",
    "string_too_short": lambda ctx: "some text",
    "too_long": lambda ctx: f"at most {ctx['max_length']} of them",
    "too_short": lambda ctx: f"at least {ctx['min_length']} entry",
}

_SECRET = frozenset({"additionalArgs", "args", "baseArgs", "env"})
"""Values under these keys are not repeated in messages: they may hold a key or a password."""


def mistakes_of(
    error: ValidationError, data: object, known_keys: Callable[[Place], Sequence[str]]
) -> list[Mistake]:
    """Mistakes in shape; `known_keys` returns the keys that the object at a place may have."""
    return [
        _translate(one, data, known_keys)
        for one in error.errors(include_url=False)
        # pydantic also calls a list too short if its items are invalid, which is reported anyway.
        if one["type"] != "too_short" or len(one["input"]) < one.get("ctx", {})["min_length"]
    ]


def _translate(
    error: ErrorDetails, data: object, known_keys: Callable[[Place], Sequence[str]]
) -> Mistake:
    place = existing_place(data, tuple(error["loc"]))
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
    is_empty = error["type"] == "too_short" and value == []
    stands = "empty" if is_empty else kind(value) if secret else described(value)
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


def existing_place(data: object, place: Place) -> Place:
    """The part of a place that exists in the data: pydantic adds path steps of its own."""
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


@dataclass(frozen=True)
class Lines:
    """The line of each value, and the places of duplicate keys."""

    known: Mapping[Place, int]
    duplicates: tuple[Place, ...] = ()

    def of(self, place: Place) -> int:
        """The line of a value, or of the nearest enclosing value that has one."""
        while place and place not in self.known:
            place = place[:-1]
        return self.known.get(place, 1)


def lines_of(document: Document) -> Lines:
    """Locate every value in a document; only done to report a mistake."""
    find = _json_lines if document.kind == "json" else _toml_lines
    return find(document.text)


_PIECES = r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+'
_DEEPEST = 8
"""No file of ours is nested deeper; anything deeper gets the line of what encloses it."""


class _Walk:
    """Walks the tokens of a text that is known to be valid JSON."""

    def __init__(self) -> None:
        self.known: dict[Place, int] = {}
        self.duplicates: list[Place] = []
        self._path: list[str | int] = []
        self._objects: list[bool] = []
        """For each enclosing container, whether it is an object."""
        self._key_next = False

    def step(self, word: str, line: int) -> None:
        match word:
            case "{" | "[":
                self._value(line)
                self._enter(word == "{")
            case "}" | "]":
                self._exit()
            case ",":
                self._next()
            case ":":
                self._key_next = False
            case _ if self._key_next:
                self._key(word, line)
            case _:
                self._value(line)

    def _value(self, line: int) -> None:
        self.known.setdefault(tuple(self._path[:_DEEPEST]), line)

    def _enter(self, is_object: bool) -> None:
        self._objects.append(is_object)
        # An object's key replaces the empty string; a list's position is counted up from 0.
        self._path.append("" if is_object else 0)
        self._key_next = is_object

    def _exit(self) -> None:
        self._objects.pop()
        self._path.pop()
        self._key_next = False

    def _next(self) -> None:
        last = self._path[-1]
        if isinstance(last, int):
            self._path[-1] = last + 1
        else:
            self._key_next = True

    def _forget(self, place: Place) -> None:
        """Drop the lines of the first of two equal keys: its value is not used."""
        self.duplicates.append(place)
        if len(self.duplicates) < 100:
            depth = len(place)
            self.known = {
                known: line for known, line in self.known.items() if known[:depth] != place
            }

    def _key(self, word: str, line: int) -> None:
        self._path[-1] = str(json.loads(word))
        place = tuple(self._path[:_DEEPEST])
        if place in self.known:
            if len(self._path) > _DEEPEST:
                return
            self._forget(place)
        self.known[place] = line


def _json_lines(text: str) -> Lines:
    ends = [newline.start() for newline in re.finditer("\n", text)]
    walk = _Walk()
    for piece in re.finditer(_PIECES, text):
        walk.step(piece.group(), bisect_right(ends, piece.start()) + 1)
    return Lines(walk.known, tuple(walk.duplicates))


_HEADER = r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$"
_KEY = r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*="


def _toml_lines(text: str) -> Lines:
    """Best effort, from headers and keys at the start of a line; inline values get their key's."""
    known: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    quote = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quote:
            quote = "" if quote in line else quote
        elif header := re.match(_HEADER, line):
            table = _table(header.group(2), header.group(1) == "[[", counts)
            known.setdefault(table, number)
            known.setdefault(table[:-1], number)
        elif key := re.match(_KEY, line):
            known.setdefault(table + _parts(key.group(1)), number)
            quote = _opened(line)
    return Lines(known)


def _table(name: str, repeated: bool, counts: dict[Place, int]) -> Place:
    place: Place = ()
    parts = _parts(name)
    for depth, part in enumerate(parts):
        place = (*place, part)
        if repeated and depth == len(parts) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def _parts(name: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def _opened(line: str) -> str:
    for quote in ('"""', "'''"):
        if line.count(quote) % 2:
            return quote
    return ""
