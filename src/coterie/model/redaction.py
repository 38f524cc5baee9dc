"""Redaction: keep secrets out of everything that is stored or shown.

A secret is recognized by its value, in any encoding, or by the fixed format of a service's keys;
never by a word in front of it.  Only its own characters are masked, with their count, so that
everything around or between them stays readable: `[redacted 40]`.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import zip_longest
from operator import is_
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel

from coterie.model.flags import words
from coterie.model.secret_formats import (
    OPEN_KEY,
    SHORTEST_KEY,
    masked,
    own_places,
    with_masks,
    without_formats,
    without_users,
)

T = TypeVar("T")

MASK = re.compile(r"\[redacted(?: \d+)?\]")
"""The mask that replaces a secret; without a count in older records."""
_SHORTEST = 4
"""Shorter values are not treated as secrets: they would match inside half of all words."""
_USUAL = frozenset(
    words(
        "debug default development error false info local main none null production release "
        "staging test testing trace true verbose warn warning"
    )
)
"""Common one-word settings, which are not secrets."""
_ANYWHERE = 8
"""Values of at least this many characters are masked anywhere, shorter ones only as whole words."""


def is_kept_as(text: str, stored: str | None) -> bool:
    """Whether this text matches the stored one, as far as its masks allow to tell."""
    if stored is None or text == stored:
        return text == stored
    parts = (re.escape(part) for part in MASK.split(stored))
    counts = (f".{{{_count(match) or '0,'}}}" for match in MASK.finditer(stored))
    pattern = "".join(part for pair in zip_longest(parts, counts, fillvalue="") for part in pair)
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _count(match: re.Match[str]) -> str:
    return match[0].removeprefix("[redacted").strip(" ]")


# -- by value ------------------------------------------------------------------------------------

_RARE = "QZXJqzjx7968K4Y3V52UG0HB1WFNDPLRCMEkOSvATIwybgpfmcudlhrsionate"
_NO_WORD = bytes(character for character in range(128) if not chr(character).isalnum())
_ESCAPED_BLANK = (b"\\n", b"\\r", b"\\t")


def _core(text: str) -> bytes:
    """The letters and digits of a text, which stay the same however it is quoted or split."""
    return text.encode("ascii", "ignore").translate(None, _NO_WORD)


class _Encoding(NamedTuple):
    """A way to encode text: the pattern of one encoded character, and its decoder."""

    pattern: re.Pattern[str]
    decode: Callable[[str], str]


def _plain(character: str) -> str:
    return character


def _unescaped(character: str) -> str:
    """Decode an escape of JSON, a shell or a programming language."""
    if len(character) == 1:
        return character
    bare = character.lstrip("\\")
    if bare[:1] in ("u", "x") and len(bare) > 2:
        return chr(int(bare[1:], 16))
    return chr(int(bare, 8)) if len(bare) == 3 else _BLANKS.get(bare, bare or "\\")


def _unquoted(character: str) -> str:
    """Decode a character of a URL, of JSON that contains one, or of a URL within a URL."""
    return (
        chr(int(character[-2:], 16))
        if len(character) > 2 and character[0] in "%="
        else _unescaped(character)
    )


def _of_entity(character: str) -> str:
    """Decode a character of HTML."""
    code = character[2:-1]
    if len(character) == 1 or character[1] != "#":
        return _NAMED.get(character, character[0])
    return chr(min(int(code[1:], 16) if code[0] in "xX" else int(code), 0x10FFFF))


_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_HEX = "[0-9a-fA-F]{2}"
_ESCAPE = rf"\\+u{_HEX}{_HEX}|\\+x{_HEX}|\\+[0-7]{{3}}|\\+[^ux]|"
_NAMED = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
_ENTITY = rf"&#[0-9]{{1,7}};|&#[xX][0-9a-fA-F]{{1,6}};|{'|'.join(_NAMED)}"
_AS_IS = _Encoding(re.compile(r".", re.DOTALL), _plain)
_ESCAPED = _Encoding(re.compile(_ESCAPE + ".", re.DOTALL), _unescaped)
_OTHERS: Sequence[tuple[str, re.Pattern[str], _Encoding]] = (
    ("\\", re.compile(rf"\\(?:[ux]{_HEX}|[0-7]{{3}})"), _ESCAPED),
    (
        "%",
        re.compile(f"%{_HEX}"),
        _Encoding(re.compile(f"%{_HEX}|{_ESCAPE}.", re.DOTALL), _unquoted),
    ),
    (
        "%",
        re.compile(f"%25{_HEX}"),
        _Encoding(re.compile(f"%(?:25)+{_HEX}|.", re.DOTALL), _unquoted),
    ),
    ("&", re.compile(_ENTITY), _Encoding(re.compile(f"{_ENTITY}|.", re.DOTALL), _of_entity)),
    ("=", re.compile(f"={_HEX}"), _Encoding(re.compile(f"={_HEX}|.", re.DOTALL), _unquoted)),
)
"""Encodings other than plain text: a character that each requires, a pattern that detects it, and
how to decode it.  For program escapes, URLs, URLs within URLs, HTML and mail."""


_NAMES = frozenset(
    ("id", "at", "author", "digest", "event", "owner", "state", "status", "tree", "type", "uri")
)


def _is_name(field: str) -> bool:
    """Whether a field holds a machine-readable value, such as an id, rather than free text."""
    return field in _NAMES or field.endswith(("_id", "_ids"))


_NO_TEXT = frozenset((type(None), bool, int, float))


@cache
def _fields_of(kind: type[object]) -> tuple[str, ...]:
    """The fields of a model or dataclass that may contain free text; none for other types."""
    if issubclass(kind, BaseModel):
        names = tuple(kind.model_fields)
    else:
        names = tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()
    return tuple(name for name in names if not _is_name(name))


_HINTS = {
    "_": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "npm_", "k_live_", "k_test_",
          "hf_", "gsk_"),
    "-": ("-----BEGIN ", "sk-", "glpat-", "pypi-", "xox", "xai-"),
    "A": ("AKIA", "ASIA", "AIza"),
    "J": ("eyJ",),
    "9": ("ya29.",),
    "G": ("SG.",),
}  # fmt: skip
"""Every key format contains one of these; grouped by a character that is searched for first."""


def _may_hold_key(text: str) -> bool:
    for character, hints in _HINTS.items():
        if character in text:
            for hint in hints:
                if hint in text:
                    return True
    return False


class Redactor:
    """Masks known secrets, and anything in the format of a key, in texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {one.strip() for one in secrets}
        known = sorted((one for one in known if one.lower() not in _USUAL), key=len, reverse=True)
        self._cores: dict[bytes, list[str]] = {}
        """Secrets and their base64 and hexadecimal forms, by their letters and digits."""
        words: list[str] = []
        self._words: list[str] = []
        """Forms that are searched for literally: short ones, and those with few letters."""
        for one in known:
            for form in _forms(one):
                if len(core := _core(form)) >= _ANYWHERE:
                    self._cores.setdefault(core, []).append(form)
                else:
                    self._words.append(form)
                    words.append(_pattern(form))
        self._rare = {min(core.decode(), key=_RARE.find) for core in self._cores}
        """The rarest letter or digit of each core: without it, a text cannot contain that core."""
        self._pattern = re.compile("|".join(words)) if words else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if len(text) < _SHORTEST:
            return text
        # Most texts contain no secret, and these checks cost next to nothing.
        if "@" in text and ":" in text:
            text = without_users(text)
        if self._cores:
            text = self._without_values(text)
        for word in self._words:
            if word in text and self._pattern is not None:
                text = self._pattern.sub(masked, text)
                break
        if len(text) < SHORTEST_KEY:
            return text
        return without_formats(text) if _may_hold_key(text) else text

    def secret_start(self, text: str) -> int:
        """Where a secret may begin at the end of an unfinished text; its length if none does."""
        begun = text.rfind("-----BEGIN ")
        if begun >= 0 and OPEN_KEY.match(text, begun):
            text = text[:begun]
        tail = text[-4 * max(map(len, self._cores), default=0) :]
        letters = _core(tail)
        rest = max((_overlap(letters, core) for core in self._cores), default=0)
        if not rest:
            return len(text)
        places = [at for at, character in enumerate(tail) if _is_letter(character)]
        return len(text) - len(tail) + places[-rest]

    def value(self, value: object) -> object:
        """JSON data without secrets, in keys as well as in values."""
        if isinstance(value, str):
            return self.text(value)
        if type(value) in _NO_TEXT:
            return value
        if isinstance(value, dict | Mapping):
            return self.mapping(cast("Mapping[str, object]", value))
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.value(one) for one in cast("Sequence[object]", value)]
        return value

    def mapping(self, values: Mapping[str, object]) -> dict[str, object]:
        """An object without secrets."""
        return {self.text(str(key)): self.value(one) for key, one in values.items()}

    def redact_object(self, value: T) -> T:
        """A model, dataclass or other value with the secrets masked in all of its free text.

        Returns the same object if there are none, which is almost always the case.
        """
        return cast("T", self._redacted(value))

    def _redacted(self, value: object) -> object:
        kind = type(value)
        if kind is str:
            return self.text(cast("str", value))
        if kind in _NO_TEXT:
            return value
        if names := _fields_of(kind):
            changed = self._changed(value, names)
            if isinstance(value, BaseModel):
                return value.model_copy(update=changed) if changed else value
            return replace(cast("Any", value), **changed) if changed else value
        match value:
            case dict() | Mapping():  # `dict` first: it is checked faster
                mapping = cast("Mapping[str, object]", value)
                redacted = self.mapping(mapping)
                return mapping if redacted == mapping else redacted
            case str():
                return self.text(value)
            case tuple() | list():
                return self._items(cast("Sequence[object]", value))
            case _:
                return value

    def _items(self, items: Sequence[object]) -> Sequence[object]:
        redacted = [self._redacted(one) for one in items]
        if all(map(is_, redacted, items)):
            return items
        make: Any = getattr(items, "_make", type(items))  # a named tuple has `_make`
        return make(redacted)

    def _changed(self, value: object, names: tuple[str, ...]) -> dict[str, Any]:
        """The fields of a value that contained a secret, with their new values."""
        changed: dict[str, Any] = {}
        for name in names:
            field: object = getattr(value, name)
            if type(field) in _NO_TEXT:
                continue
            redacted = self.text(field) if isinstance(field, str) else self._redacted(field)
            if redacted is not field:
                changed[name] = redacted
        return changed

    def _without_values(self, text: str) -> str:
        for rare in self._rare:
            if rare in text:
                text = self._without_words(text)
                break
        for character, pattern, encoding in _OTHERS:
            if character in text and pattern.search(text) and self._holds(_decoded(text, encoding)):
                text = self._masked_in(text, encoding)
        return text

    def _without_words(self, text: str) -> str:
        letters = text.encode("ascii", "ignore")
        if self._holds(letters):
            text = self._masked_in(text, _AS_IS)
        if b"\\" in letters:
            for blank in _ESCAPED_BLANK:
                letters = letters.replace(blank, b"")
            if self._holds(letters):
                text = self._masked_in(text, _ESCAPED)
        return text

    def _holds(self, letters: bytes) -> bool:
        squeezed = letters.translate(None, _NO_WORD)
        return any(core in squeezed for core in self._cores)

    def _masked_in(self, text: str, encoding: _Encoding) -> str:
        """The text with the secrets masked that it contains when decoded in this way."""
        characters: list[str] = encoding.pattern.findall(text)
        decoded = list(map(encoding.decode, characters))
        places = [at for at, one in enumerate(decoded) if _is_letter(one)]
        letters = "".join(decoded[at] for at in places).encode()
        hidden: set[int] = set()
        for core, forms in self._cores.items():
            start = letters.find(core)
            while start >= 0:
                core_places = places[start : start + len(core)]
                for form in forms:
                    hidden.update(own_places(decoded, core_places, form))
                start = letters.find(core, start + 1)
        return "".join(with_masks(characters, hidden)) if hidden else text


