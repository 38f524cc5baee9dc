"""Make every character of untrusted text visible.

A character that a terminal would obey, draw as nothing, or draw over another one is shown as
`<U+001B>`, and a byte that is not text as `<0xFF>`.  Nothing is dropped, and `decoded` restores the
exact text: a `<` that merely looks like the beginning of such a code is shown as a code too.
Lookalike characters (a Cyrillic a) are out of scope.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
"""Characters that Unicode lets a program ignore when drawing, and blank letters and symbols."""
_MOST_MARKS = 2
"""More marks on a letter than any language needs would cover the text around it."""
CODE = re.compile(r"<U\+([0-9A-F]{4,6})>|<0x([0-9A-F]{2})>")
_LOOKS_LIKE_CODE = re.compile(r"<(?=U\+|0x)")
_LAST_BLANK = re.compile(r" (?=\n|\Z)")
_LONG_GAP = 64
"""This many blanks in a row could push the text after them out of sight; the last one is shown."""
_EMOJI = "\ufe0f"
_SURROGATES = re.compile("[\ud800-\udfff]")
_BYTES = range(0xDC80, 0xDD00)
"""The code points to which Python maps undecodable bytes of file names."""


def folded(name: str) -> str:
    """A name as names are compared: without case, and accents written in one way."""
    return unicodedata.normalize("NFC", name).casefold()


def visible(text: str) -> str:
    """Escape everything that is not plainly visible; line breaks are kept."""
    shown = _escaped(text)
    if " " * _LONG_GAP in shown:
        shown = shown.replace(" " * _LONG_GAP, " " * (_LONG_GAP - 1) + _BLANK)
    if shown.endswith(" ") or " \n" in shown:
        shown = _LAST_BLANK.sub(_BLANK, shown)
    return shown


def visible_line(text: str) -> str:
    """Like `visible`, but on one line: line breaks are escaped too."""
    return visible(text).replace("\n", LINE_END)


def visible_path(path: str) -> str:
    """A path as text that can be stored and sent: unchanged unless it has undecodable bytes or
    looks escaped."""
    return visible_line(path) if _SURROGATES.search(path) or CODE.search(path) else path


def encodable(value: object) -> object:
    """Return a JSON value in which every text can be encoded as UTF-8.

    Surrogate pairs are joined, and lone surrogates replaced; a byte that is not text, as in a file
    name, is escaped.
    """
    if isinstance(value, str):
        return (
            value if value.isascii() or not _SURROGATES.search(value) else _join_surrogates(value)
        )
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: encodable(one) for key, one in entries.items()}
    if isinstance(value, list | tuple):
        return [encodable(one) for one in cast("Sequence[object]", value)]
    return value


def _join_surrogates(text: str) -> str:
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return _SURROGATES.sub(
        lambda half: _code(half[0]) if ord(half[0]) in _BYTES else "\ufffd", joined
    )


def printable(text: str) -> str:
    """Like `visible`, for prose and code: tabs are expanded, and emoji presentation is kept."""
    if text.isascii() and text.isprintable() and "<" not in text:
        return text
    shown = _escaped(text.replace("\r\n", "\n"), frozenset("\t"))
    if _EMOJI_CODE in shown:
        shown = _AFTER_SYMBOL.sub(_emoji, shown)
    return shown.expandtabs(4)


def terminal_safe(text: str) -> str:
    """Escape everything in text composed for a terminal that could control the terminal.

    Existing codes are left as they are: this is the last step, after `visible` and `printable`.
    """
    return text if text.isprintable() else _without_hidden(text, frozenset())


def decoded(shown: str) -> str:
    """Undo `visible`, restoring the exact text."""
    return CODE.sub(_character, shown)


def patch_lines(text: str) -> list[str]:
    """Split a file into lines for a patch, such that a change to the final newline shows too."""
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def patch_name(path: str) -> str:
    """A file name for a line of a patch; quoted, as git does, if it has characters that are not
    printable, such as a newline, which could make it pass for part of the change."""
    return path if path.isprintable() else json.dumps(path, ensure_ascii=False)


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16) if match[1] else 0xDC00 + int(match[2], 16))


def _code(character: str) -> str:
    point = ord(character)
    return f"<0x{point - 0xDC00:02X}>" if point in _BYTES else f"<U+{point:04X}>"


_BLANK = _code(" ")
LINE_END = _code("\n")
_EMOJI_CODE = _code(_EMOJI)
_AFTER_SYMBOL = re.compile(rf"(.){re.escape(_EMOJI_CODE)}")


def _emoji(match: re.Match[str]) -> str:
    """Keep an emoji variation selector after a symbol; elsewhere leave its code."""
    symbol = match[1]
    return symbol + _EMOJI if unicodedata.category(symbol) == "So" else match[0]


def _escaped(text: str, kept: frozenset[str] = frozenset()) -> str:
    if "<" in text:
        text = _LOOKS_LIKE_CODE.sub(_code("<"), text)
    return text if text.isascii() and text.isprintable() else _without_hidden(text, kept)


def _without_hidden(text: str, kept: frozenset[str]) -> str:
    used = set(text)
    hidden = {ord(one): _code(one) for one in used if _is_hidden(one) and one not in kept}
    marks = [one for one in used if ord(one) not in hidden and _is_mark(one)]
    if marks:
        stacked = re.compile(f"(^|[^{''.join(marks)}])([{''.join(marks)}]+)", re.M)
        text = stacked.sub(_with_marks, text)
    return text.translate(hidden) if hidden else text


def _with_marks(match: re.Match[str]) -> str:
    """Keep the marks that a letter may carry; escape excess marks and marks on anything else."""
    base, marks = match.groups()
    most = _MOST_MARKS if base and unicodedata.category(base)[0] == "L" else 0
    return base + marks[:most] + "".join(map(_code, marks[most:]))


@lru_cache(maxsize=8192)
def _is_hidden(character: str) -> bool:
    if character == "\n":
        return False
    if not character.isprintable() or _IGNORED.match(character):
        return True
    # Marks drawn around a character, or right through it.
    return unicodedata.category(character) == "Me" or unicodedata.combining(character) == 1


@lru_cache(maxsize=8192)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc")
