"""Markers count only at the end of a message and outside code fences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model.conversation import ParsedMessage, parse_human_markers, parse_markers


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("hello", ParsedMessage("hello")),
        ("hello [DONE]", ParsedMessage("hello", (), done=True)),
        ("hello\n\n[NEXT: bob]\n", ParsedMessage("hello", ("bob",))),
        ("hello [next:Bob] [Done] ", ParsedMessage("hello", ("Bob",), done=True)),
        ("a [NEXT: bob, carol][NEXT: dan]", ParsedMessage("a", ("bob", "carol", "dan"))),
        ("[NEXT: bob] is what I would write", ParsedMessage("[NEXT: bob] is what I would write")),
        ("end with `[DONE]`", ParsedMessage("end with `[DONE]`")),
        ("```\n[DONE]", ParsedMessage("```\n[DONE]")),
        ("```\ncode\n```\n[DONE]", ParsedMessage("```\ncode\n```", (), done=True)),
        ("~~~\n```\n[NEXT: bob]", ParsedMessage("~~~\n```\n[NEXT: bob]")),
        ("````\n```\n[DONE]", ParsedMessage("````\n```\n[DONE]")),
        ("[DONE]", ParsedMessage("", (), done=True)),
        ("[NEXT: ]", ParsedMessage("")),
        ("  indented\n    code", ParsedMessage("  indented\n    code")),
        ("", ParsedMessage("")),
    ],
)
def test_parse(message: str, expected: ParsedMessage) -> None:
    assert parse_markers(message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("/end", ParsedMessage("", (), done=True)),
        ("/END ", ParsedMessage("", (), done=True)),
        (" /end", ParsedMessage(" /end")),
        ("say /end", ParsedMessage("say /end")),
        ("@rex look at this", ParsedMessage("@rex look at this", ("rex",))),
        ("ask @rex, then @ada.", ParsedMessage("ask @rex, then @ada.", ("rex", "ada"))),
        ("mail ada@example.org", ParsedMessage("mail ada@example.org")),
        ("@rex hm [NEXT: ada]", ParsedMessage("@rex hm", ("ada", "rex"))),
    ],
)
def test_parse_human(message: str, expected: ParsedMessage) -> None:
    assert parse_human_markers(message) == expected


KNOWN = ("lilei", "李雷", "han", "韩梅梅", "rex", "rex-2", "Ada Lovelace", "José", "민수", "मोहन")


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("@李雷 你看看", ("李雷",)),
        ("@李雷看看这个", ("李雷",)),
        ("请@李雷看看，再给@韩梅梅。", ("李雷", "韩梅梅")),
        ("@李雷，你好", ("李雷",)),
        ("@민수야 봐", ("민수",)),
        ("@मोहन देखो", ("मोहन",)),
        ("@jose\u0301 look", ("José",)),
        ("@ada lovelace, please", ("Ada Lovelace",)),
        ("@rex-2 and @rex.", ("rex-2", "rex")),
        ("@rex-3", ("rex-3",)),
        ("@rexy", ("rexy",)),
        ("@王芳看看", ("王芳看看",)),
        ("mail lilei@rex.org or é@rex.org", ()),
    ],
)
def test_whom_a_person_mentions(message: str, names: tuple[str, ...]) -> None:
    assert parse_human_markers(message, KNOWN).names == names


def test_a_huge_reply_costs_little() -> None:
    """Each would take minutes if every marker cost a copy, or every blank a new search."""
    assert parse_markers("text " + "[DONE]" * 200_000) == ParsedMessage("text", (), done=True)
    assert not parse_markers("[NEXT:" + " " * 200_000 + "a\nb]").names


words = st.text(st.sampled_from("ab [](){}:,\n`~DONEXT@"), max_size=60)


@given(words)
def test_what_is_left_carries_no_marker_that_counts(message: str) -> None:
    once = parse_markers(message)
    again = parse_markers(once.text)
    assert again == ParsedMessage(once.text.rstrip())


@given(
    st.text(max_size=200), st.lists(st.sampled_from(["bob", "carol"]), min_size=1), st.booleans()
)
def test_markers_at_the_end_are_read_in_order(text: str, names: list[str], done: bool) -> None:
    fenced = "`" in text or "~" in text
    tail = " ".join(f"[NEXT: {name}]" for name in names) + (" [DONE]" if done else "")
    marked = parse_markers(f"{text}\n{tail}")
    if not fenced:
        assert marked.names[-len(names) :] == tuple(names)
        assert marked.done >= done
        assert tail not in marked.text


@given(st.text(max_size=300))
def test_nothing_a_member_can_write_breaks_the_parser(message: str) -> None:
    marked = parse_markers(message)
    assert len(marked.text) <= len(message)
    parse_human_markers(message)
