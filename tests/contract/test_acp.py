"""The ACP adapter: recordings of agents without an adapter of their own, and hard cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from inline_snapshot import snapshot

from coterie.agents.acp import channel
from coterie.agents.acp.adapter import AcpAdapter
from coterie.agents.acp.calls import AcpCall, Permission, action_of
from coterie.agents.acp.turn import AcpUsage
from coterie.agents.opencode.home import OpencodeAdapter
from coterie.agents.team_tools import listening
from coterie.errors import AgentMissing
from coterie.model import instant
from coterie.model.agent import Capabilities
from coterie.model.conversation import Limits
from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action
from coterie.model.update import (
    Activity,
    Asked,
    PendingCall,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Usage,
)
from tests.contract.acp.harness import ROLE, TEAM, TurnUpdates, response, take_turn
from tests.contract.acp.timeline_agent import (
    PROMPT,
    Json,
    TimelineHarness,
    answered,
    asks,
    broke,
    call,
    called,
    chosen,
    done,
    hello,
    recorded_steps,
    request,
    says,
    text_block,
    update,
)
from tests.contract.gate import shown
from tests.unit.process.children import until

CANCELLED = {"outcome": {"outcome": "cancelled"}}


@pytest.fixture
def harness(tmp_path: Path) -> TimelineHarness:
    return TimelineHarness.create(tmp_path, AcpAdapter, "fake")


def reported_updates(taken: TurnUpdates) -> list[Any]:
    """All updates except signs of life and questions."""
    return [update for update in taken.updates if not isinstance(update, Activity | Asked)]


async def played(harness: TimelineHarness, *steps: Json, choice: str = "approve") -> TurnUpdates:
    """One turn in which the agent plays these steps, in a session without options."""
    harness.play([*hello(), PROMPT, *steps])
    async with harness.open() as opened:
        return await take_turn(opened, choice=choice)


def test_limits(harness: TimelineHarness) -> None:
    adapter = harness.adapter()
    assert adapter.limits(harness.member()) == Limits(30 * 60, 120)
    assert adapter.limits(harness.member(quiet_after_ms=5000, timeout_ms=9000)) == Limits(9, 5)


# -- recordings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("qwen", Usage(1000, 50, source="fake")),
        ("opencode", Usage(1000, 50, source="fake")),
        ("copilot", Usage(1000, 50, source="fake")),
    ],
)
async def test_a_message_from_each(harness: TimelineHarness, name: str, usage: Usage) -> None:
    harness.play(recorded_steps(f"acp/{name}"))
    async with harness.open() as opened:
        assert opened.holds_past
        assert [opened.pid] == list(harness.log.living.values())
        assert reported_updates(await take_turn(opened)) == [
            TextDelta("hi from fake"),
            TurnCompleted("hi from fake", usage),
        ]


async def test_a_longer_recording(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("acp/claude"))
    async with harness.open() as opened:
        denied = await take_turn(opened, choice="reject")
        assert reported_updates(denied) == snapshot(
            [
                ToolCallStarted(
                    call_id="toolu_9955f4b924ec4cbf99a493bc",
                    name="Bash",
                    input={"command": "touch denied", "description": "d"},
                    effect="run",
                ),
                ToolCallFinished(
                    call_id="toolu_9955f4b924ec4cbf99a493bc",
                    is_error=True,
                    output={"status": "rejected"},
                ),
                TextDelta(text="bash denied"),
                TurnCompleted(
                    text="bash denied",
                    usage=Usage(
                        input_tokens=40352, output_tokens=42, cost_usd=0.021316, source="fake"
                    ),
                ),
            ]
        )
        assert [shown(asked).content for asked in denied.of(Asked)] == ["touch denied"]

        def stop(update: object) -> Any:
            return opened.interrupt() if isinstance(update, TextDelta) else None

        assert reported_updates(await take_turn(opened, hook=stop))[-1] == TurnInterrupted(
            "partial words before trouble"
        )
        assert (await take_turn(opened)).failure == snapshot(
            TurnFailed(
                kind="model",
                message="the model service refused the request. It says: "
                '"Internal error: API Error: 400 fake 400"',
                retry=False,
            )
        )
        last = (await take_turn(opened)).end
        assert isinstance(last, TurnCompleted)
        assert last.usage == snapshot(
            Usage(input_tokens=20324, output_tokens=8, cost_usd=0.010407, source="fake")
        )


# -- identity and prompts ----------------------------------------------------------------------


async def test_the_introduction_comes_once(harness: TimelineHarness) -> None:
    harness.play([*hello(), PROMPT, says("Yes."), done(), PROMPT, says("Yes."), done()])
    async with harness.open(thread="an old one") as opened:
        assert opened.thread == "s1"
        await take_turn(opened, "one")
        await take_turn(opened, "two")
    prompts = [heard for heard in harness.received() if heard["method"] == "session/prompt"]
    texts = [prompt["params"]["prompt"][0]["text"] for prompt in prompts]
    assert texts == [f"[SYSTEM]\n{ROLE}\n\n{TEAM}\n\none", "two"]


async def test_without_a_role_there_is_no_introduction(harness: TimelineHarness) -> None:
    harness.play([*hello(), PROMPT, says("Yes."), done()])
    member = harness.member(system_instruction="")
    async with harness.open(member, team_instruction="") as opened:
        await take_turn(opened, "one")
    assert harness.received()[-1]["params"]["prompt"] == [{"type": "text", "text": "one"}]


async def test_texts_are_kept_apart(harness: TimelineHarness) -> None:
    taken = await played(
        harness,
        says("I look."),
        call("c1", status="in_progress", title="x"),
        says(""),
        update("agent_thought_chunk", content={"type": "text", "text": "Hm."}),
        says("It is "),
        says("good."),
        says("All of it.", messageId="m2"),
        update("plan", entries=[]),
        update("something_new", deep={"er": 1}),
        done(),
    )
    assert taken.text == "I look.\n\nIt is good.\n\nAll of it."
    texts = [update.text for update in taken.of(TextDelta)]
    assert "".join(texts) == taken.text
    assert taken.calls == [("other", None, True)]
    assert taken.of(ToolCallFinished)[0].output == {"status": "unknown"}


async def test_the_price_is_that_of_the_turn(harness: TimelineHarness) -> None:
    def cost(amount: float, currency: str = "USD") -> Json:
        return update("usage_update", used=1, size=9, cost={"amount": amount, "currency": currency})

    used = {"inputTokens": 10, "cachedReadTokens": 80, "outputTokens": 5, "totalTokens": 95}
    turn = [PROMPT, says("Yes.")]
    first = [*turn, cost(9, "EUR"), cost(1.5), done(usage=used)]
    harness.play([*hello(), *first, *turn, cost(2.0), done(usage=used), *turn, done()])
    async with harness.open() as opened:
        ends = [(await take_turn(opened)).end for _ in range(3)]
    assert ends == [
        TurnCompleted("Yes.", Usage(90, 5, 1.5, "fake")),
        TurnCompleted("Yes.", Usage(90, 5, 0.5, "fake")),
        TurnCompleted("Yes.", None),
    ]


@pytest.mark.parametrize("odd", [1e999, -1e999, float("nan"), 10**400, True, "9", None])
def test_a_cost_that_is_no_number_costs_nothing(odd: object) -> None:
    spent = AcpUsage("fake")
    spent.begin()
    spent.priced({"amount": odd, "currency": "USD"})
    told = {"usage": {"inputTokens": odd, "outputTokens": 5}}
    assert spent.usage(told) == Usage(0, 5, 0.0, "fake")


# -- permissions -------------------------------------------------------------------------------

COMMAND = {"kind": "execute", "title": "touch x", "rawInput": {"command": "touch x"}}


async def test_leave_is_given_and_refused_once(harness: TimelineHarness) -> None:
    steps = [asks(7, "c1", **COMMAND), answered(7), called("c1", status="completed"), done()]
    taken = await played(harness, says("I look."), *steps)
    assert taken.calls == [("execute", "touch x", False)]
    assert harness.replies() == [chosen("allow_once")]
    (asked,) = taken.of(Asked)
    project = str(harness.project)
    assert asked == Asked(
        "7",
        "Confirm",
        "confirm_risky_action",
        options=asked.options,
        call=PendingCall(
            "c1",
            "execute",
            {"command": "touch x"},
            project,
            action=Action("run", "execute", project, command="touch x"),
            said="I look.",
        ),
        takes_words=False,
    )
    assert [option.id for option in asked.options] == ["approve", "reject"]


async def test_leave_is_refused(harness: TimelineHarness) -> None:
    # An end that the agent reports itself is not reported twice.
    failed = called("c1", status="failed", content=[])
    taken = await played(
        harness,
        call("c1", status="pending"),
        asks(7, "c1", **COMMAND),
        answered(7),
        failed,
        done(),
        choice="reject",
    )
    assert taken.calls == [("execute", "touch x", True)]
    assert harness.replies() == [chosen("reject_once")]


async def test_why_a_rule_denied_is_sent_with_the_next_message(harness: TimelineHarness) -> None:
    """ACP has no field for a reason; the engine passes on a person's reason by itself."""
    turn = [PROMPT, asks(7, "c1", **COMMAND), answered(7), done()]
    harness.play([*hello(), *turn, *turn, PROMPT, says("Yes."), done()])
    gate = harness.gate(person=lambda asked: response("reject", "use git instead"))
    async with harness.open() as opened:
        first = await take_turn(opened, choice=gate)
        gate.permissions = Permissions(deny=("run(touch *)",))
        await take_turn(opened, "again", choice=gate)
        await take_turn(opened, "go on")
    prompts = [heard for heard in harness.received() if heard.get("method") == "session/prompt"]
    texts = [prompt["params"]["prompt"][0]["text"] for prompt in prompts]
    why = "not permitted here: deny run(touch *)"
    assert texts[1:] == ["again", f"[NOTE]\nPermission for touch x was denied: {why}\n\ngo on"]
    assert first.of(ToolCallFinished) == [
        ToolCallFinished("c1", True, {"status": "rejected", "reason": "use git instead"})
    ]


