"""Words that stand for one another, from `thesaurus.txt`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("thesaurus.txt")


@cache
def groups() -> tuple[tuple[str, ...], ...]:
    """Each line of the file, as words."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split()) for line in lines if line and not line.startswith("#"))


def vocabulary() -> Iterable[str]:
    """Every word there is, to be stemmed."""
    return {word for group in groups() for word in group}


def by_stem(stems: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """For each stem the words that may stand in its place."""
    found: dict[str, set[str]] = {}
    for group in groups():
        for word in group:
            found.setdefault(stems[word], set()).update(group)
    return {
        stem: frozenset(word for word in words if stems[word] != stem)
        for stem, words in found.items()
    }
