"""Which files answer a question best: by a passage, by the whole, by the outline, by the company.

The numbers were chosen on questions about other packages than the one that the tests ask about;
around them the results hardly differ, so there is nothing to be gained by turning them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from coterie.tools.search.database import OUTLINES, PASSAGES, WHOLES, IndexDatabase
from coterie.tools.search.vocabulary import related, stems, terms

SYNONYM, LONGER = 0.6, 0.4
"""What a word counts that may stand for the one asked for, and one that begins with it."""
SHORTEST_BEGINNING = 4
CHORUS = 0.2
"""What every word counts besides that may stand for one: many that are related tell much."""
TYPICAL, EVENNESS = 4.0, 0.25
"""Rarer words than this count for less than BM25 has it, and commoner ones for more."""
FURTHER, MOST_FURTHER = 0.2, 2
"""What the next best passages of a file count, and how many of them do."""
COMPANY, COMPANIONS = 0.3, 3
"""What the best files of a folder count for each file in it: related files lie together."""


@dataclass(frozen=True)
class Ranked:
    """A file, how well it fits, and the passage of it that fits best, if one does."""

    file: int
    score: float
    passage: int | None


@dataclass(frozen=True)
class _Term:
    """A word of the question, with its stem and the others that may stand for it."""

    word: str
    stem: str
    synonyms: Mapping[str, str]


def rank(shelves: IndexDatabase, question: str) -> list[Ranked]:
    """Every file that has to do with a question, best first."""
    asked = _asked(question)
    passages = _passages(shelves, asked)
    paths, places = shelves.paths(), shelves.places()
    best: dict[int, list[int]] = {}
    for passage in sorted(passages, key=lambda row: (-passages[row], row)):
        best.setdefault(places[passage][0], []).append(passage)
    scores = {file: _by_passages([passages[row] for row in rows]) for file, rows in best.items()}
    for shelf in (WHOLES, OUTLINES):
        for file, score in _sum(_fits(shelves, shelf, asked)).items():
            scores[file] = scores.get(file, 0.0) + score
    together = _company(scores, paths)
    ranked = [
        Ranked(file, scores[file] + together[file], best.get(file, [None])[0]) for file in scores
    ]
    return sorted(ranked, key=lambda one: (-one.score, paths[one.file]))


def _by_passages(scores: Sequence[float]) -> float:
    """What a file gets for its passages, best first."""
    return scores[0] + FURTHER * sum(scores[1 : 1 + MOST_FURTHER])


def _asked(question: str) -> list[_Term]:
    asked = stems(terms(question))
    known = frozenset(asked.values())
    return [_Term(word, stem, _synonyms(stem, known)) for word, stem in asked.items()]


def _synonyms(stem: str, known: frozenset[str]) -> dict[str, str]:
    """The words that may stand for one, each in one form only, without those asked for anyway."""
    by_stem = {form: word for word, form in related(stem).items() if form not in known}
    return {word: form for form, word in by_stem.items()}


def _fits(shelves: IndexDatabase, shelf: str, asked: Iterable[_Term]) -> list[Mapping[int, float]]:
    """For each term the rows of a shelf that it finds, by itself or by another word."""
    return [_fit(shelves, shelf, term) for term in asked]


def _fit(shelves: IndexDatabase, shelf: str, term: _Term) -> Mapping[int, float]:
    fit, chorus = defaultdict[int, float](float), defaultdict[int, float](float)
    rarity = shelves.rarity(shelf, {term.word: term.stem, **term.synonyms})
    if term.word in rarity:
        _raise(fit, shelves.find(shelf, f'"{term.word}"'), _evened(rarity[term.word]))
    for word in term.synonyms:
        if word in rarity:
            # A rare word in place of a common one would otherwise count for more than what was
            # asked.
            least = min(rarity.get(term.word, rarity[word]), rarity[word])
            share = SYNONYM * least / rarity[word] * _evened(rarity[word])
            found = shelves.find(shelf, f'"{word}"')
            _raise(fit, found, share)
            _add(chorus, found, CHORUS * share)
    _add(fit, chorus, 1.0)
    if len(term.stem) >= SHORTEST_BEGINNING:
        _raise(fit, shelves.find(shelf, f'"{term.stem}" *'), LONGER)
    return fit


def _evened(rarity: float) -> float:
    return (TYPICAL / rarity) ** EVENNESS


def _raise(fit: defaultdict[int, float], found: Mapping[int, float], share: float) -> None:
    for row, score in found.items():
        fit[row] = max(fit[row], share * score)


def _add(fit: defaultdict[int, float], found: Mapping[int, float], share: float) -> None:
    for row, score in found.items():
        fit[row] += share * score


def _sum(fits: Iterable[Mapping[int, float]]) -> dict[int, float]:
    total = defaultdict[int, float](float)
    for fit in fits:
        _add(total, fit, 1.0)
    return total


def _passages(shelves: IndexDatabase, asked: Sequence[_Term]) -> dict[int, float]:
    """Passages count for more the more of the question is in them."""
    fits = [fit for fit in _fits(shelves, PASSAGES, asked) if fit]
    total = _sum(fits)
    for row in total:
        total[row] *= sqrt(sum(row in fit for fit in fits) / len(fits))
    return total


def _company(scores: Mapping[int, float], paths: Mapping[int, str]) -> dict[int, float]:
    """What each file gets for the best of its folder."""
    folders = {file: paths[file].rpartition("/")[0] for file in scores}
    together = defaultdict[str, list[float]](list)
    for file, folder in folders.items():
        together[folder].append(scores[file])
    shares = {
        folder: COMPANY * sum(sorted(found)[-COMPANIONS:]) / COMPANIONS
        for folder, found in together.items()
    }
    return {file: shares[folder] for file, folder in folders.items()}