async def test_a_change_of_the_last_end_of_a_line(harness: TimelineHarness) -> None:
    ends = {"type": "diff", "path": "a.txt", "oldText": "one\n", "newText": "one"}
    taken = await played(harness, asks(7, "c1", kind="edit", content=[ends]), answered(7), done())
    (asked,) = taken.of(Asked)
    assert shown(asked).content == (
        "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+one\n\\ No newline at end of file"
    )


@pytest.mark.parametrize(("choice", "offered"), [("approve", "allow_always"), ("reject", "nope")])
async def test_a_standing_answer_is_never_given(
    harness: TimelineHarness, choice: str, offered: str
) -> None:
    await played(harness, asks(7, "c1", offered, **COMMAND), answered(7), done(), choice=choice)
    assert harness.replies() == [CANCELLED]


async def test_leave_asked_twice_for_one_call(harness: TimelineHarness) -> None:
    taken = await played(
        harness,
        asks(7, "c1", kind="other", title="/tmp", rawInput={"directories": ["/tmp"]}),
        answered(7),
        asks(8, "c1", **COMMAND),
        answered(8),
        called("c1", status="completed", rawOutput={"exit": 0}),
        done(),
    )
    first, second = taken.of(Asked)
    assert (shown(first).title, shown(first).content_kind) == ("other", "Json")
    assert json.loads(shown(first).content) == {"directories": ["/tmp"]}
    assert (shown(second).title, shown(second).content) == ("Run a command", "touch x")
    assert (first.call.key, second.call.key) == ("c1", "c1#2")
    assert second.call.call_id == "c1"
    assert taken.of(ToolCallFinished) == [ToolCallFinished("c1", False, {"result": {"exit": 0}})]


