"""Ranks files by how well they answer a question: by passages, files and folders, and by meaning.

The numbers were chosen with questions about other packages than the one that the tests ask about;
near them the results hardly change, so there is nothing to gain from tuning them.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import Any

import anyio.to_thread

from coterie.tools.search.database import OUTLINES, PASSAGES, WHOLES, IndexDatabase
from coterie.tools.search.passages import related, stems, terms

SYNONYM, PREFIX = 0.6, 0.4
"""The weight of a synonym of a word, and of a word that begins with its stem."""
SHORTEST_PREFIX = 4
EXTRA_SYNONYM = 0.2
"""The extra weight of every synonym: many related words are a strong sign."""
TYPICAL_RARITY, SMOOTHING = 4.0, 0.25
"""Words rarer than this count for less than in BM25, and more common ones for more."""
NEXT_PASSAGES, MAX_NEXT = 0.2, 2
"""The weight of the next best passages of a file, and how many of them count."""
FOLDER_WEIGHT, FOLDER_BEST = 0.3, 3
"""The weight of a folder's best files for each file in it: related files sit together."""


@dataclass(frozen=True)
class Ranked:
    """A file, its score, and its best passage, if one matches."""

    file: int
    score: float
    passage: int | None


@dataclass(frozen=True)
class _Term:
    """A word of the question, with its stem and its synonyms."""

    word: str
    stem: str
    synonyms: Mapping[str, str]


def rank(database: IndexDatabase, question: str) -> list[Ranked]:
    """Return every file related to a question, best first."""
    query_terms = _query_terms(question)
    passages = _passages(database, query_terms)
    paths, places = database.paths(), database.places()
    best: dict[int, list[int]] = {}
    for passage in sorted(passages, key=lambda row: (-passages[row], row)):
        best.setdefault(places[passage][0], []).append(passage)
    scores = defaultdict[int, float](float)
    for file, rows in best.items():
        first, *others = (passages[row] for row in rows)
        scores[file] = first + NEXT_PASSAGES * sum(others[:MAX_NEXT])
    for table in (WHOLES, OUTLINES):
        _add(scores, _sum(_fit(database, table, term) for term in query_terms), 1.0)
    together = _by_folder(scores, paths)
    ranked = [
        Ranked(file, scores[file] + together[file], best.get(file, [None])[0]) for file in scores
    ]
    return sorted(ranked, key=lambda one: (-one.score, paths[one.file]))


def _query_terms(question: str) -> list[_Term]:
    stem_by_word = stems(terms(question))
    known = frozenset(stem_by_word.values())
    return [_Term(word, stem, _synonyms(stem, known)) for word, stem in stem_by_word.items()]


def _synonyms(stem: str, known: frozenset[str]) -> dict[str, str]:
    """Return a word's synonyms, each in one form only, without those in the question anyway."""
    by_stem = {form: word for word, form in related(stem).items() if form not in known}
    return {word: form for form, word in by_stem.items()}


def _fit(database: IndexDatabase, table: str, term: _Term) -> Mapping[int, float]:
    """Return the rows of a table that a term or its synonyms find, with their scores."""
    fit, extra = defaultdict[int, float](float), defaultdict[int, float](float)
    rarity = database.rarity(table, {term.word: term.stem, **term.synonyms})
    if term.word in rarity:
        _raise(fit, database.find(table, f'"{term.word}"'), _smoothed(rarity[term.word]))
    for word in term.synonyms:
        if word in rarity:
            # A rare synonym of a common word would otherwise outweigh the word that was asked for.
            least = min(rarity.get(term.word, rarity[word]), rarity[word])
            share = SYNONYM * least / rarity[word] * _smoothed(rarity[word])
            rows = database.find(table, f'"{word}"')
            _raise(fit, rows, share)
            _add(extra, rows, EXTRA_SYNONYM * share)
    _add(fit, extra, 1.0)
    if len(term.stem) >= SHORTEST_PREFIX:
        _raise(fit, database.find(table, f'"{term.stem}" *'), PREFIX)
    return fit


def _smoothed(rarity: float) -> float:
    return (TYPICAL_RARITY / rarity) ** SMOOTHING


def _raise(fit: defaultdict[int, float], rows: Mapping[int, float], share: float) -> None:
    for row, score in rows.items():
        fit[row] = max(fit[row], share * score)


