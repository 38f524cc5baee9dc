"""Words of source code and of queries: identifiers split, stop words dropped, synonyms, stems."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache, lru_cache
from pathlib import Path

SHORTEST = 2
MOST_TERMS = 24
"""More words of a question would only take time."""

_STOP_WORDS = Path(__file__).with_name("stop_words.txt")
_NAME = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


@lru_cache(maxsize=100_000)
def subwords(name: str) -> str:
    """The words in one name, and where there are several their compound: `file name filename`."""
    found = [part.lower() for part in _PART.findall(name) if len(part) >= SHORTEST]
    return " ".join([*found, "".join(found)] if len(found) > 1 else found)


def split_words(text: str) -> str:
    """All words of a text, as they are indexed."""
    return " ".join(map(subwords, _NAME.findall(text)))


def terms(question: str) -> list[str]:
    """The words of a question, without stop words unless there are no others."""
    words = list(dict.fromkeys(split_words(question).split()))
    return ([word for word in words if word not in stop_words()] or words)[:MOST_TERMS]


@cache
def stop_words() -> frozenset[str]:
    """Words that say nothing about the subject."""
    return frozenset(_STOP_WORDS.read_text(encoding="utf-8").split())


STEMMER = "porter unicode61"
"""The stemming tokenizer of FTS5, here and in the index."""

_FILE = Path(__file__).with_name("thesaurus.txt")


def stems(words: Iterable[str]) -> dict[str, str]:
    """The stem of each word."""
    listed = list(words)
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute(f"CREATE VIRTUAL TABLE forms USING fts5(word, tokenize='{STEMMER}')")
        scratch.execute("CREATE VIRTUAL TABLE stems USING fts5vocab('forms', 'instance')")
        scratch.executemany("INSERT INTO forms (rowid, word) VALUES (?, ?)", enumerate(listed))
        rows: list[tuple[int, str]] = scratch.execute("SELECT doc, term FROM stems").fetchall()
    found = {listed[row]: stem for row, stem in rows}
    return {word: found.get(word, word) for word in listed}


def related(stem: str) -> dict[str, str]:
    """The synonyms of words with this stem, and their stems."""
    return _by_stem().get(stem, {})


@cache
def groups() -> tuple[tuple[str, ...], ...]:
    """Each line of the file, as words."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split()) for line in lines if line and not line.startswith("#"))


@cache
def _by_stem() -> dict[str, dict[str, str]]:
    forms = stems({word for group in groups() for word in group})
    found: dict[str, dict[str, str]] = {}
    for group in groups():
        for word in group:
            others = {other: forms[other] for other in group if forms[other] != forms[word]}
            found.setdefault(forms[word], {}).update(others)
    return found


HEIGHT, WIDTH = 8, 160
_PREFIX = 5
"""Words with the same first letters count as the same when lines are chosen."""


def best_lines(lines: Sequence[str], question: str) -> str:
    """At most `HEIGHT` lines: those with the most words of the question, else the first."""
    wanted = {term[:_PREFIX] for term in terms(question)}
    found = [wanted & {word[:_PREFIX] for word in split_words(line).split()} for line in lines]
    starts = range(max(1, len(lines) - HEIGHT + 1))
    start = max(starts, key=lambda at: (len(set[str]().union(*found[at : at + HEIGHT])), -at))
    return "\n".join(line[:WIDTH].rstrip() for line in lines[start : start + HEIGHT]).strip("\n")