DIFF = {"type": "diff", "path": "cart.py", "oldText": "one\n", "newText": "two\n"}
OUTSIDE = {**DIFF, "path": "/etc/hosts"}
HOOK = {**DIFF, "path": ".git/hooks/pre-commit"}


@pytest.mark.parametrize(
    ("mode", "tool_call", "reply"),
    [
        ("full", COMMAND, "allow_once"),
        ("read", {"kind": "edit", "content": [DIFF]}, "reject_once"),
        ("read", {"kind": "search", "rawInput": {"pattern": "x", "path": "src"}}, "allow_once"),
        ("read", {"kind": "search", "title": "x"}, None),
        ("read", {"kind": "think", "title": "x"}, "allow_once"),
        ("read", {"kind": "read", "locations": [{"path": "cart.py"}]}, "allow_once"),
        ("read", {"kind": "read", "locations": [{"path": "/etc/hosts"}]}, None),
        ("read", {"kind": "fetch", "title": "x"}, "reject_once"),
        ("accept-edits", {"kind": "edit", "content": [DIFF]}, "allow_once"),
        ("accept-edits", {"kind": "edit", "content": [DIFF, OUTSIDE]}, None),
        ("accept-edits", {"kind": "edit", "content": [HOOK]}, None),
        ("accept-edits", {"kind": "edit", "title": "where?"}, None),
        ("accept-edits", COMMAND, None),
    ],
)
async def test_modes(
    harness: TimelineHarness, mode: Mode, tool_call: Json, reply: str | None
) -> None:
    """Every permission request is asked; who answers is up to the gate."""
    end = called("c1", status="completed")
    harness.play([*hello(), PROMPT, asks(7, "c1", **tool_call), answered(7), end, done()])
    gate = harness.gate(mode)
    async with harness.open(harness.member(mode)) as opened:
        taken = await take_turn(opened, choice=gate)
    assert len(taken.of(Asked)) == 1
    assert len(gate.asked) == (reply is None)
    assert harness.replies() == [chosen(reply or "allow_once")]
    assert [ended for *_, ended in taken.calls] == [reply == "reject_once"]


