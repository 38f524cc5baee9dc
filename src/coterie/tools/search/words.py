"""The words of source code and of questions: identifiers split, small words left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

SHORTEST = 2
MOST_TERMS = 24
"""A question says what it is about in fewer words; more would only take time."""

_NAME = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")

_SMALL = frozenset(
    """
    a able about above actually after again against ago ahead all almost alone along already also
    always am an and another any anyone anything are aren around as at away back be became because
    become becomes been before being believe below best better between both bring brings but by
    came can cannot certain certainly clearly code come comes could couldn did didn directly do
    does doesn doing don done down during each either else enough especially even eventually ever
    every everyone everything exactly far few finally for from further gave get gets give given
    gives go goes going good got great had hadn happen happens has hasn have haven having he hear
    help helps her here hers herself him himself his how however i if in indeed instead into is isn
    it its itself just keep keeps kept kind kinds know knows later learn learns let like little
    live ll long look looks lot lots made make makes manner many may maybe me mean means meanwhile
    might more most much must my myself nearly need needs never new no nor not now of off often on
    once one only onto or other our ours ourselves out over own particularly people per perhaps
    pretty probably put quite rather reach really recently remain remains said same say says see
    seem seems several shall she should shouldn simply sit so some somebody someone something
    sometimes soon sort speak spend stand stay stays still such suddenly take taken takes talk tell
    than that the their theirs them themselves then there these they thing things think this those
    three through to today together too tries try turn turns two under understand understands
    until up upon us use used uses using usually ve very via want wanted wants was wasn way ways we
    went were weren what when where whether which while who whole whom whose why will with within
    without won would yet you your yours yourself
    """.split()
)


@lru_cache(maxsize=100_000)
def parts(name: str) -> str:
    """The words in one name, and where there are several their compound: `file name filename`."""
    found = [part.lower() for part in _PART.findall(name) if len(part) >= SHORTEST]
    return " ".join([*found, "".join(found)] if len(found) > 1 else found)


def split(text: str) -> str:
    """All words of a text, as they are indexed."""
    return " ".join(map(parts, _NAME.findall(text)))


def terms(question: str) -> list[str]:
    """What a question is about: each of its words once, without the small ones if others are left."""
    words = list(dict.fromkeys(split(question).split()))
    return ([word for word in words if word not in _SMALL] or words)[:MOST_TERMS]


def names(text: str) -> Iterator[str]:
    """The names in a text, whole and in order."""
    return (found.group() for found in _NAME.finditer(text))