def _add(fit: defaultdict[int, float], rows: Mapping[int, float], share: float) -> None:
    for row, score in rows.items():
        fit[row] += share * score


def _sum(fits: Iterable[Mapping[int, float]]) -> dict[int, float]:
    total = defaultdict[int, float](float)
    for fit in fits:
        _add(total, fit, 1.0)
    return total


def _passages(database: IndexDatabase, query_terms: Sequence[_Term]) -> dict[int, float]:
    """Score the passages: the more of the question's words they hold, the more they count."""
    fits = [fit for term in query_terms if (fit := _fit(database, PASSAGES, term))]
    total = _sum(fits)
    for row in total:
        total[row] *= sqrt(sum(row in fit for fit in fits) / len(fits))
    return total


def _by_folder(scores: Mapping[int, float], paths: Mapping[int, str]) -> dict[int, float]:
    """Return what each file scores for the best files in its folder."""
    folders = {file: paths[file].rpartition("/")[0] for file in scores}
    together = defaultdict[str, list[float]](list)
    for file, folder in folders.items():
        together[folder].append(scores[file])
    shares = {
        folder: FOLDER_WEIGHT * sum(sorted(values)[-FOLDER_BEST:]) / FOLDER_BEST
        for folder, values in together.items()
    }
    return {file: shares[folder] for file, folder in folders.items()}


Vector = Sequence[float]
TIMEOUT = 30.0
FUSION_CONSTANT = 60
"""The constant of reciprocal rank fusion."""


@dataclass(frozen=True)
class HttpEmbedder:
    """An embedding model, on any server with an `/embeddings` endpoint like OpenAI's."""

    base_url: str
    model: str
    """Vectors of different models are never compared."""
    api_key: str = ""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; raises OSError or ValueError on failure."""
        return await anyio.to_thread.run_sync(self._ask, list(texts), abandon_on_cancel=True)

    def _ask(self, texts: list[str]) -> list[Vector]:
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"{self.base_url} is not an http(s) URL")
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        body = json.dumps({"model": self.model, "input": texts}).encode()
        request = urllib.request.Request(  # noqa: S310
            self.base_url.rstrip("/") + "/embeddings", body, headers
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:  # noqa: S310
                return _vectors(json.load(reply), len(texts))
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            raise ValueError(f"the server answered {error.code} {error.reason}") from None


def _vectors(reply: Any, wanted: int) -> list[Vector]:
    try:
        entries = sorted(reply["data"], key=lambda entry: entry["index"])
        vectors: list[Vector] = [[float(one) for one in entry["embedding"]] for entry in entries]
    except (KeyError, TypeError) as error:
        raise ValueError(f"the reply has no vectors ({error!r})") from error
    if len(vectors) != wanted:
        raise ValueError(f"expected {wanted} vectors, got {len(vectors)}")
    return vectors


def packed(vector: Vector) -> bytes:
    """Scale a vector to length one and pack it for storage."""
    length = sqrt(sum(map(mul, vector, vector))) or 1.0
    return array("f", [one / length for one in vector]).tobytes()


def by_meaning(known: Iterable[tuple[int, int, bytes]], question: Vector) -> list[Ranked]:
    """Rank files by their passage nearest to a question."""
    wanted = array("f", packed(question))
    best: dict[int, Ranked] = {}
    for passage, file, stored in known:
        vector = array("f", stored)
        if len(vector) == len(wanted):
            score = sum(map(mul, vector, wanted))
            if file not in best or score > best[file].score:
                best[file] = Ranked(file, score, passage)
    return sorted(best.values(), key=lambda one: (-one.score, one.file))


def fused(by_words: Sequence[Ranked], by_vectors: Sequence[Ranked]) -> list[Ranked]:
    """Fuse two rankings by reciprocal rank."""
    scores = defaultdict[int, float](float)
    passages: dict[int, int | None] = {}
    for ranked in (by_words, by_vectors):
        for place, one in enumerate(ranked, 1):
            scores[one.file] += 1 / (FUSION_CONSTANT + place)
            passages.setdefault(one.file, one.passage)
    merged = [Ranked(file, score, passages[file]) for file, score in scores.items()]
    return sorted(merged, key=lambda one: (-one.score, one.file))
