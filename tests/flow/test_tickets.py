"""A goal as tickets: the whole loop, with scripted members on real git."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from coterie.model.envelope import ArtifactRef, Instruction, Report
from coterie.model.record import TicketRecord
from coterie.model.task import Caps
from coterie.model.team import Member, Permissions
from coterie.model.ticket import SchedulerConfig
from coterie.model.update import TurnFailed
from coterie.testing.scripted import TASK
from tests.flow.ticket_harness import (
    FakeChecks,
    folder_of,
    git,
    obedient,
    part,
    plan,
    replying,
    repository,
    session,
    team,
    ticket_in,
)

BROKEN = TurnFailed("exit", "it broke", exit_code=3)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


def merged(project: Path) -> list[str]:
    return git(project, "ls-tree", "--name-only", f"coterie/{TASK}/merged").split()


async def test_a_goal_becomes_merged_work(project: Path) -> None:
    async with session(project) as harness:
        assert await harness.run() == "completed done 3 done"
        told = [
            (r.id, r.state)
            for r in harness.scripted.recorder.records
            if isinstance(r, TicketRecord)
        ]
        assert told[-1] == ("T3", "done")
    assert merged(project) == ["T1.txt", "T2.txt", "T3.txt", "cart.py"]
    assert git(project, "status", "--porcelain") == ""
    report = json.loads((project / f".coterie/sessions/{TASK}/final_report.json").read_text())
    assert [line["state"] for line in report["tickets"]] == ["done", "done", "done"]
    assert report["commit"] == git(project, "rev-parse", f"coterie/{TASK}/merged").strip()


async def test_a_risky_ticket_is_talked_over_first(project: Path) -> None:
    risky = plan(part("pay", risks=["money"]))
    asked: list[str] = []

    def discussed(member: Member, text: str) -> object:
        asked.append(member.id)
        return {"ticket_id": "T1", "status": "proposal", "outputs": ["Use decimals."]}

    def instructed(member: Member, text: str) -> object:
        assert "Use decimals." in text
        return {"summary": "With decimals."}

    proposal = {"summary": "Use floats.", "risks": ["rounding"]}
    say = replying(
        Split_the_goal=risky,
        is_risky=proposal,
        wants_your_opinion=discussed,
        Write_the_instruction=instructed,
    )
    async with session(project, team("wren")) as harness:
        assert await harness.run(say) == "completed done 1 done"
        assert await harness.moves("T1") == [
            "created",
            "discussing",
            "discussed",
            "in_progress",
            "awaiting_review",
            "done",
        ]
    assert asked == ["wren"]


async def test_review_sends_work_back_until_it_is_right(project: Path) -> None:
    reviews = [
        {"decision": "changes_requested", "requested_changes": ["say please"]},
        {"decision": "approved"},
    ]
    told: list[str] = []

    def works(member: Member, text: str) -> object:
        told.append(text)
        return BROKEN if len(told) == 2 else obedient(member, text)

    say = replying(
        Split_the_goal=plan(part("a")),
        Do_the_work_now=works,
        **{"Is_it_done?": lambda member, text: reviews.pop(0)},
    )
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 1 done"
        again = ["in_progress", "blocked", "in_progress"]
        moves = ["awaiting_review", *again, "awaiting_review", "done"]
        assert (await harness.moves("T1"))[2:] == moves
    sent_back = ["It was sent back:\nsay please" in text for text in told]
    assert sent_back == [False, True, True]


async def test_work_that_review_never_likes_fails_and_the_user_decides(project: Path) -> None:
    never = {"decision": "changes_requested", "notes": "no"}
    parts = plan(part("a"), part("b", "a"), part("c", "a", "b"))
    say = replying(Split_the_goal=parts, **{"Is_it_done?": never})
    config = SchedulerConfig(rework=1, replans=0)
    async with session(project, config=config) as harness:
        assert await harness.run(say) == "waiting question"
        assert await harness.states() == {"T1": "error", "T2": "pending", "T3": "pending"}
        assert await harness.answer("stop") == "T1 failed: Make a"
    async with session(project) as harness:
        assert await harness.run(say) == "waiting question"  # it was stopped, so it is asked again
        await harness.answer("drop")
        assert await harness.run(say) == "completed done 0 done, 3 dropped or replaced"
        assert await harness.moves("T3") == ["created", "closed"]


async def test_a_conflict_goes_back_to_its_author_with_both_versions(project: Path) -> None:
    seen: list[str] = []

    def works(member: Member, text: str) -> object:
        path = folder_of(member) / "cart.py"
        before = path.read_text()
        (path.parent / "logo").write_bytes(b"\0" + ticket_in(text).encode())
        if "conflict markers" in text:
            seen.extend((before, text))
            path.write_text("total = 'both'\n")
        else:
            path.write_text(f"total = {ticket_in(text)!r}\n")
        return {"status": "completed", "outputs": ["cart.py"]}

    say = replying(Split_the_goal=plan(part("a"), part("b")), Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 2 done"
        moves = [await harness.moves(one) for one in ("T1", "T2")]
        assert sorted(len(one) for one in moves) == [4, 6]
    assert git(project, "show", f"coterie/{TASK}/merged:cart.py") == "total = 'both'\n"
    both, told = seen
    assert "between conflict markers in: cart.py\n" in told
    assert "only one of the versions: logo\n" in told
    assert [word in both for word in ("<<<<<<<", "total = 'T1'", "total = 'T2'")] == [True] * 3
    assert (project / "cart.py").read_text() == "total = 0\n"


async def test_conflict_marks_that_are_left_in_are_never_merged(project: Path) -> None:
    times: dict[str, int] = {}

    def works(member: Member, text: str) -> object:
        ticket = ticket_in(text)
        times[ticket] = times.get(ticket, 0) + 1
        path = folder_of(member) / "cart.py"
        if times[ticket] == 1:
            path.write_text(f"total = {ticket!r}\n")
        elif times[ticket] == 3:
            path.write_text("total = 'both'\n")
            # Only files that conflicted are looked at: such lines may be right in others.
            (path.parent / "merging.md").write_text("<<<<<<< ours\n>>>>>>> theirs\n")
        return {"status": "completed"}  # the second time with the conflict markers still in it

    say = replying(Split_the_goal=plan(part("a"), part("b")), Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 2 done"
        assert await harness.errors() == ["merge_conflict", "conflict_marks"]
        told = await harness.error("conflict_marks")
        assert told.endswith("still has unresolved conflicts in cart.py")
    assert git(project, "show", f"coterie/{TASK}/merged:cart.py") == "total = 'both'\n"


async def test_a_message_to_the_manager_changes_the_plan(project: Path) -> None:
    """`b` waits until the user has said that it is not wanted, and is then dropped."""
    async with session(project, team("wren", "finn")) as harness:
        said = anyio.Event()

        async def speak() -> None:
            await said.wait()
            await harness.scripted.storage.inbox.request(TASK, "say", "you", "drop b")

        def works(member: Member, text: str) -> object:
            if ticket_in(text) == "T2":
                anyio.from_thread.run_sync(said.set)
                return None
            return obedient(member, text)

        say = replying(
            Split_the_goal=plan(part("a"), part("b"), part("c", "b")),
            The_plan_has_to_change=plan(part("a"), part("c", "a")),
            Do_the_work_now=works,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(speak)
            assert await harness.run(say) == "completed done 2 done, 1 dropped or replaced"
        tickets = {one.task_id: one for one in await harness.tickets()}
        assert (tickets["b"].closed_by, tickets["c"].state) == ("dropped", "done")
        assert tickets["c"].dependencies == ("T1",)


@pytest.mark.parametrize("changed", [False, True])
async def test_a_plan_that_changed_needs_a_new_approval(project: Path, changed: bool) -> None:
    first = plan(part("a"), part("b", "a"))
    second = plan(part("a2"), part("b", "a2")) if changed else first

    def works(member: Member, text: str) -> object:
        return BROKEN if ticket_in(text) == "T1" else obedient(member, text)

    prompts: list[str] = []

    def replanned(member: Member, text: str) -> object:
        prompts.append(text)
        return second

    say = replying(Split_the_goal=first, Do_the_work_now=works, The_plan_has_to_change=replanned)
    async with session(project, config=SchedulerConfig(retries=0), caps=Caps()) as harness:
        assert await harness.run(say) == "waiting question"
        assert await harness.answer("approve") == "Plan with 2 tickets"
        if changed:
            why = "T1 failed: wren (.coterie/teams/shop/wren): it broke"
            about = f"Changed plan with 2 tickets: {why}"
            assert await harness.run(say) == "waiting question"
            assert await harness.answer("change", "but tested") == about
            assert await harness.run(say) == "waiting question"
            assert await harness.states() == {"T1": "error", "T2": "pending"}
            assert await harness.answer("approve") == about
        assert await harness.run(say) == "waiting question"
        assert (await harness.answer("approve")).startswith("The final report: 2 done")
        assert await harness.run(say) == "completed done 2 done, 1 dropped or replaced"
    assert ["says: but tested" in prompt for prompt in prompts] == [False, True][: 1 + changed]


async def test_an_output_that_git_ignores_is_kept_as_an_artifact(project: Path) -> None:
    (project / ".gitignore").write_text("*.bin\n")
    git(project, "add", ".gitignore")
    git(project, "commit", "-qm", "ignore")

    def works(member: Member, text: str) -> object:
        folder = folder_of(member)
        (folder / "kept.py").write_text("")
        (folder / "size.bin").write_bytes(b"42")
        (folder / "link.bin").symlink_to("/etc/hostname")
        (folder / "loop.bin").symlink_to("loop.bin")
        outputs = [
            "kept.py",
            "size.bin",
            "link.bin",
            "loop.bin",
            "../../../cart.py",
            "/etc/hostname",
            "a\0b",
            ".",
        ]
        return {"status": "completed", "outputs": outputs}

    say = replying(Split_the_goal=plan(part("a")), Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 1 done"
        said = [one for one in await harness.envelopes() if one.payload_type == "artifact_ref"]
    (one,) = said
    assert isinstance(one.payload, ArtifactRef)
    assert (one.source, one.target, one.payload.label) == ("wren", "mira", "size.bin")
    kept = project / ".coterie" / "sessions" / TASK / "artifacts" / one.payload.uri
    assert kept.read_bytes() == b"42"
    report = json.loads((project / f".coterie/sessions/{TASK}/final_report.json").read_text())
    assert [artifact["label"] for artifact in report["artifacts"]] == ["size.bin"]


async def test_a_worker_that_may_be_doubled_is(project: Path) -> None:
    """Two instances work at once, each in its own folder; a member without that setting has one."""
    both = anyio.Semaphore(0)
    homes: set[str] = set()

    def works(member: Member, text: str) -> object:
        homes.add(member.id)
        anyio.from_thread.run_sync(both.release)
        if len(homes) < 2:
            anyio.from_thread.run(both.acquire)
            anyio.from_thread.run(both.acquire)
        return obedient(member, text)

    say = replying(Split_the_goal=plan(part("a"), part("b")), Do_the_work_now=works)
    who = team("wren", supports_multiple_instances=True)
    async with session(project, who) as harness:
        assert await harness.run(say) == "completed done 2 done"
        owners = {one.owner for one in await harness.tickets()}
    assert homes == owners == {"wren", "wren#2"}


async def test_the_managers_checks_are_run_once_they_are_allowed(project: Path) -> None:
    order = {
        "summary": "Do it.",
        "acceptance_criteria": [{"text": "green", "command": "make test"}, "looks nice"],
    }
    checks = FakeChecks()
    say = replying(Split_the_goal=plan(part("a")), Write_the_instruction=order)
    async with session(project, checks=checks) as harness:
        assert await harness.run(say) == "waiting question"
        assert checks.ran == []
        await harness.answer("task")
        assert await harness.run(say) == "completed done 1 done"
    assert checks.ran == [("make test", "T1")]
    report = json.loads((project / f".coterie/sessions/{TASK}/final_report.json").read_text())
    assert report["tickets"][0]["unchecked"] == ["green", "looks nice"]  # no log was kept
    assert report["next_steps"][:3] == [
        f"coterie {verb} {TASK}" for verb in ("diff", "accept", "revert")
    ]


async def test_a_rule_of_the_users_allows_a_check_in_every_worktree(project: Path) -> None:
    order = {"summary": "x", "acceptance_criteria": [{"text": "green", "command": "make test"}]}
    who = team("wren")
    allowed = Permissions(allow=("run(make test)",))
    mira = who.members[0].model_copy(update={"permissions": allowed})
    checks = FakeChecks()
    say = replying(Split_the_goal=plan(part("a"), part("b")), Write_the_instruction=order)
    who = who.model_copy(update={"members": (mira, *who.members[1:])})
    async with session(project, who, checks=checks) as harness:
        assert await harness.run(say) == "completed done 2 done"
    assert {command for command, _ in checks.ran} == {"make test"}


async def test_a_check_that_is_not_permitted_is_reported_to_the_manager(project: Path) -> None:
    order = {"summary": "x", "acceptance_criteria": [{"text": "green", "command": "make test"}]}
    who = team("wren")
    mira = who.members[0].model_copy(update={"permissions": Permissions(mode="read")})
    checks = FakeChecks()
    told: list[str] = []

    def reviews(member: Member, text: str) -> object:
        told.append(text)
        return obedient(member, text)

    say = replying(Split_the_goal=plan(part("a")), Write_the_instruction=order, Is_it_done=reviews)
    who = who.model_copy(update={"members": (mira, *who.members[1:])})
    async with session(project, who, checks=checks) as harness:
        assert await harness.run(say) == "completed done 1 done"
    assert checks.ran == []
    assert "make test: not run because it is not permitted" in told[0]


async def test_a_worker_that_fails_is_replaced_by_another(project: Path) -> None:
    def works(member: Member, text: str) -> object:
        if member.id == "wren":
            return BROKEN
        return obedient(member, text)

    say = replying(
        Split_the_goal=plan(part("a", assigned_to={"role_id": "wren"})), Do_the_work_now=works
    )
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 1 done"
        (ticket,) = await harness.tickets()
        assert (ticket.owner, await harness.errors()) == ("finn", ["worker_exit"])


async def test_what_a_worker_needs_is_asked_of_the_user(project: Path) -> None:
    order = {"summary": "Which key?", "ask_user": "Which key?"}
    reports = [{"status": "blocked", "issues": ["I need the key."]}, {"status": "completed"}]
    say = replying(
        Split_the_goal=plan(part("a")),
        Do_the_work_now=lambda member, text: reports.pop(0),
        cannot_continue=order,
    )
    async with session(project, team("wren")) as harness:
        assert await harness.run(say) == "waiting question"
        assert await harness.states() == {"T1": "blocked"}
        assert await harness.answer("the blue one") == "Which key?"
        assert await harness.run(say) == "completed done 1 done"
        orders = [one.payload for one in await harness.envelopes()]
        assert [one.summary for one in orders if isinstance(one, Instruction)] == [
            "Do it.",
            "Which key?\nThe user says: the blue one",
        ]
        assert len([one for one in orders if isinstance(one, Report)]) == 2


@pytest.mark.parametrize("choice", ["retry", "replace"])
async def test_a_worker_that_was_stopped_works_again_when_the_user_says_so(
    project: Path, choice: str
) -> None:
    say = replying(Split_the_goal=plan(part("a", assigned_to={"role_id": "wren"})))
    async with session(project, config=SchedulerConfig(retries=0)) as harness:
        await harness.scripted.storage.inbox.request(TASK, "stop_member", "you", "wren")
        assert await harness.run(say) == "waiting question"
        assert await harness.states() == {"T1": "blocked"}
        assert await harness.answer(choice) == "wren was stopped (turn 1)"
        assert await harness.run(say) == "completed done 1 done"
        (ticket,) = await harness.tickets()
        assert ticket.owner == {"retry": "wren", "replace": "finn"}[choice]
        assert await harness.scripted.storage.inbox.requests(TASK) == []


async def test_a_report_in_the_words_of_a_stop_uses_up_an_attempt(project: Path) -> None:
    words: list[str] = []
    say = replying(
        Split_the_goal=plan(part("a", assigned_to={"role_id": "wren"})),
        Do_the_work_now=lambda member, text: {"status": "blocked", "issues": words},
    )
    async with session(project, config=SchedulerConfig(retries=0, replans=0)) as harness:
        await harness.scripted.storage.inbox.request(TASK, "stop_member", "you", "wren")
        assert await harness.run(say) == "waiting question"
        words.append((await harness.tickets())[0].reason)
        assert await harness.answer("retry") == "wren was stopped (turn 1)"
        await harness.run(say)
        assert await harness.error("retries_exceeded")
