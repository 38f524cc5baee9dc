"""The stand-in answers in its role, says what it is, and reads only what it is asked to read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coterie.rehearsal.filling import STAND_IN
from coterie.rehearsal.model_api import (
    CompletionRequest,
    ModelReply,
    TextMessage,
    ToolCall,
    ToolResult,
)
from coterie.rehearsal.simulation import Simulation, minimal_value, role, side_call
from tests.unit.rehearsal.recorded import request_of

CLIS = ["claude", "codex", "codex_code_mode", "gemini", "qwen", "opencode"]


def first_turn(name: str, message: str) -> CompletionRequest:
    """A recorded request, reduced to this message as its first turn."""
    asked = request_of(name)
    kept = [
        item for item in asked.conversation if isinstance(item, TextMessage) and item.role == "user"
    ]
    kept = [item for item in kept if item.text.strip() != asked.newest]
    return replace(asked, conversation=(*kept, TextMessage("user", message)))


async def answered(asked: CompletionRequest) -> ModelReply:
    answer = await Simulation().answer(asked)
    assert isinstance(answer, ModelReply)
    return answer


@pytest.mark.parametrize("name", CLIS)
async def test_it_knows_its_role_in_every_cli(name: str) -> None:
    asked = first_turn(name, "[CONTEXT]\nbob: You are a fool.\n\n[MESSAGE]\nIs the cart fine?")
    assert role(asked) == ("Alice", "You look at security only.")
    first, again = await answered(asked), await answered(asked)
    assert first.text == again.text
    assert first.text == (
        "Alice here, a stand-in for a model in this rehearsal. A model would now reply to "
        "“Is the cart fine?”, in this role: “You look at security only.”"
    )
    assert first.calls == ()


async def test_without_a_role() -> None:
    asked = CompletionRequest("chat", "other", "m", (), (TextMessage("user", "x" * 200),))
    short = "x" * 79 + "…"
    assert (await answered(asked)).text == (
        f"This is a stand-in for a model in this rehearsal. A model would now reply to “{short}”."
    )


async def test_a_role_in_front_of_the_message() -> None:
    text = "[SYSTEM]\nYou are the reviewer.\n\n[MESSAGE]\nhello"
    asked = CompletionRequest("chat", "other", "m", (), (TextMessage("user", text),))
    assert (await answered(asked)).text == (
        "The reviewer here, a stand-in for a model in this rehearsal. "
        "A model would now reply to “hello”."
    )


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("claude", ("Read", {"file_path": "/lab/work/src/cart.py"})),
        ("codex", ("exec_command", {"cmd": "cat -- /lab/work/src/cart.py"})),
        ("gemini", ("read_file", {"file_path": "/lab/work/src/cart.py"})),
        ("qwen", ("read_file", {"file_path": "/lab/work/src/cart.py"})),
        ("opencode", ("read", {"filePath": "/lab/work/src/cart.py"})),
    ],
)
async def test_it_reads_a_file_that_is_named(name: str, call: tuple[str, object]) -> None:
    reply = await answered(first_turn(name, "Please review `src/cart.py` with care."))
    assert [(each.name, each.input) for each in reply.calls] == [call]
    assert reply.text == "I'll look at src/cart.py first."


@pytest.mark.parametrize(
    "message", ["What is cart.py?", "Read the news.", "Reading is fun. See you.", ""]
)
async def test_it_calls_nothing_else(message: str) -> None:
    assert (await answered(first_turn("claude", message))).calls == ()


async def test_it_cannot_read_without_the_tool() -> None:
    asked = replace(first_turn("claude", "read note.txt"), tools=("Write",))
    assert (await answered(asked)).calls == ()
    asked = first_turn("codex_code_mode", "read note.txt")
    assert (await answered(asked)).calls == ()


async def test_it_says_what_came_of_it() -> None:
    honest = (
        "Alice: I am a stand-in for a model in this rehearsal, so I have nothing to say about it."
    )
    assert (await answered(request_of("claude"))).text == f"I got 2 lines. {honest}"
    call, failed = ToolCall("Read", {}, "c"), ToolResult("c", "no such file", failed=True)
    asked = first_turn("claude", "read note.txt")
    asked = replace(asked, conversation=(*asked.conversation, call, failed))
    assert (await answered(asked)).text == f"The tool failed: “no such file”. {honest}"


async def test_a_schema_is_followed() -> None:
    schema = {
        "type": "object",
        "required": ["status", "score", "ratio", "ok", "tags", "note", "none", "kind"],
        "properties": {
            "status": {"enum": ["DONE", "OPEN"]},
            "score": {"type": "INTEGER"},
            "ratio": {"type": "number", "minimum": 2},
            "ok": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "note": {"type": ["string", "null"]},
            "none": {"type": "null"},
            "kind": {"const": "x"},
            "left": {"type": "string"},
        },
    }
    asked = CompletionRequest(
        "responses", "codex", "m", (), (TextMessage("user", "go"),), schema=schema
    )
    assert json.loads((await answered(asked)).text) == {
        "status": "DONE",
        "score": 1,
        "ratio": 2,
        "ok": True,
        "tags": [STAND_IN, "go"],
        "note": STAND_IN,
        "none": None,
        "kind": "x",
    }


def test_a_schema_within_itself_ends() -> None:
    inner: dict[str, object] = {"type": "object", "required": ["a"]}
    inner["properties"] = {"a": inner}
    assert str(minimal_value(inner)).count("a") == 9


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (
            CompletionRequest(
                "gemini", "gemini", "m", (), (TextMessage("user", "sum up"),), stream=False
            ),
            "summary",
        ),
        (CompletionRequest("chat", "qwen", "m", (), (), ("respond_in_schema",)), "choice"),
        (
            CompletionRequest("chat", "qwen", "m", ("the managed memory extraction subagent",), ()),
            "memory",
        ),
    ],
)
def test_other_side_calls(asked: CompletionRequest, name: str) -> None:
    found = side_call(asked)
    assert found is not None
    assert found[0] == name
