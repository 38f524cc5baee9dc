"""What is wrong with a file, in words: file, line, place, what stands there, what was expected."""

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
"""A name that is printed, and written in `[NEXT: name]`."""
LABEL = r"^[^\x00-\x1f\x7f-\x9f]{0,200}$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
ARGUMENT = r"^[^\x00]*$"
"""What the system can pass to a process at all."""
PATH = r"^[^\x00]+$"
MODEL = r"^[^\x00-\x20\x7f-][^\x00-\x20\x7f]*$"
"""It follows a flag on the command line, so it must not look like another."""
DURATION = r"^[1-9][0-9]{0,8}(ms|s|m|h)$"

WORDS: Mapping[str, str] = {
    NAME_PATTERN: "letters, digits, . _ or -, at most 64, the first a letter or digit",
    LINE: "one line of at most 80 characters without [ or ]",
    LABEL: "one line of at most 200 characters",
    VARIABLE: "letters, digits and _, the first no digit",
    ARGUMENT: "text without null characters",
    PATH: "a path",
    MODEL: "a model's name without spaces, not beginning with -",
    DURATION: "a time such as 90s, 5m or 1h",
}


MOST = 20
"""More mistakes than these help nobody."""


def refusal(document: Document, mistakes: Iterable[Mistake]) -> ConfigError:
    """One error for all mistakes of a file, the first of them leading."""
    lines = lines_of(document)
    # As a dictionary: a mistake in `defaults` is found again for every member.
    once = {mistake: lines.of(mistake.place) for mistake in mistakes}
    placed = sorted(once, key=once.__getitem__)
    name = shown(document.path)
    said = [sentence(f"{name}:{once[mistake]}", mistake) for mistake in placed]
    if len(said) > MOST:
        said = [*said[:MOST], f"… and {len(said) - MOST} more."]
    each = [FileMistake(once[one], place_name(one.place), one.problem) for one in placed[:MOST]]
    place = f"{document.path}:{each[0].line} {each[0].place}".rstrip()
    return ConfigError("\n".join(said), placed[0].hint, place, tuple(each))


def sentence(at: str, mistake: Mistake) -> str:
    """A mistake in words, after the name of what it is in."""
    where = place_name(mistake.place)
    end = "" if mistake.problem.endswith((".", "?")) else "."
    return f"{at} {where} {mistake.problem}{end}" if where else f"{at} {mistake.problem}{end}"


def doubled_keys(document: Document) -> list[Mistake]:
    """A key that stands twice in one object: only the last would count, and nobody would know."""
    if not document.doubled:
        return []
    return [Mistake(place, "stands there twice") for place in lines_of(document).doubled]


def object_in(document: Document) -> dict[str, object]:
    """The object that a document holds, without the key for editors; raises ConfigError for
    anything else, and where a key stands twice."""
    data = document.data
    if not isinstance(data, dict):
        raise refusal(document, [Mistake((), f"is {described(data)}; expected an object")])
    if document.doubled:
        raise refusal(document, doubled_keys(document))
    given = cast("dict[str, object]", data)
    return {key: value for key, value in given.items() if key != "$schema"}


def validated(
    document: Document,
    validate: Callable[[dict[str, object]], T],
    known_keys: Callable[[Place], Sequence[str]],
) -> T:
    """What a document's object is as a model; raises ConfigError with all that is wrong with it."""
    from pydantic import ValidationError

    given = object_in(document)
    if mistakes := nulls(given):
        raise refusal(document, mistakes)
    try:
        return validate(given)
    except ValidationError as error:
        raise refusal(document, found_by(error, given, known_keys)) from None


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
    return [
        _translate(one, data, known_keys)
        for one in error.errors(include_url=False)
        # Of a list with mistakes in it pydantic also counts what is left: these are told already.
        if one["type"] != "too_short" or len(one["input"]) < one.get("ctx", {})["min_length"]
    ]


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


@dataclass(frozen=True)
class Lines:
    """The line of each value, and of each key that stands a second time in its object."""

    known: Mapping[Place, int]
    doubled: tuple[Place, ...] = ()

    def of(self, place: Place) -> int:
        """The line of a value, or of the nearest thing around it that has one."""
        while place and place not in self.known:
            place = place[:-1]
        return self.known.get(place, 1)


def lines_of(document: Document) -> Lines:
    """Where everything in a document stands; only looked for to complain about something."""
    find = _json_lines if document.kind == "json" else _toml_lines
    return find(document.text)


_PIECES = r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+'


_DEEPEST = 8
"""No file of ours is deeper; what lies deeper has the line of what is around it."""


class _Walk:
    """Follows the tokens of a text that is known to be valid JSON."""

    def __init__(self) -> None:
        self.known: dict[Place, int] = {}
        self.doubled: list[Place] = []
        self._path: list[str | int] = []
        self._objects: list[bool] = []
        """For each container around us, whether it is an object."""
        self._key_next = False

    def step(self, word: str, line: int) -> None:
        match word:
            case "{" | "[":
                self._value(line)
                self._enter(word == "{")
            case "}" | "]":
                self._leave()
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
        # A key takes the place of the empty one, a position counts on from the first.
        self._path.append("" if is_object else 0)
        self._key_next = is_object

    def _leave(self) -> None:
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
        """The first of two is not read, so nothing stands in it."""
        self.doubled.append(place)
        if len(self.doubled) < 100:
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
    ends = [found.start() for found in re.finditer("\n", text)]
    walk = _Walk()
    for found in re.finditer(_PIECES, text):
        walk.step(found.group(), bisect_right(ends, found.start()) + 1)
    return Lines(walk.known, tuple(walk.doubled))


_HEADER = r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$"
_KEY = r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*="


def _toml_lines(text: str) -> Lines:
    """As good as headers and keys at the start of a line tell; what is inline has its key's."""
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
