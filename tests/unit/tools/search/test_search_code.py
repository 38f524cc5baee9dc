"""The search tool: by words alone, and also by vectors from a model behind a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coterie.model.tool_call import Action
from coterie.tools.search.index import CodeIndex, SearchCode
from coterie.tools.search.ranking import HttpEmbedder
from coterie.tools.toolbox import PreparedCall, ToolOutcome
from tests.unit.tools.member_project import MemberProject, call, member_project, toolbox

TOPICS = (("colour", "paint", "vermilion"), ("letter", "parcel", "courier"))


class Model(ThreadingHTTPServer):
    """Knows two topics; a text is as close to each as it has words of it."""

    broken = False
    asked: int = 0


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        model = self.server
        assert isinstance(model, Model)
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        right = self.headers["Authorization"] == "Bearer key" and self.path == "/v1/embeddings"
        model.asked += len(texts)
        vectors = [[sum(map(text.lower().count, topic)) for topic in TOPICS] for text in texts]
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        body = json.dumps({} if model.broken else {"data": data[::-1]}).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    made = member_project(tmp_path)
    made.write("brush.py", "# how paint dries\n")
    made.write("van.py", "# where a parcel goes\n")
    return made


def tool(shop: MemberProject, embedder: HttpEmbedder | None = None) -> SearchCode:
    return SearchCode(CodeIndex(shop.workspace.tmp / "search.db", shop.root), embedder)


def embedder(model: Model, key: str = "key") -> HttpEmbedder:
    return HttpEmbedder(f"http://127.0.0.1:{model.server_port}/v1/", "topics", key)


async def asked(shop: MemberProject, one: SearchCode, query: str) -> ToolOutcome:
    return await call(toolbox(shop, one), "searchCode", query=query)


async def test_files_are_found_as_they_are_now(shop: MemberProject) -> None:
    one = tool(shop)
    assert await asked(shop, one, "drying paint") == ToolOutcome(
        {"count": 1, "results": "brush.py:1-2\n# how paint dries"}
    )
    shop.write("brush.py", "# how glue dries\n")
    assert await asked(shop, one, "paint") == ToolOutcome({"count": 0, "results": ""})


def test_it_reads_and_says_so(shop: MemberProject) -> None:
    prepared = toolbox(shop, tool(shop)).check("searchCode", {"query": "paint"})
    assert isinstance(prepared, PreparedCall)
    assert prepared.tool.read_only
    where = str(shop.root.path)
    expected = Action("read", "searchCode", where, paths=(".",), confined=True)
    assert prepared.action == expected


async def test_a_model_finds_what_shares_no_word_with_the_query(
    shop: MemberProject, model: Model
) -> None:
    one = tool(shop, embedder(model))
    assert (await asked(shop, tool(shop), "vermilion")).output["count"] == 0
    outcome = await asked(shop, one, "vermilion")
    assert str(outcome.output["results"]).startswith("brush.py:1-2")
    assert model.asked == 3

    await asked(shop, one, "vermilion")
    assert model.asked == 4  # only the question: unchanged files are cached
    shop.write("van.py", "# where a courier goes\n")
    await asked(shop, one, "vermilion")
    assert model.asked == 6


@pytest.mark.parametrize("fault", ["key", "reply", "gone"])
async def test_without_the_model_words_still_find(
    shop: MemberProject, model: Model, fault: str
) -> None:
    model.broken = fault == "reply"
    used = embedder(model, "wrong" if fault == "key" else "key")
    if fault == "gone":
        used = HttpEmbedder("file:///etc", "topics")
    outcome = await asked(shop, tool(shop, used), "paint")
    assert outcome.output["count"] == 1
    assert "embedding model failed" in str(outcome.output["note"])
