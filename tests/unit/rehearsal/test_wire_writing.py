"""Replies in each vendor's format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from coterie.rehearsal.model_api import ErrorReply, ModelReply, ReplyUsage, ToolCall
from coterie.rehearsal.wire import SseEvent, WireFormat, unix_time
from tests.unit.rehearsal.recorded import fixture, wire_and_request

CALL = ToolCall("Bash", {"command": "ls -la", "description": "list"}, "toolu_1")
REPLY = ModelReply(("Running ", "ls"), (CALL,), "hmm let me think", usage=ReplyUsage(10, 60))
TEXT = ModelReply(("one ", "two"), usage=ReplyUsage(10, 2))
NAMES = ["claude", "codex", "gemini", "qwen"]


def streamed(name: str, reply: ModelReply) -> list[SseEvent]:
    wire, asked = wire_and_request(name)
    return list(wire.events(asked, reply))


def whole(name: str, reply: ModelReply) -> Any:
    wire, asked = wire_and_request(name)
    return wire.whole(asked, reply)


def data(events: list[SseEvent]) -> list[Any]:
    return [event.data for event in events]


def shape(value: Any) -> Any:
    """Return the keys and types of a value, without its content."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__


# -- anthropic ---------------------------------------------------------------------------------


def test_anthropic_streams_what_was_recorded() -> None:
    """Matches the real stream, except that the model's JSON came there in two deltas."""
    recorded = fixture("claude_stream")
    halves = [event for event in recorded if "input_json_delta" in json.dumps(event)]
    recorded.remove(halves[1])
    ours = streamed("claude", ModelReply(("Running ls",), (CALL,), "hmm", usage=ReplyUsage(10, 60)))
    assert [shape(event.data) for event in ours] == [shape(event) for event in recorded]
    assert [event.name for event in ours] == [event["type"] for event in recorded]
    stops = [each["delta"]["stop_reason"] for each in (data(ours)[-2], recorded[-2])]
    assert stops == ["tool_use", "tool_use"]


def test_anthropic_bytes() -> None:
    delta = streamed("claude", TEXT)[2]
    assert delta.encoded() == (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"one "}}\n\n'
    )
    assert delta.piece


def test_anthropic_whole() -> None:
    message = whole("claude", REPLY)
    assert message["content"] == [
        {"type": "thinking", "thinking": "hmm let me think", "signature": "cmVoZWFyc2Fs"},
        {"type": "text", "text": "Running ls"},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": CALL.input},
    ]
    assert message["stop_reason"] == "tool_use"
    assert message["usage"]["input_tokens"] == 10
    assert message["usage"]["output_tokens"] == 60


# -- responses ---------------------------------------------------------------------------------


def test_responses_stream() -> None:
    patch = ToolCall("apply_patch", "*** Begin Patch", "call_2")
    run = ToolCall("ask_user", {"question": "go?"}, "call_1", "mcp__team")
    events = streamed(
        "codex", ModelReply(("a ", "b"), (run, patch), "hm", usage=ReplyUsage(10, 60))
    )
    said = data(events)
    assert [each["sequence_number"] for each in said] == list(range(len(said)))
    assert [event.name for event in events] == [
        "response.created",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    done = [each["item"] for each in said if each["type"] == "response.output_item.done"]
    assert said[-1]["response"]["output"] == done
    assert [item["type"] for item in done] == [
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
    ]
    calls = [{key: item.get(key) for key in ("call_id", "name", "namespace")} for item in done[2:]]
    assert calls == [
        {"call_id": "call_1", "name": "ask_user", "namespace": "mcp__team"},
        {"call_id": "call_2", "name": "apply_patch", "namespace": None},
    ]
    assert (done[2]["arguments"], done[3]["input"]) == ('{"question":"go?"}', "*** Begin Patch")
    begun = said[12]["item"]
    assert (begun["arguments"], begun["status"]) == ("", "in_progress")
    assert said[-1]["response"]["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 60,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 70,
    }


def test_responses_that_stop_early_are_incomplete() -> None:
    last = streamed("codex", ModelReply(("a",), stop="length"))[-1]
    assert last.name == "response.incomplete"
    response = data([last])[0]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_responses_whole() -> None:
    response = whole("codex", TEXT)
    assert (response["object"], response["status"]) == ("response", "completed")
    [message] = response["output"]
    assert message["content"] == [{"type": "output_text", "text": "one two", "annotations": []}]


# -- chat completions --------------------------------------------------------------------------


def test_chat_stream() -> None:
    *chunks, usage, done = streamed("qwen", REPLY)
    assert done.encoded() == b"data: [DONE]\n\n"
    deltas = [each["choices"][0]["delta"] for each in data(chunks)]
    arguments = '{"command":"ls -la","description":"list"}'
    function = {"name": "Bash", "arguments": arguments}
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hmm let me think"},
        {"content": "Running "},
        {"content": "ls"},
        {"tool_calls": [{"index": 0, "id": "toolu_1", "type": "function", "function": function}]},
        {},
    ]
    assert [each["choices"][0]["finish_reason"] for each in data(chunks)] == [None] * 5 + [
        "tool_calls"
    ]
    assert [event.piece for event in chunks] == [False, False, True, True, False, False]
    [counted] = data([usage])
    assert counted["choices"] == []
    assert counted["usage"] == {"prompt_tokens": 10, "completion_tokens": 60, "total_tokens": 70}


