"""The shape of the answer that a prompt asks for, as a JSON Schema.

A prompt shows it the way people write it: as a schema, or as an example in which `"open" or
"clear"` stands for a choice and `"..."` for any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from coterie.rehearsal.lenient_json import Json, mapping

_OPENING = re.compile(r"^[ \t]*(?:>[ \t]*)?(?=\{)", re.MULTILINE)
_CUE = re.compile(r"json|schema", re.IGNORECASE)
_NEAR = 400
"""How many characters before an object are searched for a cue that it is an answer's shape."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[{}\[\]:,|])|(?P<dots>\.{3}|…)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?)|(?P<word>[A-Za-z_][\w-]*)|(?P<comment>//[^\n]*|/\*.*?\*/))""",
    re.DOTALL,
)
_PLAIN = re.compile(r"[\w.-]+(?: ?[|/] ?[\w.-]+)+$")
_SPELLED = {
    "string": "string text str",
    "number": "number float",
    "integer": "integer int",
    "boolean": "boolean bool true false",
    "null": "null",
}
_TYPES = {word: kind for kind, spelled in _SPELLED.items() for word in spelled.split()}


SHOWN = "x-shown"
"""Lists the properties that an example shows; it cannot tell which of them are optional."""


def shape_in(prompt: str) -> tuple[Json | None, str]:
    """Find the last shape in a prompt; returns it, or None, and the prompt without it.

    A cue before the object must announce it as a shape; otherwise it is merely mentioned.
    """
    for opening in reversed(list(_OPENING.finditer(prompt))):
        start = opening.start()
        if _CUE.search(prompt[max(0, start - _NEAR) : start]):
            shape = _shape_at(prompt, opening.end())
            if shape is not None:
                return shape, prompt[:start]
    return None, prompt


def _shape_at(text: str, start: int) -> Json | None:
    with suppress(ValueError, RecursionError):
        value, _ = json.JSONDecoder().raw_decode(text, start)
        if is_schema(mapping(value)):
            return mapping(value)
    with suppress(ValueError, RecursionError):
        shape = _Example(text, start).value()
        return shape if shape.get("properties") else None
    return None


def is_schema(data: Json) -> bool:
    """Whether an object is a JSON Schema for objects rather than an example."""
    return isinstance(data.get("properties"), dict) and data.get("type", "object") == "object"


class _NoShape(ValueError):
    """The text is not an example of JSON."""


@dataclass
class _Example:
    """Parser for one value of an example."""

    text: str
    place: int
    _pushed: list[re.Match[str]] = field(default_factory=list[re.Match[str]])

    def value(self) -> Json:
        """Parse a value and its alternatives."""
        first = self._one()
        choices = [first]
        while self._skip("|") or self._skip_word("or"):
            choices.append(self._one())
        if len(choices) == 1:
            return first
        named = [name for choice in choices for name in _named(choice)]
        return {"enum": named} if named else first

    def _one(self) -> Json:
        token = self._next()
        if token["text"]:
            return _of_text(json.loads(token["text"], strict=False))
        if token["number"]:
            return {"type": "number" if "." in token["number"] else "integer"}
        if token["word"]:
            kind = _TYPES.get(token["word"].lower())
            return {"type": kind} if kind else {"type": "string", "examples": [token["word"]]}
        if token["dots"]:
            return {"type": "string"}
        match token["mark"]:
            case "{":
                return self._object()
            case "[":
                return self._array()
            case _:
                raise _NoShape

    def _object(self) -> Json:
        properties: Json = {}
        while not self._skip("}"):
            if self._skip(",") or self._skip_dots():
                continue
            name = self._next()
            if not (name["text"] or name["word"]):
                raise _NoShape
            key: str = json.loads(name["text"]) if name["text"] else name["word"]
            if not self._skip(":"):
                raise _NoShape
            properties[key] = self.value()
        return {"type": "object", "properties": properties, SHOWN: list(properties)}

    def _array(self) -> Json:
        values: list[Json] = []
        while not self._skip("]"):
            if self._skip(",") or self._skip_dots():
                continue
            values.append(self.value())
        return {"type": "array", "items": values[0] if values else {}}

    def _next(self) -> re.Match[str]:
        if self._pushed:
            return self._pushed.pop()
        while True:
            token = _TOKEN.match(self.text, self.place)
            if token is None:
                raise _NoShape
            self.place = token.end()
            if not token["comment"]:
                return token

    def _skip(self, mark: str) -> bool:
        return self._skipped(lambda token: token["mark"] == mark)

    def _skip_word(self, word: str) -> bool:
        return self._skipped(lambda token: token["word"] == word)

    def _skip_dots(self) -> bool:
        return self._skipped(lambda token: bool(token["dots"]))

    def _skipped(self, fits: Callable[[re.Match[str]], bool]) -> bool:
        if not self._pushed and _TOKEN.match(self.text, self.place) is None:
            return False
        token = self._next()
        if not fits(token):
            self._pushed.append(token)
        return fits(token)


def _of_text(example: str) -> Json:
    """Interpret a string in an example: a type, a choice, a literal, or a description."""
    kind = _TYPES.get(example.strip().lower())
    if kind:
        return {"type": kind}
    if _PLAIN.fullmatch(example.strip()):
        return {"enum": [part.strip() for part in re.split(r"[|/]", example)]}
    return {"type": "string", "examples": [example]}


def _named(choice: Json) -> Iterator[object]:
    examples = choice.get("examples") or choice.get("enum")
    if isinstance(examples, list):
        yield from examples
    elif choice.get("type") == "null":
        yield None
