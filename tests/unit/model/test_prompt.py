"""The prompt sent: the context, an empty line, the newest message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.model.conversation import Message, compose


def messages(*texts: str) -> list[Message]:
    return [Message("k", seq, f"m{seq}", text, "") for seq, text in enumerate(texts, 1)]


def name(member: str) -> str:
    return member.upper()


@given(
    st.lists(st.text(max_size=50), min_size=1, max_size=30), st.integers(0, 25), st.integers(0, 400)
)
def test_the_prompt_is_bounded_by_both_and_ends_with_the_newest(
    texts: list[str], count: int, characters: int
) -> None:
    prompt = compose(messages(*texts), name, count=count, characters=characters)
    head, _, newest = (
        prompt.rpartition("[MESSAGE]\n")
        if texts[-1] in ("", "x")
        else (prompt[: len(prompt) - len(texts[-1])], "", texts[-1])
    )
    assert prompt.endswith(texts[-1])
    assert newest == texts[-1]
    assert len(head) <= characters + 40 + count
