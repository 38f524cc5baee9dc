"""Search by embeddings: vectors of passages, and their ranking fused with that by words."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import Any, Protocol

import anyio.to_thread

from coterie.tools.search.ranking import Ranked

Vector = Sequence[float]
TIMEOUT = 30.0
SMOOTHING = 60
"""The constant of reciprocal rank fusion."""


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def model(self) -> str:
        """Its name: vectors of different models are never compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text; OSError or ValueError where it cannot."""
        ...


@dataclass(frozen=True)
class HttpEmbedder:
    """Any server with an `/embeddings` like OpenAI's."""

    base_url: str
    model: str
    api_key: str = ""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Ask the server."""
        return await anyio.to_thread.run_sync(self._ask, list(texts), abandon_on_cancel=True)

    def _ask(self, texts: list[str]) -> list[Vector]:
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"{self.base_url} is no http address")
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
            raise ValueError(f"the server said {error.code} {error.reason}") from None


def _vectors(reply: Any, wanted: int) -> list[Vector]:
    try:
        entries = sorted(reply["data"], key=lambda entry: entry["index"])
        vectors: list[Vector] = [[float(one) for one in entry["embedding"]] for entry in entries]
    except (KeyError, TypeError) as error:
        raise ValueError(f"the reply has no vectors ({error!r})") from error
    if len(vectors) != wanted:
        raise ValueError(f"{wanted} vectors were asked for and {len(vectors)} came")
    return vectors


def packed(vector: Vector) -> bytes:
    """A vector of length one, as it is stored."""
    length = sqrt(sum(map(mul, vector, vector))) or 1.0
    return array("f", [one / length for one in vector]).tobytes()


def by_meaning(known: Iterable[tuple[int, int, bytes]], question: Vector) -> list[Ranked]:
    """Files by their passage that is nearest to a question."""
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
    """Both rankings fused by reciprocal rank."""
    scores: dict[int, float] = {}
    passages: dict[int, int | None] = {}
    for ranked in (by_words, by_vectors):
        for place, one in enumerate(ranked, 1):
            scores[one.file] = scores.get(one.file, 0.0) + 1 / (SMOOTHING + place)
            passages.setdefault(one.file, one.passage)
    merged = [Ranked(file, score, passages[file]) for file, score in scores.items()]
    return sorted(merged, key=lambda one: (-one.score, one.file))
