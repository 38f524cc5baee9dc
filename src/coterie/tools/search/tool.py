"""searchCode: the files that answer a question, with the lines that are most likely to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import anyio.to_thread
from pydantic import Field

from coterie.tools.excerpt import truncated, visible
from coterie.tools.search.embeddings import Embedder
from coterie.tools.search.index import CodeIndex, Hit, QueryVector
from coterie.tools.toolbox import ToolInput, ToolOutcome, Utf8Text, WorkspaceTool

BATCH, MOST_BATCHES = 64, 20
"""How many passages a model is asked about at once, and how often before one search; the rest
follow with the next searches."""


class SearchCodeInput(ToolInput):
    """Find code by a question in plain words, when you do not know what it is called. Gives files,
    best first, each with its most fitting lines. For a known name use grep."""

    query: Utf8Text = Field(description="A question, or what the code does, in plain words.")


@dataclass(frozen=True)
class SearchCode(WorkspaceTool[SearchCodeInput]):
    """Finds places in a member's workspace by what they are about."""

    index: CodeIndex
    embedder: Embedder | None = None
    """An embedding model of the user's, if there is one."""

    name = "searchCode"
    inputs = SearchCodeInput

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """The files as they are now."""
        query = SearchCodeInput.model_validate(given).query
        await anyio.to_thread.run_sync(self.index.refresh)
        meant, problem = await self._meant(query)
        hits = await anyio.to_thread.run_sync(lambda: self.index.search(query, meant=meant))
        output: dict[str, object] = {"count": len(hits), "results": _told(hits)}
        if problem:
            output["note"] = f"Found by words alone: the embedding model failed ({problem})."
        return ToolOutcome(output)

    async def _meant(self, query: str) -> tuple[QueryVector | None, str]:
        """The question as the model has it, or what went wrong."""
        if self.embedder is None:
            return None, ""
        try:
            await self._teach(self.embedder)
            (vector,) = await self.embedder.embed([query])
        except (OSError, ValueError) as error:
            return None, str(error)
        return QueryVector(self.embedder.model, vector), ""

    async def _teach(self, embedder: Embedder) -> None:
        for _ in range(MOST_BATCHES):
            texts = await anyio.to_thread.run_sync(self.index.unembedded, embedder.model, BATCH)
            if not texts:
                return
            vectors = await embedder.embed(list(texts.values()))
            told = dict(zip(texts, vectors, strict=True))
            await anyio.to_thread.run_sync(self.index.keep, embedder.model, told)


def _told(hits: list[Hit]) -> str:
    return truncated(
        visible(
            "\n\n".join(
                f"{hit.path}:{hit.first_line}-{hit.last_line}\n{hit.snippet}" for hit in hits
            )
        )
    )