CWD = "/w"


@pytest.mark.parametrize(
    ("tool_call", "action"),
    [
        # Claude's bridge, Qwen and OpenCode send the input.
        (COMMAND, Action("run", "execute", CWD, command="touch x")),
        (
            {"kind": "execute", "rawInput": {"command": "ls", "workdir": "sub", "cwd": CWD}},
            Action("run", "execute", "/w/sub", command="ls"),
        ),
        (
            {"kind": "execute", "rawInput": {"command": "ls", "directory": "/else"}},
            Action("run", "execute", "/else", command="ls"),
        ),
        # Codex's bridge splits it into words.
        (
            {"kind": "execute", "rawInput": {"command": ["bash", "-lc", "a b"]}},
            Action("run", "execute", CWD, command="bash -lc 'a b'"),
        ),
        # Gemini sends the command as the title.
        ({"kind": "execute", "title": "ls"}, Action("run", "execute", CWD, command="ls")),
        # Some calls of another kind run commands all the same.
        (
            {"kind": "other", "rawInput": {"command": "rm x"}},
            Action("run", "other", CWD, command="rm x"),
        ),
        (
            {"kind": "edit", "rawInput": {"command": "create", "path": "a"}},
            Action("write", "edit", CWD, paths=("a",)),
        ),
        (
            {"kind": "edit", "content": [DIFF, OUTSIDE], "locations": [{"path": "third"}]},
            Action("write", "edit", CWD, paths=("cart.py", "/etc/hosts", "third")),
        ),
        # The riskier of the two counts.
        (
            {"kind": "read", "content": [DIFF]},
            Action("write", "read", CWD, paths=("cart.py",)),
        ),
        (
            {"kind": "move", "rawInput": {"path": "a", "destination": "/b"}},
            Action("write", "move", CWD, paths=("a", "/b")),
        ),
        ({"kind": "delete", "title": "a"}, Action("write", "delete", CWD)),
        (
            {"kind": "read", "rawInput": {"file_path": "a"}},
            Action("read", "read", CWD, paths=("a",)),
        ),
        ({"kind": "read", "title": "something"}, Action("other", "read", CWD)),
        # Nobody knows where.
        ({"kind": "search", "title": "x"}, Action("read", "search", CWD, paths=("/",))),
        (
            {"kind": "search", "rawInput": {"pattern": "x"}},
            Action("read", "search", CWD, paths=(".",)),
        ),
        (
            {"kind": "search", "locations": [{"path": "a"}]},
            Action("read", "search", CWD, paths=("a",)),
        ),
        (
            {"kind": "search", "rawInput": {"pattern": "/etc/*", "path": "a"}},
            Action("read", "search", CWD, paths=("/etc",)),
        ),
        (
            {"kind": "search", "rawInput": {"pattern": "a/b*"}, "_meta": {"toolName": "glob"}},
            Action("read", "glob", CWD, paths=("a",), names_only=True),
        ),
        ({"kind": "think", "title": "x"}, Action("read", "think", CWD)),
        (
            {"kind": "fetch", "rawInput": {"url": "http://x"}},
            Action("fetch", "fetch", CWD, target="http://x"),
        ),
        ({"kind": "switch_mode"}, Action("other", "switch_mode", CWD)),
        ({"title": "tomorrow"}, Action("other", "other", CWD)),
    ],
)
def test_what_calls_would_do(tool_call: Json, action: Action) -> None:
    told = AcpCall("c1")
    told.learn(tool_call)
    assert action_of(told, CWD) == action


def test_what_is_reported_in_pieces_is_put_together() -> None:
    told = AcpCall("c1")
    told.learn({"kind": "execute", "rawInput": {"command": "ls", "workdir": "/else"}})
    told.learn({"kind": "execute", "rawInput": {"command": "ls"}, "locations": []})
    assert action_of(told, CWD) == Action("run", "execute", "/else", command="ls")


