"""The requested shape is read from the prompt and filled in field by field."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any

import pytest
from pydantic import TypeAdapter

from coterie.model import envelope
from coterie.model.plan_rules import problems
from coterie.model.team import Member
from coterie.rehearsal import model_api as api
from coterie.rehearsal.filling import Filling
from coterie.rehearsal.model_api import CompletionRequest, ModelReply, TextMessage, ToolResult
from coterie.rehearsal.prompt_facts import PromptFacts, clarifying_question
from coterie.rehearsal.shape import shape_in
from coterie.rehearsal.simulation import Simulation
from coterie.workflows import tickets

PROMPTS = Path(tickets.__file__).with_name("prompts")
FACTS = {
    "goal": "Add coupons to the checkout",
    "workers": "- wren: coding\n- finn: anything",
    "ticket": "T2",
    "worker": "wren",
    "description": "Write the form",
    "outputs": "- form.py",
    "steps": "- Write form.py.",
    "summary": "Write the form",
    "risks": "money",
    "report": '{\n  "status": "completed"\n}',
    "why": "T1 failed",
    "tickets": "- T1 outline: done (Outline)",
}
WANTED: dict[str, type[Any]] = {
    "clarify": envelope.Clarification,
    "plan": envelope.Plan,
    "replan": envelope.Plan,
    "propose": envelope.InstructionProposal,
    "instruct": envelope.Instruction,
    "unblock": envelope.Instruction,
    "discuss": envelope.Report,
    "work": envelope.Report,
    "review": envelope.Review,
}
TOOLS = {
    "claude": ("Read", "Write", "Edit"),
    "codex": ("exec_command", "apply_patch"),
    "gemini": ("read_file", "write_file", "replace"),
    "qwen": ("read_file", "write_file", "edit"),
    "opencode": ("read", "write", "edit"),
    "builtin": ("readFile", "editFile"),
    "stand-in": ("read_file", "write_file", "edit_file"),
}


def asked_for(
    text: str, client: Any = "other", *more: api.ConversationItem, **facts: Any
) -> CompletionRequest:
    tools = TOOLS.get(client, ())
    conversation = (TextMessage("user", text), *more)
    return CompletionRequest("anthropic", client, "m", (), conversation, tools, **facts)


async def answered(asked: CompletionRequest) -> ModelReply:
    answer = await Simulation().answer(asked)
    assert isinstance(answer, ModelReply)
    return answer


def block(reply: ModelReply) -> Any:
    return json.loads(reply.text.partition("```json")[2].rpartition("```")[0])


@pytest.mark.parametrize("name", WANTED)
async def test_every_prompt_that_ships_gets_what_it_asks_for(name: str) -> None:
    prompt = Template((PROMPTS / f"{name}.md").read_text()).safe_substitute(FACTS)
    reply = await answered(asked_for(prompt))
    payload = WANTED[name].model_validate(
        {key: value for key, value in block(reply).items() if key != "ticket_id"}
    )
    match payload:
        case envelope.Plan():
            workers = [Member(id=one, name=one, display_name=one) for one in ("wren", "finn")]
            assert problems(payload, workers) == []
            assert 2 <= len(payload.tasks) <= 4
            files = [file for task in payload.tasks for file in task.expected_outputs]
            assert len(set(files)) == len(payload.tasks)
        case envelope.Clarification():
            assert payload.status == "clear"
        case envelope.Review():
            assert payload.decision == "approved"
        case envelope.Instruction():
            assert payload.ask_user is None
            assert [one.command for one in payload.acceptance_criteria] == [None]
        case envelope.Report(status="proposal") if name == "discuss":
            pass
        case envelope.Report():  # no tool that writes is available here
            assert payload.status == "blocked"
        case _:
            assert isinstance(payload, envelope.InstructionProposal)


@pytest.mark.parametrize("payload", [*WANTED.values(), envelope.ArtifactRef, envelope.Error])
def test_a_schema_will_do_where_there_is_no_example(payload: type[Any]) -> None:
    facts = PromptFacts.of("The goal: add coupons to cart.py")
    assert payload.model_validate(Filling(payload.model_json_schema(), facts).value())


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        ('{"verdict": "pass" or "fail", "findings": ["..."]}', {"verdict": "pass", "findings": []}),
        ('{"gate": "pass | fail", "score": 1}', {"gate": "pass", "score": 1}),
        ('{"approved": true, "blocked": false}', {"approved": True, "blocked": False}),
        (
            '{"files": ["path", ...], // all of them\n "title": string}',
            {"files": ["shop/cart.py"], "title": "add coupons to shop/cart.py"},
        ),
        ("{phase: 'planning'}", None),
        (r'{"path": "C:\dir"}', None),
        ('{"a": ' * 5000, None),
    ],
)
async def test_a_shape_that_nobody_here_has_seen(shape: str, answer: object) -> None:
    prompt = f"The task: add coupons to shop/cart.py\n\nAnswer with JSON:\n{shape}\n"
    assert shape_in(prompt)[0] is not None or answer is None
    if answer is not None:
        assert block(await answered(asked_for(prompt))) == answer


async def test_an_object_that_is_only_talked_about_is_no_shape() -> None:
    reply = await answered(asked_for('What does this mean?\n{"a": 1}'))
    assert "stand-in for a model" in reply.text
    assert "```" not in reply.text


@pytest.mark.parametrize(
    ("goal", "parts"),
    [
        ("add coupons", ["outline", "work", "check"]),
        ("fix a.py, b.py and docs; ship", ["fix-a-py-b-py-and-docs", "ship", "check"]),
        ("a1, b2, c3, d4", ["a1", "b2", "c3-d4", "check"]),
        ("添加优惠券", ["outline", "work", "check"]),
        ("check it and check it", ["check-it", "check-it-2", "check"]),
    ],
)
def test_a_goal_is_split_as_it_is_said(goal: str, parts: list[str]) -> None:
    made = PromptFacts.of(f"The goal:\n{goal}").parts()
    assert [part.id for part in made] == parts
    assert len({part.file for part in made}) == len(made)
    assert made[-1].after == tuple(parts[:-1])


WORK = Template((PROMPTS / "work.md").read_text()).safe_substitute(FACTS)


@pytest.mark.parametrize("client", TOOLS)
async def test_work_is_done_by_the_tools_that_there_are(client: Any) -> None:
    (read,) = (await answered(asked_for(WORK, client))).calls
    assert "form.py" in read.arguments
    absent = ToolResult(read.id, "cat: form.py: No such file or directory", failed=True)
    (write,) = (await answered(asked_for(WORK, client, read, absent))).calls
    assert write.name in TOOLS[client]
    assert write.name != read.name
    done = ToolResult(write.id, "ok")
    report = block(await answered(asked_for(WORK, client, read, absent, write, done)))
    assert (report["status"], report["outputs"]) == ("completed", ["form.py"])
    denied = ToolResult(write.id, "The user said no: not now", failed=True)
    report = block(await answered(asked_for(WORK, client, read, absent, write, denied)))
    assert (report["status"], report["issues"]) == ("blocked", ["The user said no: not now"])


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        ("claude", "     1→one\n     2→two\n\n<system-reminder>\nbe good\n</system-reminder>"),
        ("builtin", "path: form.py\nlines: 1-2 of 2\n\none\ntwo"),
        ("gemini", "one\ntwo\n"),
        ("opencode", "<file>\n00001| one\n00002| two\n\n(End of file - 2 lines)\n</file>"),
    ],
)
async def test_what_is_there_stays(client: Any, shown: str) -> None:
    (read,) = (await answered(asked_for(WORK, client))).calls
    there = ToolResult(read.id, shown)
    (edit,) = (await answered(asked_for(WORK, client, read, there))).calls
    assert "one\\ntwo\\n# A stand-in" in edit.arguments
    assert edit.arguments.count("one\\ntwo") == 2


async def test_both_sides_of_a_conflict_are_kept() -> None:
    (read,) = (await answered(asked_for(WORK, "gemini"))).calls
    there = ToolResult(read.id, "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\nd\n")
    (edit,) = (await answered(asked_for(WORK, "gemini", read, there))).calls
    assert isinstance(edit.input, dict)
    assert edit.input["new_string"] == "a\nb\nc\nd"


@pytest.mark.parametrize(
    ("workflow", "message", "writes"),
    [
        ("solo", "make it fast", True),
        ("solo", "why is it slow?", False),
        ("solo", "[CONTEXT]\nyou: make it fast\n\n[MESSAGE]\nthank you", False),
        ("chat", "make it fast", False),
        ("chat", "add a line to notes.md", True),
    ],
)
async def test_a_job_is_done_and_a_talk_is_had(workflow: str, message: str, writes: bool) -> None:
    reply = await answered(asked_for(message, "stand-in", workflow=workflow))
    assert bool(reply.calls) is writes


def test_answers_are_json() -> None:
    schema = TypeAdapter(dict[str, int]).json_schema()
    assert Filling(schema, PromptFacts.of("x")).value() == {}


@pytest.mark.parametrize(
    ("goal", "is_unclear"),
    [
        ("Coupons", True),
        ("  add\n coupons! ", True),
        ("Should the cart take coupons?", True),
        ("購物車要有優惠券嗎？", True),
        ("優惠券", True),
        ("", True),
        ("Fix cart.py", False),
        ("Add coupons now", False),
        ("為購物車加入優惠券", False),
        ("Coupons\n\nThe cart takes them.", False),
    ],
)
def test_a_goal_of_a_word_or_two_or_a_question_is_unclear(goal: str, is_unclear: bool) -> None:
    assert bool(clarifying_question(goal)) is is_unclear


async def test_a_question_is_put_where_there_is_room_for_it_and_once() -> None:
    question = clarifying_question("Coupons")
    model = Simulation(question)

    async def clarify(**facts: str) -> Any:
        prompt = Template((PROMPTS / "clarify.md").read_text())
        text = prompt.safe_substitute({**FACTS, "goal": "Coupons", **facts})
        reply = await model.answer(asked_for(text))
        assert isinstance(reply, ModelReply)
        return block(reply)

    assert await clarify(answers="(nothing)") == {
        "questions": [question],
        "status": "open",
        "intent_summary": "Coupons",
    }
    assert await clarify(answers=f"- {question} in cart.py") == {
        "questions": [],
        "status": "clear",
        "intent_summary": "Coupons: in cart.py",
    }
    propose = Template((PROMPTS / "propose.md").read_text()).safe_substitute(FACTS)
    reply = await model.answer(asked_for(propose))
    assert isinstance(reply, ModelReply)
    assert block(reply)["open_questions"] == []