def _overlap(letters: bytes, core: bytes) -> int:
    """How many letters at the end of a text form the beginning of a still incomplete secret."""
    start = letters.find(core[:_SHORTEST])
    while start >= 0:
        if len(letters) - start < len(core) and core.startswith(letters[start:]):
            return len(letters) - start
        start = letters.find(core[:_SHORTEST], start + 1)
    return 0


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _decoded(text: str, encoding: _Encoding) -> bytes:
    return "".join(map(encoding.decode, encoding.pattern.findall(text))).encode("ascii", "ignore")


def _forms(secret: str) -> Iterator[str]:
    """A secret, the part of its base64 form that is independent of its neighbors, and its hex."""
    if len(secret) < _SHORTEST:
        return
    yield secret
    if len(secret) >= _ANYWHERE and (len(_core(secret)) < _ANYWHERE or not secret.isascii()):
        yield from {json.dumps(secret)[1:-1], quote(secret, ""), quote_plus(secret)} - {secret}
    if len(_core(secret)) < _ANYWHERE:
        return
    data = secret.encode("utf-8", "surrogateescape")
    for shift in range(3):
        whole = slice(-(-8 * shift // 6), 8 * (shift + len(data)) // 6)
        padded = b"\0" * shift + data
        yield from {coded(padded).decode()[whole] for coded in (b64encode, urlsafe_b64encode)}
    yield from {data.hex(), data.hex().upper()}


def _pattern(form: str) -> str:
    """The regex for a form that is short, or has few letters."""
    if len(form) >= _ANYWHERE:
        return re.escape(form)
    return rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"