@pytest.mark.parametrize(
    ("given", "why"), [({}, "because"), ({"rawInput": {"description": "to see"}}, "to see")]
)
async def test_why_it_asks(harness: TimelineHarness, given: Json, why: str) -> None:
    step = asks(7, "c1", kind="execute", title="ls", content=[text_block("because")], **given)
    (asked,) = (await played(harness, step, answered(7), done())).of(Asked)
    assert asked.call.why == why


# -- tools of Coterie --------------------------------------------------------------------------


def calling(tool: str, **given: object) -> Json:
    """The agent calls a tool through the server it was given, and says what it returns."""
    return {"tool": tool, "given": given}


async def test_asking_the_human_and_handing_over(harness: TimelineHarness) -> None:
    steps = [
        calling("ask_human", question="Which?", options=["Red", "Blue"]),
        calling("ask_human", question="Why?"),
        calling("hand_over", to="rex", message="Look at it."),
    ]
    harness.play([*hello(), PROMPT, *steps, done()])
    gate = harness.gate(person=lambda asked: response("blue") if asked.options else response(""))
    async with harness.open(others={"rex": "speed"}) as opened:
        taken = await take_turn(opened, choice=gate)
    assert [(one.kind, shown(one).title, one.call) for one in gate.asked] == [
        ("Select", "Which?", None),
        ("Input", "Why?", None),
    ]
    keys = [one.key for one in gate.asked]
    assert len(set(keys)) == 2
    assert [update.text for update in taken.of(TextDelta)] == [
        "Blue",
        "\n\nNobody answered.",
        "\n\nok, your turn ends here",
    ]
    assert taken.text.endswith("ok, your turn ends here\n\nLook at it.\n\n[NEXT: rex]")
    assert list((harness.home.parent / "tmp").iterdir()) == []


async def test_a_tool_of_ours_needs_no_leave(harness: TimelineHarness) -> None:
    steps = [
        asks(7, "c1", kind="other", title="coterie_ask_human"),
        answered(7),
        asks(8, "c2", kind="execute", title="ask_human"),
        answered(8),
        done(),
    ]
    taken = await played(harness, *steps, choice="reject")
    assert harness.replies() == [chosen("allow_once"), chosen("reject_once")]
    assert [(call.name, call.effect) for call in taken.of(ToolCallStarted)] == [
        ("coterie_ask_human", "read"),
        ("execute", "run"),
    ]


async def test_a_question_that_an_interrupt_takes_back(harness: TimelineHarness) -> None:
    cancel = {"in": {"method": "session/cancel"}}
    steps = [{**calling("ask_human", question="Why?"), "first": cancel}, done("cancelled")]
    harness.play([*hello(), PROMPT, *steps])
    async with harness.open() as opened:

        def stop(update: object) -> Any:
            return opened.interrupt() if isinstance(update, Asked) else None

        taken = await take_turn(opened, choice="approve", hook=stop)  # the answer comes too late
    assert taken.end == TurnInterrupted("Nobody answered.")


async def test_a_call_between_turns_is_nobodys(harness: TimelineHarness) -> None:
    late = calling("ask_human", question="Why?")
    harness.play([*hello(), PROMPT, says("One."), done(), late, PROMPT, done()])
    async with harness.open() as opened:
        assert (await take_turn(opened)).text == "One."
        await until(lambda: len(opened._process._messages) == 1)
        second = await take_turn(opened)
    assert second.text == "It is not your turn, so nobody can be asked."


