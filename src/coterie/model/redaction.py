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


def mask(count: int) -> str:
    """What is written in place of so many characters of a secret."""
    return f"[redacted {count}]"


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


def _masked(found: re.Match[str]) -> str:
    return mask(len(found[0]))


# -- by the format of a service's keys -----------------------------------------------------------

_FORMATS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[opusr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|xai-[A-Za-z0-9]{40,}|A[KS]IA[0-9A-Z]{16}\b|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
)
_HINTS = {
    "_": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "npm_", "k_live_", "k_test_",
          "hf_", "gsk_"),
    "-": ("sk-", "glpat-", "pypi-", "xox", "xai-"),
    "A": ("AKIA", "ASIA", "AIza"),
    "J": ("eyJ",),
    "9": ("ya29.",),
    "G": ("SG.",),
}  # fmt: skip
"""One of them stands in each of those; by a character that is looked for first."""
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(?=-----END |\Z)", re.DOTALL)
_KEY_LINES = re.compile(
    r"\\[nrt]|[A-Za-z0-9+/]{40,}={0,2}"
    r"|(?:[A-Za-z0-9+/]{12,}={0,2}|[A-Za-z0-9+/]+={1,2})(?=(?:\\[nrt]|[^A-Za-z0-9+/=])*\Z)"
)
"""The lines of a key, of which the last may be short; an escaped end of a line is passed over."""
_USER_PART = re.compile(r"""(:\\*/\\*/)([^\s/?#@"'`<>|;&()\\{}\[\]]{1,512})(?=@)""")
"""Without what would end a word of a shell, or begin a command in it."""
_USER_WORDS = re.compile(r"\$\w+|[:$]|[^:$]+")
"""A variable is no secret, and what it would send somewhere is to be seen."""


def _without_formats(text: str) -> str:
    if "-" in text and "-----BEGIN " in text:
        text = _PRIVATE_KEY.sub(lambda key: key[1] + _KEY_LINES.sub(_key_line, key[2]), text)
    for character, hints in _HINTS.items():
        if character in text:
            for hint in hints:
                if hint in text:
                    return _FORMATS.sub(_masked, text)
    return text


def _key_line(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("\\") else _masked(found)


def _user_part(found: re.Match[str]) -> str:
    return found[1] + _USER_WORDS.sub(_user_word, found[2])


def _user_word(found: re.Match[str]) -> str:
    return found[0] if found[0][0] in ":$" else _masked(found)


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
    return _BLANKS.get(bare, bare or "\\")


def _unquoted(sign: str) -> str:
    """What a character of an address, or of JSON that holds one, stands for."""
    return chr(int(sign[1:], 16)) if len(sign) == 3 and sign[0] == "%" else _unescaped(sign)


_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = r"\\+u[0-9a-fA-F]{4}|\\+x[0-9a-fA-F]{2}|\\+[^ux]|"
_ESCAPES = re.compile(r"\\[ux][0-9a-fA-F]{2}")
_QUOTES = re.compile("%[0-9a-fA-F]{2}")
_AS_IS = _Writing(re.compile(r".", re.DOTALL), _plain)
_ESCAPED = _Writing(re.compile(_ESCAPE + ".", re.DOTALL), _unescaped)
_QUOTED = _Writing(re.compile("%[0-9a-fA-F]{2}|" + _ESCAPE + ".", re.DOTALL), _unquoted)

_BREAK = re.compile(r"""|[+,$ ]*["'`\\]["'`\\+,$ ]*|.*[\n\r].*""", re.DOTALL)
"""What may stand within a secret that was broken up: ends of lines, or the quotes of its parts."""
_LETTER = re.compile(r"[A-Za-z0-9]")


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


class Redactor:
    """Takes known secrets, and what has the format of one, out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {one.strip() for one in secrets}
        known = sorted((one for one in known if one.lower() not in _USUAL), key=len, reverse=True)
        self._cores: dict[bytes, list[str]] = {}
        """By their letters and digits: secrets, and their forms in base64."""
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
            text = _USER_PART.sub(_user_part, text)
        if self._cores:
            text = self._without_values(text)
        for word in self._words:
            if word in text and self._pattern is not None:
                text = self._pattern.sub(_masked, text)
                break
        return _without_formats(text)

    def value(self, value: object) -> object:
        """JSON data without secrets, also where one is a key."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
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
            case str():
                return self.text(value)
            case Mapping():
                given = cast("Mapping[str, object]", value)
                kept = self.mapping(given)
                return given if kept == given else kept
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
        if "\\" in text and _ESCAPES.search(text) and self._holds(_meant(text, _ESCAPED)):
            text = self._masked_in(text, _ESCAPED)
        if "%" in text and _QUOTES.search(text) and self._holds(_meant(text, _QUOTED)):
            text = self._masked_in(text, _QUOTED)
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
        places = [at for at, one in enumerate(meanings) if one.isascii() and one.isalnum()]
        letters = "".join(meanings[at] for at in places).encode()
        hidden: set[int] = set()
        for core, forms in self._cores.items():
            start = letters.find(core)
            while start >= 0:
                found = places[start : start + len(core)]
                for form in forms:
                    hidden.update(_own(meanings, found, form))
                start = letters.find(core, start + 1)
        return "".join(_runs(signs, hidden)) if hidden else text


def _meant(text: str, writing: _Writing) -> bytes:
    return "".join(map(writing.meaning, writing.sign.findall(text))).encode("ascii", "ignore")


def _own(meanings: Sequence[str], found: Sequence[int], secret: str) -> list[int]:
    """Where the characters of a secret stand, whose letters and digits were `found` there.

    None, if what stands between them is more than the ways in which a text is broken up.
    """
    before, *between, after = _LETTER.split(secret)
    own = list(found)
    for left, right, signs in zip(found, found[1:], between, strict=False):
        gap = range(left + 1, right)
        mine = _matching(meanings, gap, signs)
        rest = "".join(meanings[place] for place in gap if place not in mine)
        if len(mine) < len(signs) or not _BREAK.fullmatch(rest):
            return []
        own += mine
    first, last = found[0], found[-1] + 1
    own += _matching(meanings, range(max(first - len(before), 0), first), before)
    own += _matching(meanings, range(last, min(last + len(after), len(meanings))), after)
    return own


def _matching(meanings: Sequence[str], places: Iterable[int], wanted: str) -> list[int]:
    """Where these characters stand in that order, other ones between them."""
    found: list[int] = []
    for place in places:
        if len(found) < len(wanted) and meanings[place] == wanted[len(found)]:
            found.append(place)
    return found


def _runs(signs: Sequence[str], hidden: set[int]) -> Iterator[str]:
    """The signs, each run of hidden ones as a mask."""
    count = 0
    for place, sign in enumerate(signs):
        if place in hidden:
            count += len(sign)
            continue
        if count:
            yield mask(count)
            count = 0
        yield sign
    if count:
        yield mask(count)


def _forms(secret: str) -> Iterator[str]:
    """A secret, and what of it is always the same in base64, whatever stands around it."""
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


def _pattern(form: str) -> str:
    """How a form is found that has few letters, or is short."""
    if len(form) >= _ANYWHERE:
        return re.escape(form)
    return rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"
