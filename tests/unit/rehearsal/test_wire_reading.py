"""Parsing requests sent by the real CLIs."""

from __future__ import annotations

import pytest

from coterie.rehearsal import anthropic, gemini, openai
from coterie.rehearsal.connection import HttpRequest
from coterie.rehearsal.model_api import CompletionRequest, TextMessage, ToolCall, ToolResult
from coterie.rehearsal.simulation import side_call
from coterie.rehearsal.wire import ParsedRequest, WireFormat, client_of
from tests.unit.rehearsal.recorded import request_of

ROLE = "You are Alice. You look at security only."
PROMPT = "please read the note"


def posting(path: str, body: dict[str, object]) -> ParsedRequest:
    return ParsedRequest(HttpRequest("POST", path, {}, b""), body, 2)


@pytest.mark.parametrize(
    ("name", "dialect", "model", "shell"),
    [
        ("claude", "anthropic", "claude-opus-5-5", "Bash"),
        ("codex", "responses", "gpt-5.5", "exec_command"),
        ("codex_code_mode", "responses", "gpt-6.1-sol", "exec"),
        ("gemini", "gemini", "gemini-2.5-pro", "run_shell_command"),
        ("qwen", "chat", "rehearsal", "run_shell_command"),
        ("opencode", "chat", "rehearsal", "bash"),
    ],
)
def test_a_turn(name: str, dialect: str, model: str, shell: str) -> None:
    asked = request_of(name)
    assert (asked.dialect, asked.client, asked.model) == (dialect, name.partition("_")[0], model)
    assert asked.stream
    assert asked.newest == PROMPT
    assert asked.instructions.count(ROLE) == 1
    assert side_call(asked) is None
    assert shell in asked.tools
    calls = [item for item in asked.conversation if isinstance(item, ToolCall)]
    results = [item for item in asked.conversation if isinstance(item, ToolResult)]
    assert calls[0].name == shell
    assert "cat note.txt" in str(calls[0].input)
    assert [call.id for call in calls] == [result.call_id for result in results]
    assert "heliotrope" in results[0].text
    assert asked.results == (results[-1],)


@pytest.mark.parametrize(("name", "tool"), [("claude", "Read"), ("gemini", "read_file")])
def test_inputs_come_as_objects(name: str, tool: str) -> None:
    *_, call, result = request_of(name).conversation
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.name, call.input) == (tool, {"file_path": "/lab/work/note.txt"})
    assert not result.failed


def test_codex_patches_as_text() -> None:
    call = request_of("codex").conversation[-2]
    assert isinstance(call, ToolCall)
    assert call.name == "apply_patch"
    assert str(call.input).startswith("*** Begin Patch\n")


def test_side_calls_are_distinguished_from_turns() -> None:
    router = request_of("gemini_router")
    assert router.schema is not None
    name, reply = side_call(router) or ("", None)
    assert reply is not None
    assert (name, reply.text) == ("choice", '{"complexity_reasoning":"","complexity_score":1}')
    name, reply = side_call(request_of("opencode_title")) or ("", None)
    assert reply is not None
    assert (name, reply.text) == ("title", "Rehearsal: please read the note")


def test_newest_passes_over_what_a_cli_adds() -> None:
    def newest(*texts: str) -> str:
        said = tuple(TextMessage("user", text) for text in texts)
        return CompletionRequest("chat", "other", "m", (), said).newest

    assert newest("hello", "<system-reminder>\nbe good\n</system-reminder>") == "hello"
    assert newest("<environment_context>\n</environment_context>", " hi ") == "hi"
    assert newest("# AGENTS.md instructions for /lab\n\nbe good") == ""


def test_results_wait_only_until_somebody_spoke() -> None:
    result = ToolResult("c", "out")
    called = (TextMessage("user", "go"), ToolCall("Bash", {}, "c"), result)
    reminder = TextMessage("user", "<system-reminder>again</system-reminder>")

    def waiting(*more: TextMessage) -> tuple[ToolResult, ...]:
        return CompletionRequest("chat", "other", "m", (), called + more).results

    assert waiting() == (result,)
    assert waiting(reminder) == (result,)
    assert waiting(TextMessage("assistant", "done")) == ()
    assert waiting(TextMessage("user", "and now?")) == ()


STRANGE: list[dict[str, object]] = [
    {},
    {"messages": "x", "input": 7, "contents": {"a": 1}, "tools": "y", "system": None},
    {
        "messages": [None, 3, {"role": "user", "content": [None, {"type": "new"}, {"text": 5}]}],
        "input": [[], {"type": "message", "content": 4}, {"type": "function_call"}, {"type": []}],
        "contents": [{"parts": [{"functionCall": 1}, {"functionResponse": []}, {"blob": 2}]}],
        "tools": [1, {"function": 2}, {"functionDeclarations": [3, {}]}],
        "systemInstruction": {"parts": [{"text": None}]},
        "generationConfig": [],
    },
]


@pytest.mark.parametrize("body", STRANGE)
@pytest.mark.parametrize("wire", [anthropic.WIRE, openai.CHAT, gemini.WIRE, openai.RESPONSES])
def test_nothing_strange_breaks_it(wire: WireFormat, body: dict[str, object]) -> None:
    posted = posting("/models/x:generateContent", body)
    asked = wire.read(posted)
    assert asked.newest == ""


def test_plain_texts_are_taken_too() -> None:
    def read(wire: WireFormat, **body: object) -> CompletionRequest:
        return wire.read(posting("", body))

    message = {"role": "user", "content": "hi"}
    assert read(anthropic.WIRE, system="be good", messages=[message]).system == ("be good",)
    assert read(anthropic.WIRE, messages=[message]).newest == "hi"
    assert read(openai.RESPONSES, instructions="be good", input="hi").newest == "hi"
    assert read(openai.RESPONSES, instructions="be good", input="hi").system == ("be good",)
    schema = {"type": "object"}
    wanted = {"json_schema": {"schema": schema}}
    assert read(openai.CHAT, response_format=wanted).schema == schema
    assert read(openai.RESPONSES, text={"format": {"schema": schema}}).schema == schema
    assert read(anthropic.WIRE, output_config={"format": {"schema": schema}}).schema == schema


def test_clients_say_who_they_are() -> None:
    assert client_of("GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)") == "gemini"
    assert client_of("codex_cli_rs/0.166.0") == "codex"
    assert client_of("curl/8") == "other"