async def test_tools_that_cannot_be_served(
    harness: TimelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_LONGEST_ADDRESS", 1000)
    harness.play(hello())
    tmp = harness.home.parent / "tmp"
    with pytest.raises(AgentMissing, match="its team tools cannot be served: No such file"):
        async with harness.open(tmp=tmp / "nowhere"):
            pass


async def test_a_question_that_is_withdrawn(harness: TimelineHarness) -> None:
    withdrawn = {"out": {"method": "$/cancel_request", "params": {"requestId": 7}}}
    harness.play(
        [*hello(), PROMPT, asks(7, "c1", **COMMAND), withdrawn, says("Never mind."), done()]
    )
    async with harness.open() as opened:
        taken = await take_turn(opened, choice="")
        await opened.answer("7", response("approve"))  # no longer awaited
    assert taken.text == "Never mind."
    assert harness.replies() == []


async def test_what_is_not_offered_is_refused(harness: TimelineHarness) -> None:
    taken = await played(
        harness,
        request(7, "fs/read_text_file", path="/etc/passwd"),
        {"in": {"id": 7, "error": {}}},
        says("Pity."),
        done(),
    )
    assert taken.text == "Pity."
    assert harness.replies() == [
        {"code": -32601, "message": "Coterie does not support this method."}
    ]


async def test_what_comes_between_turns_is_nobodys(harness: TimelineHarness) -> None:
    late = [says("too late"), asks(7, "c1", **COMMAND), request(8, "fs/write_text_file")]
    ready = update("available_commands_update", availableCommands=[])
    harness.play(
        [*hello(), PROMPT, says("One."), done(), *late, ready, PROMPT, says("Two."), done()]
    )
    async with harness.open() as opened:
        assert (await take_turn(opened)).text == "One."
        await until(lambda: len(opened._process._messages) == len([*late, ready]))
        second = await take_turn(opened)
        assert (second.text, second.of(Asked)) == ("Two.", [])
    assert harness.replies() == [
        CANCELLED,
        {"code": -32601, "message": "Coterie does not support this method."},
    ]


# -- interrupting ------------------------------------------------------------------------------


async def test_breaking_off_at_a_question(harness: TimelineHarness) -> None:
    cancel = {"in": {"method": "session/cancel"}}
    # A call that was already under way when the agent received the cancel.
    late = [asks(8, "c2", **COMMAND), answered(8), done("cancelled")]
    first = [PROMPT, asks(7, "c1", **COMMAND), cancel, answered(7), *late]
    harness.play([*hello(), *first, PROMPT, says("Yes."), done()])
    async with harness.open() as opened:
        await opened.interrupt()  # nothing to interrupt between turns

        async def twice() -> None:
            await opened.interrupt()
            await opened.interrupt()

        def stop(update: object) -> Any:
            return twice() if isinstance(update, Asked) else None

        taken = await take_turn(opened, choice="approve", hook=stop)
        assert isinstance(taken.end, TurnInterrupted)
        assert [ended for *_, ended in taken.calls] == [True, True]
        assert len(taken.of(Asked)) == 1
        assert (await take_turn(opened)).text == "Yes."
    assert harness.replies() == [CANCELLED, CANCELLED]
    cancels = [heard for heard in harness.received() if heard.get("method") == "session/cancel"]
    assert len(cancels) == 1


async def test_nobody_is_asked_about_a_turn_broken_off_while_a_diff_was_made(
    harness: TimelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = channel.question_for

    def interrupting(permission: Permission, cwd: str, said: str) -> Asked:
        anyio.from_thread.run(opened.interrupt)
        return made(permission, cwd, said)

    monkeypatch.setattr(channel, "question_for", interrupting)
    cancel = {"in": {"method": "session/cancel"}}
    asking = [asks(7, "c1", **COMMAND), cancel, answered(7), done("cancelled")]
    harness.play([*hello(), PROMPT, *asking])
    async with harness.open() as opened:
        taken = await take_turn(opened)
    assert (taken.end, taken.of(Asked)) == (TurnInterrupted(""), [])
    assert harness.replies() == [CANCELLED]


@pytest.mark.parametrize("last", [broke(-32800, "cancelled"), {"exit": 1}])
async def test_other_ends_of_a_broken_turn(harness: TimelineHarness, last: Json) -> None:
    harness.play([*hello(), PROMPT, says("Half"), {"in": {"method": "session/cancel"}}, last])
    async with harness.open() as opened:

        def stop(update: object) -> Any:
            return opened.interrupt() if isinstance(update, TextDelta) else None

        assert (await take_turn(opened, hook=stop)).end == TurnInterrupted("Half")


@pytest.mark.parametrize(
    "more", [[], [{"repeat": update("usage_update")["out"]}]], ids=["silent", "still sending"]
)
async def test_an_agent_that_will_not_break_off_is_ended(
    harness: TimelineHarness, monkeypatch: pytest.MonkeyPatch, more: list[Json]
) -> None:
    monkeypatch.setattr("coterie.agents.program.AFTER_INTERRUPT", 0.2)
    harness.play([*hello(), PROMPT, says("Half"), *more])
    async with harness.open() as opened:

        def stop(update: object) -> Any:
            return opened.interrupt() if isinstance(update, TextDelta) else None

        assert (await take_turn(opened, hook=stop)).end == TurnInterrupted("Half")
        assert not opened.alive


async def test_what_an_agent_that_will_not_break_off_ran_is_interrupted_too(
    harness: TimelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.AFTER_INTERRUPT", 0.2)
    harness.play([*hello(), PROMPT, call("c1", status="in_progress", title="touch x")])
    async with harness.open() as opened:

        def stop(update: object) -> Any:
            return opened.interrupt() if isinstance(update, ToolCallStarted) else None

        taken = await take_turn(opened, hook=stop)
    assert taken.updates[-2:] == [
        ToolCallFinished("c1", True, {"status": "interrupted"}),
        TurnInterrupted(""),
    ]


# -- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "kind", "retry", "message"),
    [
        (done("refusal"), "refused", False, "the model will not answer this"),
        (
            done("max_tokens"),
            "model",
            False,
            "the model's token limit was reached before the reply was complete",
        ),
        (
            done("max_turn_requests"),
            "refused",
            False,
            "fake stopped by itself: it asked its model too often, or went in circles",
        ),
        (done("cancelled"), "protocol", True, "fake ended the turn by itself"),
        (
            done(),
            "model",
            True,
            "fake got an empty or blocked reply from its model",
        ),
        (
            broke(-32603, "Internal error", data={"details": "401 Unauthorized"}),
            "signed_out",
            False,
            'the key or login given to fake was rejected. It says: "401 Unauthorized"',
        ),
        (
            broke(-32603, "Internal error: Rate limit reached"),
            "rate_limit",
            True,
            'the model\'s rate limit is reached. It says: "Internal error: Rate limit reached"',
        ),
        (
            broke(-32603, '{"error": {"code": 502, "message": "bad gateway"}}'),
            "model",
            True,
            'the model service is failing. It says: "bad gateway"',
        ),
        (
            broke(-32602, "odd"),
            "protocol",
            True,
            'fake could not complete the turn. It says: "odd"',
        ),
        (
            broke(429, "Too many open connections"),
            "rate_limit",
            True,
            'the model\'s rate limit is reached. It says: "Too many open connections"',
        ),
        (
            broke(403, "Connection from this country refused"),
            "model",
            False,
            "the account has no access to this model. It says: "
            '"Connection from this country refused"',
        ),
        (broke(-32000, "log in"), "signed_out", False, 'fake is not signed in. It says: "log in"'),
    ],
)
async def test_ends_that_are_failures(
    harness: TimelineHarness, end: Json, kind: str, retry: bool, message: str
) -> None:
    failure = (await played(harness, end)).failure
    assert (failure.kind, failure.retry, failure.message) == (kind, retry, message)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Too much.\nSuggested retry after 7200s.", 7200),
        ("You have exhausted your capacity. Your quota will reset after 13h5m7.5s.", 47107.5),
        ("429 Rate limit reached. Please try again in 7m12s. See the docs.", 432),
        ("Please retry in 34.5s.", 34.5),
        ("Please retry in 20s.", None),
        ("Please retry in 900ms.", None),
        ("Please retry in 60", None),
        ("Please retry in 999h.", None),
        ("You have exhausted your daily quota on this model.", None),
    ],
)
async def test_when_a_limit_ends(
    harness: TimelineHarness, words: str, seconds: float | None
) -> None:
    failure = (await played(harness, broke(429, words))).failure
    assert failure.kind == "rate_limit"
    if seconds is None:
        assert failure.until is None
    else:
        assert failure.until is not None
        assert seconds - 30 < instant.seconds_until(failure.until) <= seconds


