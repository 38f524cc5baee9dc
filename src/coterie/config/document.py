"""A JSON or TOML file as read, and on which line of it each value stands.

Lines are only looked for when there is something to complain about.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from coterie.config.files import read_text
from coterie.errors import ConfigError
from coterie.model.workspace import shown

Place = tuple[str | int, ...]
"""Where a value stands: the keys and positions that lead to it."""


@dataclass(frozen=True)
class Document:
    """What stands in a file."""

    path: Path
    text: str
    data: object
    kind: Literal["json", "toml"] = "json"
    doubled: bool = False
    """Whether some object has a key twice, of which only the last would count."""

    def lines(self) -> Lines:
        """Where everything stands."""
        return _json_lines(self.text) if self.kind == "json" else _toml_lines(self.text)


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


def read_document(path: Path) -> Document:
    """Read a file; by its name it is TOML, else JSON."""
    text = read_text(path)
    return parse_toml(path, text) if path.suffix == ".toml" else parse_json(path, text)


def parse_json(path: Path, text: str) -> Document:
    """The document in a JSON text; anything else is a ConfigError with line and column."""
    doubled = False

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal doubled
        made = dict(found)
        doubled = doubled or len(made) < len(found)
        return made

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _invalid_json(path, error) from None
    except RecursionError:
        raise _invalid(path, "JSON", "it is nested too deeply", 1, 1) from None
    except ValueError as error:  # NaN, or a number of thousands of digits
        raise _invalid(path, "JSON", str(error), 1, 1) from None
    _refuse_halves(path, text, data)
    return Document(path, text, data, "json", doubled)


def parse_toml(path: Path, text: str) -> Document:
    """The document in a TOML text."""
    import tomllib

    try:
        return Document(path, text, tomllib.loads(text), "toml")
    except RecursionError:
        raise _invalid(path, "TOML", "it is nested too deeply", 1, 1) from None
    except ValueError as error:
        found = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
        if found is None:
            last = text.count("\n") + 1
            raise _invalid(
                path, "TOML", str(error).removesuffix(" (at end of document)"), last, 1
            ) from None
        message, line, column = found.groups()
        raise _invalid(path, "TOML", message, int(line), int(column)) from None


_TRAILING_COMMA = re.compile(r",(?=\s*([]}]))")


def _invalid_json(path: Path, error: json.JSONDecodeError) -> ConfigError:
    """The error of the parser; a trailing comma alike on every Python, as 3.13 tells of it."""
    before = error.doc[: error.pos].rstrip()
    at = error.pos if error.doc[error.pos : error.pos + 1] == "," else len(before) - 1
    comma = _TRAILING_COMMA.match(error.doc, max(at, 0))
    if comma is None:
        return _invalid(path, "JSON", error.msg, error.lineno, error.colno)
    end = "array" if comma[1] == "]" else "object"
    place = json.JSONDecodeError("", error.doc, comma.start())
    return _invalid(path, "JSON", f"trailing comma before end of {end}", place.lineno, place.colno)


def _refuse_halves(path: Path, text: str, data: object) -> None:
    """JSON can spell half of a surrogate pair, which is no text and could never be written."""
    found = re.search(r"\\u[dD][89a-fA-F]", text)
    if found is None:
        return
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        raise _invalid(path, "JSON", "half of a character", line, column) from None
    except RecursionError:
        raise _invalid(path, "JSON", "it is nested too deeply", 1, 1) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"a number cannot be {name}")


def _invalid(path: Path, kind: str, message: str, line: int, column: int) -> ConfigError:
    said = message[:1].lower() + message[1:]
    at = f":{line}:{column}"
    return ConfigError(f"{shown(path)}{at} is not valid {kind}: {said}.", None, f"{path}{at}")


# -- lines of JSON -----------------------------------------------------------------------------

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


# -- lines of TOML -----------------------------------------------------------------------------

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
