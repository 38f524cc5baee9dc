"""Words that stand for one another, from `thesaurus.txt`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path

STEMMER = "porter unicode61"
"""The tokenizer of FTS5 that takes the endings off words, here and in the index."""

_FILE = Path(__file__).with_name("thesaurus.txt")


def stems(words: Iterable[str]) -> dict[str, str]:
    """Each word without its endings."""
    listed = list(words)
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute(f"CREATE VIRTUAL TABLE forms USING fts5(word, tokenize='{STEMMER}')")
        scratch.execute("CREATE VIRTUAL TABLE stems USING fts5vocab('forms', 'instance')")
        scratch.executemany("INSERT INTO forms (rowid, word) VALUES (?, ?)", enumerate(listed))
        rows: list[tuple[int, str]] = scratch.execute("SELECT doc, term FROM stems").fetchall()
    found = {listed[row]: stem for row, stem in rows}
    return {word: found.get(word, word) for word in listed}


def related(stem: str) -> dict[str, str]:
    """The words that may stand for one with this stem, and their own stems."""
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