async def test_words_about_time_are_no_limit(harness: TimelineHarness) -> None:
    assert (await played(harness, broke(500, "Busy, retry in 90s."))).failure.until is None


async def test_a_reason_that_nobody_knows_is_no_failure(harness: TimelineHarness) -> None:
    assert (await played(harness, says("Yes."), done("new_in_2031"))).text == "Yes."


async def test_signed_out(harness: TimelineHarness) -> None:
    ways = [{"id": "a", "name": "Sign in", "description": "Run `fake login`"}, {"name": "By key"}]
    greeting = hello()[:3]
    greeting[1]["out"]["result"]["authMethods"] = ways
    error = {"code": -32000, "message": "Authentication required"}
    harness.play([*greeting, {"out": {"id": "{{new}}", "error": error}}])
    async with harness.open() as opened:
        assert (await take_turn(opened)).end == TurnFailed(
            "signed_out",
            'fake is not signed in. It says: "Authentication required"',
            retry=False,
            hint="Run `fake login`; By key",
        )
        assert opened.thread is None


# -- opening -----------------------------------------------------------------------------------


async def missing(harness: TimelineHarness, **member: Any) -> str:
    with pytest.raises(AgentMissing) as raised:
        async with harness.open(harness.member(**member)):
            pass
    assert harness.log.living == {}
    return raised.value.problem


