"""The words of source code and of questions: identifiers split, small words left out."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

SHORTEST = 2
MOST_TERMS = 24
"""A question says what it is about in fewer words; more would only take time."""

_SMALL_WORDS = Path(__file__).with_name("small_words.txt")
_NAME = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


@lru_cache(maxsize=100_000)
def parts(name: str) -> str:
    """The words in one name, and where there are several their compound: `file name filename`."""
    found = [part.lower() for part in _PART.findall(name) if len(part) >= SHORTEST]
    return " ".join([*found, "".join(found)] if len(found) > 1 else found)


def split(text: str) -> str:
    """All words of a text, as they are indexed."""
    return " ".join(map(parts, _NAME.findall(text)))


def terms(question: str) -> list[str]:
    """What a question is about: its words, without the small ones unless there are no others."""
    words = list(dict.fromkeys(split(question).split()))
    return ([word for word in words if word not in small_words()] or words)[:MOST_TERMS]


@cache
def small_words() -> frozenset[str]:
    """Words that say nothing about what is looked for."""
    return frozenset(_SMALL_WORDS.read_text(encoding="utf-8").split())
