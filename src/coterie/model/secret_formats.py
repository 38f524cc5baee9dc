"""Detect unknown secrets by the fixed formats of services' keys, and mask secrets in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def mask(count: int) -> str:
    """The mask for this many characters of a secret."""
    return f"[redacted {count}]"


def masked(match: re.Match[str]) -> str:
    """The mask for a regex match."""
    return mask(len(match[0]))


_FORMATS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[opusr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|xai-[A-Za-z0-9]{40,}|A[KS]IA[0-9A-Z]{16}\b|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])((?:(?!\beyJ)[A-Za-z0-9_-])*+)"
    r"(eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+)"
)
"""A JSON web token and what precedes it in its word: searched for once per word, since searching
from each `eyJ` of a long word would take forever."""
SHORTEST_KEY = 15
"""The minimum length of a key in any format, in characters."""
OPEN_KEY = re.compile(r"-----BEGIN [A-Z ]*(?:PRIVATE KEY-----(?!.*-----END )|\Z)", re.DOTALL)
"""Matches where a private key begins, or may begin, whose end has not been seen."""
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(?=-----END |\Z)", re.DOTALL)
_KEY_LINES = re.compile(
    r"\\[nrt]|[A-Za-z0-9+/]{40,}={0,2}"
    r"|(?:[A-Za-z0-9+/]{12,}={0,2}|[A-Za-z0-9+/]+={1,2})(?=(?:\\[nrt]|[^A-Za-z0-9+/=])*\Z)"
)
"""The lines of a key, the last of which may be short; escaped line ends are skipped."""
_USER_PART = re.compile(r"""(:\\*/\\*/)([^\s/?#@"'`<>|;&()\\{}\[\]]{1,512})(?=@)""")
"""The user part of a URL; it excludes characters that would end a shell word or begin a command in
it."""
_USER_WORDS = re.compile(r"\$\w+|[:$]|[^:$]+")
"""Shell variables are not masked: they are not secrets, and what they would send must be seen."""


def without_formats(text: str) -> str:
    """The text with everything in the format of a key masked."""
    text = _PRIVATE_KEY.sub(lambda key: key[1] + _KEY_LINES.sub(_key_line, key[2]), text)
    if ".eyJ" in text:
        text = _TOKEN.sub(lambda token: token[1] + mask(len(token[2])), text)
    return _FORMATS.sub(masked, text)


def _key_line(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else masked(match)


def _user_part(match: re.Match[str]) -> str:
    return match[1] + _USER_WORDS.sub(_user_word, match[2])


def _user_word(match: re.Match[str]) -> str:
    return match[0] if match[0][0] in ":$" else masked(match)


def without_users(text: str) -> str:
    """The text with the user parts of its URLs masked."""
    return _USER_PART.sub(_user_part, text)


# -- which characters of a detected secret are masked --------------------------------------------

_BREAK = re.compile(r"""|[+,$ ]*["'`\\]["'`\\+,$ ]*|.*[\n\r].*""", re.DOTALL)
"""What may occur within a secret that was split: line breaks, or the quotes around its parts."""
_LETTER = re.compile(r"[A-Za-z0-9]")


def own_places(text: Sequence[str], core_places: Sequence[int], secret: str) -> list[int]:
    """The positions of all characters of a secret, given those of its letters and digits.

    Empty if the text between them is more than what splitting a secret would insert.
    """
    before, *between, after = _LETTER.split(secret)
    own = list(core_places)
    for left, right, wanted in zip(core_places, core_places[1:], between, strict=False):
        gap = range(left + 1, right)
        mine = _matching(text, gap, wanted)
        rest = "".join(text[place] for place in gap if place not in mine)
        if len(mine) < len(wanted) or not _BREAK.fullmatch(rest):
            return []
        own += mine
    first, last = core_places[0], core_places[-1] + 1
    own += _matching(text, range(max(first - len(before), 0), first), before)
    own += _matching(text, range(last, min(last + len(after), len(text))), after)
    return own


def _matching(text: Sequence[str], places: Iterable[int], wanted: str) -> list[int]:
    """The positions of these characters, in order and possibly with others between them."""
    matching: list[int] = []
    for place in places:
        if len(matching) < len(wanted) and text[place] == wanted[len(matching)]:
            matching.append(place)
    return matching


def with_masks(text: Sequence[str], hidden: set[int]) -> Iterator[str]:
    """The characters of a text, with each run of hidden ones replaced by a mask."""
    count = 0
    for place, character in enumerate(text):
        if place in hidden:
            count += len(character)
            continue
        if count:
            yield mask(count)
            count = 0
        yield character
    if count:
        yield mask(count)
