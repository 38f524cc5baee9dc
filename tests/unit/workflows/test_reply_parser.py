"""Parsing a member's reply into a payload: the right kind, the right ticket, exactly one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model.envelope import Instruction, Plan, Report, Review
from coterie.workflows.structured_turns import UnreadableReply
from coterie.workflows.tickets.replies import parse_reply

DONE = Report(status="completed", outputs=("a.py",))
TEXT = '{"status": "completed", "outputs": ["a.py"]}'


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"  {TEXT}\n",
        f"Done!\n```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```\nBye.",
        f"First {{this}}.\n```json\n{TEXT}\n```\n",
        f"I am done: {TEXT}",
        f"```json\n{TEXT}\n```\nOnce more:\n```json\n{TEXT}\n```",
        f"```python\nx = {{}}\n```\n```json\n{TEXT}\n```",
        '{"status": "completed", "outputs": "a.py"}',
        f'{{"payload_type": "report", "payload": {TEXT}}}',
        '{"payload_type": "report", "status": "completed", "outputs": ["a.py"]}',
        '{"ticket_id": "T1", "status": "completed", "outputs": ["a.py"]}',
        f'{{"payload_type": "report", "ticket_id": "T1", "payload": {TEXT}}}',
    ],
)
def test_however_it_is_written(text: str) -> None:
    assert parse_reply(text, Report, "T1") == DONE


WRONG = {
    "": "there is no JSON object in it",
    "[1]": "there is no JSON object in it",
    "{": "there is no JSON object in it",
    "```json\n{'a': 1}\n```": "there is no JSON object in it",
    '{"status": "ready"}': "status: Input should be 'proposal', 'completed', 'blocked' or 'error'",
    '{"status": "completed", "mood": "good"}': "mood: Extra inputs are not permitted",
    '{"status": "blocked"}': "report: Value error, status is blocked, so issues must not be empty",
    '{"ticket_id": "T2", "status": "completed"}': 'ticket_id is "T2"; this is about T1',
    '{"payload_type": "report", "ticket_id": "T2", "payload": {"status": "completed"}}': (
        'ticket_id is "T2"; this is about T1'
    ),
    '{"payload_type": "plan", "payload": {}}': 'payload_type is "plan"; it must be report',
    '```json\n{"status": "completed"}\n```\n```json\n{"status": "error"}\n```': (
        "it holds 2 different reports; give one"
    ),
    "x" * 1_000_001: "it is 1000001 characters long",
    "[" * 100_000: "there is no JSON object in it",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_it_is_not(text: str) -> None:
    with pytest.raises(UnreadableReply) as raised:
        parse_reply(text, Report, "T1")
    assert str(raised.value).startswith(WRONG[text])


def test_of_two_plans_the_last_is_meant() -> None:
    parts = [{"tasks": [{"task_id": name, "description": name}]} for name in ("draft", "final")]
    text = "\n".join(f"```json\n{json.dumps(one)}\n```" for one in parts)
    found = parse_reply(text, Plan)
    assert isinstance(found, Plan)
    assert [task.task_id for task in found.tasks] == ["final"]


def test_words_are_criteria_too() -> None:
    text = '{"summary": "x", "acceptance_criteria": "works", "steps": "one"}'
    found = parse_reply(text, Instruction)
    assert isinstance(found, Instruction)
    assert ([one.text for one in found.acceptance_criteria], found.steps) == (["works"], ("one",))


@given(st.text(max_size=300))
def test_no_text_does_harm(text: str) -> None:
    for around in (text, f"```json\n{text}\n```", f'{{"decision": {json.dumps(text)}}}'):
        try:
            assert isinstance(parse_reply(around, Review), Review)
        except UnreadableReply:
            continue
