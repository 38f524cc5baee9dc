"""Scripts: which request gets which reply, and the errors for an invalid script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.app.rehearsals import script_in
from coterie.errors import ConfigError
from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ConversationItem,
    ErrorReply,
    ModelReply,
    NoReply,
    ReplyUsage,
    TextMessage,
    ToolCall,
    ToolResult,
)
from coterie.rehearsal.script import Script, ScriptedResponder, parse_script


class NobodyResponder:
    async def answer(self, request: CompletionRequest) -> Answer:
        return ModelReply(("nobody",))


def asking(message: str = "hello", **more: Any) -> CompletionRequest:
    results: tuple[ConversationItem, ...] = more.pop("results", ())
    fields: dict[str, Any] = {"dialect": "chat", "client": "qwen", "model": "m", "system": ()}
    conversation = (TextMessage("user", message), *results)
    return CompletionRequest(**{**fields, **more}, conversation=conversation)


def scripted(*rules: dict[str, Any], **more: Any) -> ScriptedResponder:
    return ScriptedResponder(
        Script.model_validate({"rules": list(rules), **more}), NobodyResponder()
    )


async def replies(responder: ScriptedResponder, *asked: CompletionRequest) -> list[str]:
    answers = [await responder.answer(each) for each in asked]
    return [each.text if isinstance(each, ModelReply) else type(each).__name__ for each in answers]


def saying(*texts: str, **more: Any) -> dict[str, Any]:
    return {"replies": [{"text": text} for text in texts], **more}


# -- matching ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({}, True),
        ({"system": "You are Alice"}, True),
        ({"system": "you are alice"}, False),
        ({"system": {"regex": "(?i)you are (alice|bob)"}}, True),
        ({"message": "a+b"}, True),
        ({"message": {"regex": "^a.b$"}}, True),
        ({"message": "zzz"}, False),
        ({"dialect": "gemini"}, True),
        ({"dialect": "chat"}, False),
        ({"client": "gemini", "model": "pro"}, True),
        ({"client": "codex"}, False),
        ({"toolResult": "exit 1"}, True),
        ({"toolResult": "exit 2"}, False),
        ({"system": "Alice", "message": "zzz"}, False),
    ],
)
async def test_rules_are_for_those_who_fit(when: dict[str, Any], fits: bool) -> None:
    asked = asking(
        "a+b",
        system=("You are Alice.",),
        dialect="gemini",
        client="gemini",
        model="gemini-2.5-pro",
        results=(ToolCall("sh", {}, "c"), ToolResult("c", "exit 1")),
    )
    responder = scripted(saying("mine", when=when))
    assert await replies(responder, asked) == ["mine" if fits else "nobody"]


async def test_the_first_rule_that_fits_answers() -> None:
    responder = scripted(saying("alice", when={"system": "Alice"}), saying("all"))
    assert await replies(responder, asking(system=("Alice",)), asking()) == ["alice", "all"]


async def test_the_nth_request() -> None:
    responder = scripted(saying("second", when={"message": "x", "request": 2}), saying("other"))
    asked = [asking("x"), asking("y"), asking("x"), asking("x")]
    assert await replies(responder, *asked) == ["other", "other", "second", "other"]


# -- replies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("last", ["a", "b", "b", "b"]),
        ("first", ["a", "b", "a", "b"]),
        ("next", ["a", "b", "other", "other"]),
    ],
)
async def test_replies_follow_each_other(then: str, expected: list[str]) -> None:
    responder = scripted(saying("a", "b", then=then), saying("other"))
    assert await replies(responder, *[asking()] * 4) == expected


async def test_a_reply_may_be_given_several_times() -> None:
    responder = scripted({"replies": [{"fault": 429, "times": 2}, {"text": "ok"}]})
    assert await replies(responder, *[asking()] * 3) == ["ErrorReply", "ErrorReply", "ok"]


async def test_where_no_rule_fits() -> None:
    rule = saying("x", when={"message": "never"})
    assert await replies(scripted(rule), asking()) == ["nobody"]
    [answer] = [await scripted(rule, otherwise="refuse").answer(asking("what?"))]
    assert answer == ErrorReply(400, "No rule of the script matches: what?")


async def test_a_whole_reply() -> None:
    line = {
        "text": "I run it.",
        "thinking": "hm",
        "tools": [
            {"name": "Bash", "input": {"command": "ls"}, "id": "c1"},
            {"name": "apply_patch", "input": "*** Begin Patch", "id": "c2", "namespace": "n"},
        ],
        "usage": {"input": 7, "output": 3},
        "pauseMs": 250,
    }
    assert await scripted({"replies": [line]}).answer(asking()) == ModelReply(
        pieces=("I ", "run ", "it."),
        calls=(
            ToolCall("Bash", {"command": "ls"}, "c1"),
            ToolCall("apply_patch", "*** Begin Patch", "c2", "n"),
        ),
        thinking="hm",
        usage=ReplyUsage(7, 3),
        pause=0.25,
    )


async def test_pieces_are_kept_as_written() -> None:
    answer = await scripted({"replies": [{"text": ["o", "ne"], "stop": "length"}]}).answer(asking())
    assert answer == ModelReply(("o", "ne"), stop="length")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ({"fault": "hang"}, NoReply()),
        ({"fault": "cut", "text": "a b"}, ModelReply(("a ", "b"), breaks="cut")),
        ({"fault": "stall", "text": "a"}, ModelReply(("a",), breaks="stall")),
        ({"fault": 401}, ErrorReply(401, "The API key is not valid.")),
        ({"fault": 404}, ErrorReply(404, "The model m does not exist.")),
        ({"fault": 429, "retryAfter": 1}, ErrorReply(429, "Too many requests.", 1)),
        ({"fault": 429, "resetsIn": 9}, ErrorReply(429, "Too many requests.", resets_in=9)),
        ({"fault": 500}, ErrorReply(500, "Internal server error.")),
        ({"fault": 529, "problem": "full"}, ErrorReply(529, "full")),
        ({"fault": "quota"}, ErrorReply(429, "The daily quota is used up.", None, quota=True)),
    ],
)
async def test_faults(line: dict[str, Any], answer: Answer) -> None:
    assert await scripted({"replies": [line]}).answer(asking()) == answer


# -- the file ----------------------------------------------------------------------------------


def mistakes(script: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_script(script, "play.json")
    return str(caught.value)


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        ({"replies": []}, "replies must not be empty"),
        ({"replies": [{}], "replys": [{}]}, "replys is not known"),
        ({"replies": [{"text": 5}]}, "replies[0].text must be text or must be a list"),
        (
            {"replies": [{"fault": 418}]},
            "replies[0].fault must be 400, 401, 403, 404, 413, 429, 500, 503, 529, 'quota', "
            "'hang', 'stall' or 'cut'",
        ),
        (
            {"replies": [{"fault": 429, "text": "x"}]},
            "replies[0] has both a reply and the fault 429; use one of them",
        ),
        (
            {"replies": [{"text": "x", "retryAfter": 1}]},
            "replies[0] has retryAfter or problem, which belong to an HTTP fault",
        ),
        (
            {"replies": [{"fault": 500, "resetsIn": 1}]},
            "replies[0] has resetsIn, which belongs to the fault 429",
        ),
        (
            {"when": {"system": {"regex": "("}}, "replies": [{}]},
            "when.system is not a regular expression: missing ), unterminated subpattern at "
            "position 0",
        ),
        (
            {"when": {"client": "emacs"}, "replies": [{}]},
            "when.client must be 'claude', 'codex', 'gemini', 'qwen', 'opencode', 'builtin', "
            "'stand-in' or 'other'",
        ),
        ({"replies": [{"tools": [{"name": "Bash"}]}]}, "replies[0].tools[0].input is missing"),
    ],
)
def test_mistakes_are_named_by_their_place(rule: object, mistake: str) -> None:
    assert mistakes({"rules": [rule]}) == f"play.json rules[0].{mistake}."


def test_what_is_no_script() -> None:
    assert mistakes([]) == "play.json the script must be an object."
    assert mistakes({}) == "play.json rules is missing."


def test_a_script_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "play.json"
    path.write_text('{"rules": [{"replies": [{"text": "hi"}]}]}')
    assert script_in(path).rules[0].replies[0].text == "hi"
    path.write_text('{"rules": [\n{"replies": [}')
    with pytest.raises(ConfigError, match=r"play\.json:2:14 is not valid JSON: expecting value"):
        script_in(path)
    path.write_text('{"rules": [\n{"replies": [],}]}')
    comma = r"play\.json:2:15 is not valid JSON: trailing comma before end of object"
    with pytest.raises(ConfigError, match=comma):  # the same on every Python version
        script_in(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        script_in(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        script_in(path)
    with pytest.raises(ConfigError, match="does not exist"):
        script_in(tmp_path / "none.json")
