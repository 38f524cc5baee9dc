"""The few lines of a passage that tell most about a question."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.tools.search.words import split, terms

HEIGHT, WIDTH = 8, 160
_ALIKE = 5
"""Words that begin with the same letters are near enough to choose what is shown."""


def telling(lines: Sequence[str], question: str) -> str:
    """At most `HEIGHT` lines: those with the most words of the question, else the first."""
    wanted = {term[:_ALIKE] for term in terms(question)}
    found = [wanted & {word[:_ALIKE] for word in split(line).split()} for line in lines]
    starts = range(max(1, len(lines) - HEIGHT + 1))
    start = max(starts, key=lambda at: (len(set[str]().union(*found[at : at + HEIGHT])), -at))
    return "\n".join(line[:WIDTH].rstrip() for line in lines[start : start + HEIGHT]).strip("\n")