async def test_another_version_is_not_spoken(harness: TimelineHarness) -> None:
    harness.play(hello(version=2))
    assert await missing(harness) == (
        "it speaks version 2 of the Agent Client Protocol; Coterie needs 1"
    )


async def test_a_session_that_is_refused(harness: TimelineHarness) -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"details": "no disk"}}
    harness.play([*hello()[:3], {"out": {"id": "{{new}}", "error": error}}])
    assert await missing(harness) == "it refused session/new: no disk"


async def test_an_exit_at_the_start(harness: TimelineHarness) -> None:
    help_ = "".join(f"line {number}\n" for number in range(40))
    harness.play([{"err": help_}, {"exit": 2}])
    told = (await missing(harness)).splitlines()
    assert told[:2] == ["it ended with exit code 2", "line 0"]
    assert (len(told), told[9], told[-1]) == (18, "…", "line 39")


async def test_an_agent_that_says_nothing(
    harness: TimelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.START", 3.0)
    harness.play([{"err": "Loading\n"}])
    assert await missing(harness) == "it did not respond within 3 s\nLoading"


async def test_opening_is_given_up(harness: TimelineHarness) -> None:
    harness.play([{"in": {"method": "initialize"}}])
    with anyio.move_on_after(0.5) as scope:
        async with harness.open():
            pass
    assert scope.cancelled_caught
    assert harness.log.living == {}


MODELS: Json = {
    "models": {"availableModels": [{"modelId": "big-1", "name": "Big"}, {"modelId": "small"}]}
}
MODES: Json = {"modes": {"availableModes": [{"id": "agent"}, {"id": "x/modes#plan"}]}}
OPTIONS: Json = {
    "configOptions": [
        {"id": "m", "category": "model", "options": [{"value": "v/big"}, {"value": "v/small"}]},
        {
            "id": "how",
            "category": "mode",
            "options": [{"group": "g", "options": [{"value": "build"}, {"value": "read-only"}]}],
        },
    ]
}
READY: Json = {"out": {"id": "{{choice}}", "result": {}}}


@pytest.mark.parametrize(
    ("offered", "member", "method", "params"),
    [
        (MODELS, {"model": "Big"}, "session/set_model", {"modelId": "big-1"}),
        (MODELS, {"model": "small"}, "session/set_model", {"modelId": "small"}),
        (
            OPTIONS,
            {"model": "small"},
            "session/set_config_option",
            {"configId": "m", "value": "v/small"},
        ),
        (MODES, {"mode": "read"}, "session/set_mode", {"modeId": "x/modes#plan"}),
        (
            OPTIONS,
            {"mode": "read"},
            "session/set_config_option",
            {"configId": "how", "value": "read-only"},
        ),
    ],
)
async def test_choices(
    harness: TimelineHarness, offered: Json, member: Json, method: str, params: Json
) -> None:
    wait = {"in": {"method": method}, "as": {"choice": "id"}}
    harness.play([*hello(**offered), wait, READY, PROMPT, says("Yes."), done()])
    async with harness.open(harness.member(**member)) as opened:
        assert (await take_turn(opened)).text == "Yes."
    told = next(heard for heard in harness.received() if heard["method"] == method)
    assert told["params"] == {"sessionId": "s1", **params}


async def test_what_must_not_be_started_is_not(tmp_path: Path) -> None:
    harness = TimelineHarness.create(tmp_path, OpencodeAdapter, "opencode")
    (harness.project / ".opencode").mkdir()
    harness.play(hello())
    assert (await missing(harness)).startswith("it would run the plug-ins of ")
    assert list((harness.root / "heard").iterdir()) == []


async def test_models_that_are_not_there(harness: TimelineHarness) -> None:
    harness.play(hello(**OPTIONS))
    problem = await missing(harness, model="huge")
    assert problem == 'it has no model "huge"; it has v/big, v/small'
    harness.play(hello())
    problem = 'it offers no choice of models, so "huge" cannot be set'
    assert await missing(harness, model="huge") == problem


async def test_a_model_by_flag(harness: TimelineHarness) -> None:
    harness.agent = harness.agent.model_copy(
        update={"base_args": ("acp",), "capabilities": Capabilities(model_flag="--model")}
    )
    harness.play(hello())
    member = harness.member(model="big", additional_args=("--debug",))
    async with harness.open(member):
        pass
    assert harness.arguments() == ["acp", "--model", "big", "--debug"]