def test_chat_whole() -> None:
    [choice] = whole("qwen", TEXT)["choices"]
    assert choice["message"] == {"role": "assistant", "content": "one two"}
    assert choice["finish_reason"] == "stop"
    [choice] = whole("qwen", REPLY)["choices"]
    assert choice["message"]["tool_calls"][0]["id"] == "toolu_1"
    assert choice["finish_reason"] == "tool_calls"


# -- gemini ------------------------------------------------------------------------------------


def test_gemini_stream() -> None:
    said = data(streamed("gemini", REPLY))
    assert [each["candidates"][0]["content"]["parts"] for each in said] == [
        [{"text": "hmm let me think", "thought": True}],
        [{"text": "Running "}],
        [{"text": "ls"}],
        [{"functionCall": {"id": "toolu_1", "name": "Bash", "args": CALL.input}}],
    ]
    assert ["finishReason" in each["candidates"][0] for each in said] == [False] * 3 + [True]
    assert said[-1]["candidates"][0]["finishReason"] == "STOP"
    assert said[-1]["usageMetadata"]["totalTokenCount"] == 70
    assert len({each["responseId"] for each in said}) == 1


def test_gemini_whole_and_empty() -> None:
    [candidate] = whole("gemini", TEXT)["candidates"]
    assert candidate["content"] == {"role": "model", "parts": [{"text": "one two"}]}
    [empty] = data(streamed("gemini", ModelReply()))
    assert empty["candidates"][0]["finishReason"] == "STOP"


# -- all ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_usage_is_counted_where_none_is_given(name: str) -> None:
    wire, asked = wire_and_request(name)
    text = json.dumps(wire.whole(asked, ModelReply(("x" * 400,))))
    assert f": {asked.size // 4}," in text
    assert '_tokens": 100' in text or 'TokenCount": 100' in text


def refused(name: str, refusal: ErrorReply) -> tuple[int, Any]:
    wire: WireFormat = wire_and_request(name)[0]
    return wire.error(refusal)


def test_refusals() -> None:
    key, limit, busy = ErrorReply(401, "no"), ErrorReply(429, "slow", 1.5), ErrorReply(529, "full")
    status, body = refused("claude", key)
    assert (status, body["type"], body["error"]) == (
        401,
        "error",
        {"type": "authentication_error", "message": "no"},
    )
    assert refused("claude", busy)[0] == 529
    assert refused("claude", busy)[1]["error"]["type"] == "overloaded_error"
    assert refused("codex", limit) == (
        429,
        {
            "error": {
                "message": "slow",
                "type": "rate_limit_error",
                "param": None,
                "code": "rate_limit_exceeded",
            }
        },
    )
    assert refused("codex", busy)[0] == refused("gemini", busy)[0] == 503
    status, body = refused("gemini", limit)
    assert (status, body["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    [detail] = body["error"]["details"]
    assert detail["retryDelay"] == "1.5s"


def test_a_limit_states_its_end() -> None:
    used_up = ErrorReply(429, "no more", resets_in=3600)
    soonest = unix_time(3600)
    moments = [
        int(headers("claude", 3600)["anthropic-ratelimit-unified-reset"]),
        int(headers("codex", 3600)["x-codex-primary-reset-at"]),
        refused("codex", used_up)[1]["error"]["resets_at"],
    ]
    assert all(soonest <= moment <= unix_time(3600) for moment in moments)
    [detail] = refused("gemini", used_up)[1]["error"]["details"]
    assert detail["retryDelay"] == "3600s"
    assert headers("gemini", 3600) == headers("qwen", 3600) == {}


def headers(name: str, seconds: float) -> Mapping[str, str]:
    wire: WireFormat = wire_and_request(name)[0]
    return wire.limit_headers(seconds)


def test_a_daily_quota_says_so() -> None:
    gone = ErrorReply(429, "come back tomorrow", quota=True)
    assert refused("qwen", gone)[1]["error"]["code"] == "insufficient_quota"
    [detail] = refused("gemini", gone)[1]["error"]["details"]
    assert "PerDay" in detail["violations"][0]["quotaId"]
    assert refused("claude", gone)[1]["error"]["type"] == "rate_limit_error"
