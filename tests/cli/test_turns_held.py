"""Turns that are interrupted or held back, on in-process agents, as the Python API shows them."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Literal

import anyio
import pytest

import coterie
from coterie import Caps, MemberRecord, MessageRecord
from coterie.model import instant
from tests.cli.in_process_agent import CurrentScript, Session, in_turn, install_adapter
from tests.conftest import IsolatedUser, init_project
from tests.flow.ticket_harness import part, plan, replying


@pytest.fixture
def patch(user: IsolatedUser, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    install_adapter(user, monkeypatch)
    return monkeypatch


def halting(member: coterie.Member, text: str) -> object:
    """Name the next speaker in the first reply, which never ends by itself."""
    if text.endswith("hello"):
        return [coterie.TextDelta("@finn should look at it. [NEXT: finn]")]
    return f"{member.id} heard {text.rpartition(chr(10))[2]!r}"


@pytest.mark.parametrize("routing", ["round_robin", "mention", "handoff"])
@pytest.mark.parametrize("floor", ["ask", "end"])
async def test_a_turn_that_was_broken_off_routes_to_nobody(
    user: IsolatedUser, patch: pytest.MonkeyPatch, routing: str, floor: Literal["ask", "end"]
) -> None:
    """F10d: whoever interrupted it decides how to continue."""
    patch.setattr(CurrentScript, "say", staticmethod(halting))
    path = init_project(user.project) / "teams" / "crew" / "team.json"
    path.parent.mkdir(parents=True)
    members = [{"id": name, "agent": "claude"} for name in ("ada", "rex", "finn")]
    path.write_text(json.dumps({"routing": routing, "members": members}))
    said: list[tuple[str, bool]] = []
    async with coterie.open_project(user.project) as opened:
        team = await opened.team("crew")
        task = await opened.start(team, "hello", Caps.of(team.team, floor=floor))
        async for record in opened.stream(task, wait=0):
            if isinstance(record, coterie.DeltaRecord):
                await opened.interrupt(task)
            elif isinstance(record, MessageRecord):
                said.append((record.member, record.cut))
        assert said == [("ada", True)]
        (asked,) = await opened.questions()
        assert (asked.interaction.kind, asked.interaction.author_actor_id) == ("Input", "you")
        await opened.answer(asked.interaction.interaction_id, text="[NEXT: rex] @rex")
        records = [record async for record in opened.stream(task, wait=0)]
    said += [(one.member, one.cut) for one in records if isinstance(one, MessageRecord)]
    assert said[1:3] == [("you", False), ("rex", False)]


async def test_a_rate_limit_of_a_role_holds_its_next_turn_back(
    user: IsolatedUser, patch: pytest.MonkeyPatch
) -> None:
    """E11g, F4b: and it is reported until when."""
    say = replying(Split_the_goal=plan(part("a"), part("b")))
    patch.setattr(CurrentScript, "say", staticmethod(say))
    limit = {"rate_limit": {"turns_per_minute": 1}}
    roles = [
        {"role_id": "mira", "type": "manager", "cli_command": "claude"},
        {"role_id": "wren", "type": "worker", "cli_command": "codex", "metadata": limit},
    ]
    path = init_project(user.project) / "roles.json"
    path.write_text(json.dumps({"roles": roles}))
    async with coterie.open_project(user.project) as opened:
        team = await opened.team(str(path))
        task = await opened.start(team, "Add coupons", Caps(yes=True), workflow="tickets")
        async with aclosing(opened.stream(task)) as records:
            with anyio.fail_after(30):
                held = await anext(one async for one in records if _waits_for_a_limit(one))
        assert isinstance(held, MemberRecord)
        assert (held.member, held.state) == ("wren", "waiting")
        assert held.reason == "1 turn a minute is allowed"
        assert 0 < instant.seconds_until(held.until or "") <= 60
        tickets = [view.ticket.state for view in await opened.tickets(task)]
        assert sorted(tickets) == ["done", "in_progress"]


def _waits_for_a_limit(record: coterie.Record) -> bool:
    return isinstance(record, MemberRecord) and record.waits_for == "limit"


def never(member: coterie.Member, text: str) -> object:
    """Report waiting for the model, and never end."""
    return [coterie.Waiting("model", "overloaded")]


def test_a_quiet_member_is_shown_as_quiet(session: Session) -> None:
    """F4c to e: one alert per incident; past its time limit, the member is stuck."""
    session.team(mira={"quietAfterMs": 50, "timeoutMs": 2000})
    ran = session.run(never, "do", "--as", "mira", "look")
    assert ran.code == 3
    told = [(one["state"], one["waits_for"]) for one in ran.of("member")]
    once = [("starting", None), ("working", None), ("waiting", "model"), ("quiet", "model")]
    assert told[:5] == [*once, ("stuck", None)]
    states = [state for state, _ in told]
    assert states.count("quiet") == states.count("stuck") == states.count("starting")


def test_two_that_hand_over_to_each_other_forever_are_stopped(session: Session) -> None:
    """F10f."""
    session.team()
    other = {"mira": "wren", "wren": "mira"}
    ran = session.run(lambda member, text: f"[NEXT: {other[member.id]}]", "chat", "hello")
    last = ran.lines[-1]
    assert (ran.code, last["reason"], last["turns"]) == (0, "runaway", 20)
    assert "20 turns" in session("show", "last").out


def test_a_task_parks_at_the_limit_of_a_service_and_goes_on_when_that_ends(
    session: Session,
) -> None:
    """F5e, f: the end of the limit is reported, and waited for if requested."""
    session.team()
    until = instant.after(1.0)
    limited = coterie.TurnFailed("rate_limit", "429", until=until)
    say = in_turn(limited, "Done.")
    ran = session.run(say, "do", "--as", "mira", "look", "--wait", "0s")
    last = ran.lines[-1]
    assert (ran.code, last["status"], last["reason"]) == (3, "waiting", "rate_limit")
    assert [one["until"] for one in ran.of("member") if one["waits_for"] == "limit"] == [until]
    assert f"coterie resume {last['task']} --at-reset" in last["next"]
    again = session.run(say, "resume", last["task"], "--at-reset")
    assert (again.code, again.lines[-1]["status"]) == (0, "completed")
    assert instant.seconds_until(until) <= 0
