from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.process.stdio_turns import CompletionStrategy
from coterie.process.streams import clean, parse_object, text_of

RESULT = CompletionStrategy.json_event(frozenset({"result"}))


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"type": "result", "result": "r", "text": "t"}, "r"),
        ({"type": "result", "message": "m", "content": "c"}, "c"),
        ({"type": "result", "result": 7, "text": "t"}, "t"),
        ({"type": "result", "content": [{"type": "text", "text": "a"}, {"type": "x"}]}, "a"),
        (
            {"type": "result", "content": [{"type": "text", "text": t} for t in "ab"]},
            "ab",
        ),
        ({"type": "result", "content": [1, None, {"type": "text", "text": 3}]}, ""),
        ({"type": "result", "message": {"content": "x"}}, ""),
        ({"type": "result"}, ""),
        ({"type": "delta", "result": "r"}, None),
        ({"type": ["result"]}, None),
        ({"type": None}, None),
        ({"result": "r"}, None),
        (["result"], None),
        ("result", None),
    ],
)
def test_the_end_is_an_event_of_a_named_type(event: object, text: str | None) -> None:
    assert RESULT.ended_by(json.dumps(event)) == text


def test_a_named_field_comes_before_the_usual_ones() -> None:
    event = CompletionStrategy.json_event(frozenset({"done"}), "answer")
    assert event.ended_by('{"type": "done", "result": "r", "answer": "a"}') == "a"
    assert event.ended_by('{"type": "done", "result": "r"}') == "r"


@pytest.mark.parametrize(
    "line",
    [
        "[" * 5000,
        '{"type": ' + "[" * 5000,
        '{"a": ' * 100_000,
        '{"type": "result", "result": ' + "9" * 5000 + "}",
        '{"type": NaN}',
        '{"type": 1e999}',
        '{"type": "result"',
        "{",
        "{}",
        "\0\0",
        "\ufffd",
        "",
    ],
)
def test_a_hostile_line_is_no_event(line: str) -> None:
    assert RESULT.ended_by(line) is None


@given(st.text())
def test_no_line_raises(line: str) -> None:
    silence, pattern = CompletionStrategy.after_silence(2000), CompletionStrategy.pattern("^END$")
    for strategy in (RESULT, silence, pattern):
        ended = strategy.ended_by(line)
        assert ended is None or isinstance(ended, str)
    assert parse_object("{" + line) is None or line.rstrip().endswith("}")


def test_a_raw_control_character_does_not_lose_the_reply() -> None:
    assert RESULT.ended_by('{"type": "result", "result": "a\0\tb"}') == "a\ufffd\tb"


def test_text_that_no_store_could_take_is_cleaned() -> None:
    assert text_of(json.loads('"a\\ud800\\u0000\\ud83d\\ude00"')) == "a\ufffd\ufffd\U0001f600"


@given(st.text(st.characters()))
def test_clean_text_can_be_encoded(text: str) -> None:
    assert "\0" not in clean(text).encode().decode()


def test_silence_is_never_ended_by_a_line() -> None:
    silence = CompletionStrategy.after_silence(250)
    assert (silence.silence, silence.ended_by("anything")) == (0.25, None)


def test_a_pattern_ends_with_its_line_or_with_its_text() -> None:
    assert CompletionStrategy.pattern("^END$").ended_by("END") == "END"
    assert CompletionStrategy.pattern("^END$").ended_by("THE END") is None
    assert (
        CompletionStrategy.pattern("^(?P<text>.*)<END>$").ended_by("last words<END>")
        == "last words"
    )
    assert CompletionStrategy.pattern("^(?P<text>x)?END$").ended_by("END") == ""


def test_a_detector_may_say_yes_no_or_what_to_keep() -> None:
    answers: dict[str, str | bool | None] = {"yes": True, "no": False, "none": None, "keep": "this"}
    detector = CompletionStrategy.detector(answers.get)
    assert [detector.ended_by(line) for line in answers] == ["yes", None, None, "this"]
