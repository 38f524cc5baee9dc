"""Secrets: what is never written, and how it is taken out of what is.

A secret is known by its value, in whatever form that is written, or by the fixed format of a
service's keys; never by a word that stands before it.  Only its own characters are masked, with
their count, so that whatever stands around or between them can still be read: `[redacted 40]`.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel

from coterie.model.flags import words
from coterie.model.secret_formats import (
    SHORTEST_KEY,
    masked,
    own_places,
    with_masks,
    without_formats,
    without_users,
)

T = TypeVar("T")

MASK = re.compile(r"\[redacted(?: \d+)?\]")
"""What stands in place of a secret; in older records without the count."""
_SHORTEST = 4
"""A shorter value is no secret, and would be found in half of all words."""
_USUAL = frozenset(
    words(
        "debug default development error false info local main none null production release "
        "staging test testing trace true verbose warn warning"
    )
)
"""Settings in one word, which nobody calls a secret."""
_ANYWHERE = 8
"""A value of so many characters is masked wherever it stands, a shorter one as a word alone."""


def is_kept_as(text: str, kept: str | None) -> bool:
    """Whether this is the text that was kept, as far as its masks show."""
    if kept is None or text == kept:
        return text == kept
    parts = (re.escape(part) for part in MASK.split(kept))
    counts = (f".{{{_count(found) or '0,'}}}" for found in MASK.finditer(kept))
    pattern = "".join(part for pair in zip_longest(parts, counts, fillvalue="") for part in pair)
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _count(found: re.Match[str]) -> str:
    return found[0].removeprefix("[redacted").strip(" ]")


# -- by value ------------------------------------------------------------------------------------

_RARE = "QZXJqzjx7968K4Y3V52UG0HB1WFNDPLRCMEkOSvATIwybgpfmcudlhrsionate"
_NO_WORD = bytes(sign for sign in range(128) if not chr(sign).isalnum())
_ESCAPED_BLANK = (b"\\n", b"\\r", b"\\t")


def _core(text: str) -> bytes:
    """The letters and digits of a text: they are the same however it is quoted or broken up."""
    return text.encode("ascii", "ignore").translate(None, _NO_WORD)


class _Writing(NamedTuple):
    """A way in which text is written: what a sign of it looks like, and what it stands for."""

    sign: re.Pattern[str]
    meaning: Callable[[str], str]


def _plain(sign: str) -> str:
    return sign


def _unescaped(sign: str) -> str:
    """What an escape of JSON, a shell or a programming language stands for."""
    if len(sign) == 1:
        return sign
    bare = sign.lstrip("\\")
    if bare[:1] in ("u", "x") and len(bare) > 2:
        return chr(int(bare[1:], 16))
    return chr(int(bare, 8)) if len(bare) == 3 else _BLANKS.get(bare, bare or "\\")


def _unquoted(sign: str) -> str:
    """What a character of an address, or of JSON that holds one, stands for; of an address within
    an address too."""
    return chr(int(sign[-2:], 16)) if len(sign) > 2 and sign[0] in "%=" else _unescaped(sign)


def _of_entity(sign: str) -> str:
    """What a character of HTML stands for."""
    code = sign[2:-1]
    if len(sign) == 1 or sign[1] != "#":
        return _NAMED.get(sign, sign[0])
    return chr(min(int(code[1:], 16) if code[0] in "xX" else int(code), 0x10FFFF))


_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_HEX = "[0-9a-fA-F]{2}"
_ESCAPE = rf"\\+u{_HEX}{_HEX}|\\+x{_HEX}|\\+[0-7]{{3}}|\\+[^ux]|"
_NAMED = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
_ENTITY = rf"&#[0-9]{{1,7}};|&#[xX][0-9a-fA-F]{{1,6}};|{'|'.join(_NAMED)}"
_AS_IS = _Writing(re.compile(r".", re.DOTALL), _plain)
_ESCAPED = _Writing(re.compile(_ESCAPE + ".", re.DOTALL), _unescaped)
_OTHERS: Sequence[tuple[str, re.Pattern[str], _Writing]] = (
    ("\\", re.compile(rf"\\(?:[ux]{_HEX}|[0-7]{{3}})"), _ESCAPED),
    (
        "%",
        re.compile(f"%{_HEX}"),
        _Writing(re.compile(f"%{_HEX}|{_ESCAPE}.", re.DOTALL), _unquoted),
    ),
    (
        "%",
        re.compile(f"%25{_HEX}"),
        _Writing(re.compile(f"%(?:25)+{_HEX}|.", re.DOTALL), _unquoted),
    ),
    ("&", re.compile(_ENTITY), _Writing(re.compile(f"{_ENTITY}|.", re.DOTALL), _of_entity)),
    ("=", re.compile(f"={_HEX}"), _Writing(re.compile(f"={_HEX}|.", re.DOTALL), _unquoted)),
)
"""Other ways than as it is: by a character without which there is none of it, what it looks like,
and how it is read.  Programs, addresses, addresses in addresses, HTML, mail."""


_NAMES = frozenset(
    ("id", "at", "author", "digest", "event", "owner", "state", "status", "tree", "type", "uri")
)


def _is_name(field: str) -> bool:
    """Whether a field holds what others go by, and nobody's words."""
    return field in _NAMES or field.endswith(("_id", "_ids"))


_NO_TEXT = frozenset((type(None), bool, int, float))


@cache
def _fields_of(kind: type[object]) -> tuple[str, ...]:
    """The fields of a model or dataclass that may hold somebody's words; none of other types."""
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
"""One of them stands in each format of a key; by a character that is looked for first."""


def _may_hold_key(text: str) -> bool:
    for character, hints in _HINTS.items():
        if character in text:
            for hint in hints:
                if hint in text:
                    return True
    return False


class Redactor:
    """Takes known secrets, and what has the format of one, out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {one.strip() for one in secrets}
        known = sorted((one for one in known if one.lower() not in _USUAL), key=len, reverse=True)
        self._cores: dict[bytes, list[str]] = {}
        """By their letters and digits: secrets, and their forms in base64 and hexadecimal."""
        words: list[str] = []
        self._words: list[str] = []
        """What is looked for as it is: short secrets, and those of few letters."""
        for one in known:
            for form in _forms(one):
                if len(core := _core(form)) >= _ANYWHERE:
                    self._cores.setdefault(core, []).append(form)
                else:
                    self._words.append(form)
                    words.append(_pattern(form))
        self._rare = {min(core.decode(), key=_RARE.find) for core in self._cores}
        """Of each of them a letter or digit that few texts have; without it, none is there."""
        self._pattern = re.compile("|".join(words)) if words else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if len(text) < _SHORTEST:
            return text
        # Most texts hold none, and to look for that much costs next to nothing.
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

    def begun(self, text: str) -> int:
        """From where on a secret may have begun in a text that goes on; its length if none has."""
        tail = text[-4 * max(map(len, self._cores), default=0) :]
        letters = _core(tail)
        rest = max((_overlap(letters, core) for core in self._cores), default=0)
        if not rest:
            return len(text)
        places = [at for at, sign in enumerate(tail) if _is_letter(sign)]
        return len(text) - len(tail) + places[-rest]

    def value(self, value: object) -> object:
        """JSON data without secrets, also where one is a key."""
        if isinstance(value, str):
            return self.text(value)
        if type(value) in _NO_TEXT:
            return value
        if isinstance(value, dict | Mapping):
            return self.mapping(cast("Mapping[str, object]", value))
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.value(one) for one in cast("Sequence[object]", value)]
        return value

    def mapping(self, given: Mapping[str, object]) -> dict[str, object]:
        """An object without secrets."""
        return {self.text(str(key)): self.value(one) for key, one in given.items()}

    def whole(self, value: T) -> T:
        """A value of ours with every text in it without secrets, but for names and places.

        It is the same object where there are none, which is as good as always.
        """
        return cast("T", self._whole(value))

    def _whole(self, value: object) -> object:
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
            case dict() | Mapping():  # the first is seen at once
                given = cast("Mapping[str, object]", value)
                kept = self.mapping(given)
                return given if kept == given else kept
            case str():
                return self.text(value)
            case tuple() | list():
                items = cast("Sequence[object]", value)
                kept = [self._whole(one) for one in items]
                same = all(one is other for one, other in zip(kept, items, strict=True))
                return value if same else type(items)(kept)  # type: ignore[call-arg]
            case _:
                return value

    def _changed(self, value: object, names: tuple[str, ...]) -> dict[str, Any]:
        """The fields of a value in which a secret stood."""
        changed: dict[str, Any] = {}
        for name in names:
            given = getattr(value, name)
            kept = self._whole(given)
            if kept is not given:
                changed[name] = kept
        return changed

    def _without_values(self, text: str) -> str:
        for rare in self._rare:
            if rare in text:
                text = self._without_words(text)
                break
        for character, sign, writing in _OTHERS:
            if character in text and sign.search(text) and self._holds(_meant(text, writing)):
                text = self._masked_in(text, writing)
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

    def _masked_in(self, text: str, writing: _Writing) -> str:
        """The text with the secrets masked that can be read in it, when it is read that way."""
        signs: list[str] = writing.sign.findall(text)
        meanings = list(map(writing.meaning, signs))
        places = [at for at, one in enumerate(meanings) if _is_letter(one)]
        letters = "".join(meanings[at] for at in places).encode()
        hidden: set[int] = set()
        for core, forms in self._cores.items():
            start = letters.find(core)
            while start >= 0:
                found = places[start : start + len(core)]
                for form in forms:
                    hidden.update(own_places(meanings, found, form))
                start = letters.find(core, start + 1)
        return "".join(with_masks(signs, hidden)) if hidden else text


def _overlap(letters: bytes, core: bytes) -> int:
    """How many letters at the end of a text are the first of a secret, which is not whole yet."""
    start = letters.find(core[:_SHORTEST])
    while start >= 0:
        if len(letters) - start < len(core) and core.startswith(letters[start:]):
            return len(letters) - start
        start = letters.find(core[:_SHORTEST], start + 1)
    return 0


def _is_letter(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()


def _meant(text: str, writing: _Writing) -> bytes:
    return "".join(map(writing.meaning, writing.sign.findall(text))).encode("ascii", "ignore")


def _forms(secret: str) -> Iterator[str]:
    """A secret, what of it is always the same in base64, whatever stands around it, and in hex."""
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
    """How a form is found that has few letters, or is short."""
    if len(form) >= _ANYWHERE:
        return re.escape(form)
    return rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"
