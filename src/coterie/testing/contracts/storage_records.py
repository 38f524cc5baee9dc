"""Reading back events, tasks, audit, conversation, journal and tickets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.model import journal
from coterie.model.envelope import Envelope, Report
from coterie.model.journal import Fence, IllegalWrite
from coterie.model.task import TaskCanceled, TaskCompleted, TaskFailed, TaskRow, fold
from coterie.model.ticket import Ticket
from coterie.model.timeline import AskedQuestion, AuditedCall, SentMessage
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.ports import Storage
from coterie.stores.codec import json_of
from coterie.testing.contracts.samples import (
    STEP,
    TASK,
    TICKET,
    OpenedStorage,
    answered,
    asked,
    at,
    child,
    closing,
    created,
    envelope,
    message,
    open_turn,
    opening,
    started,
    step,
    turn,
)

ENTRIES = [
    AuditEntry(
        "ToolCallRequested", "c1", "Edit", "ann", TASK, at(1), input={"path": "cart.py", "n": [1]}
    ),
    AuditEntry(
        "ToolCallCompleted", "c1", "Edit", "ann", TASK, at(2),
        output={"text": "ok, ümläut"}, is_error=False, duration_ms=12,
    ),
]  # fmt: skip


def _readable(entries: Iterable[AuditEntry]) -> list[AuditEntry]:
    """Return entries as they can be stored; a store without a file may still hold what cannot."""
    return [
        replace(entry, input=entry.input and json.loads(json_of(entry.input))) for entry in entries
    ]


def _hash(row: ChainedEntry) -> str:
    """Hash a row as documented, independently of the code under test."""
    (entry,) = _readable([row.entry])

    def text(given: Mapping[str, object] | None) -> str | None:
        if given is None:
            return None
        return json.dumps(given, separators=(",", ":"), ensure_ascii=False)

    fields = [
        row.sequence, entry.task_id, entry.kind, entry.tool_call_id, entry.tool_name,
        entry.author_actor_id, entry.timestamp, text(entry.input), text(entry.output),
        None if entry.is_error is None else int(entry.is_error), entry.duration_ms,
    ]  # fmt: skip
    data = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha256(bytes.fromhex(row.previous) + data).hexdigest()


class RecordsContract(OpenedStorage):
    """Reading back what was written."""

    async def test_tasks_follow_their_events(self, storage: Storage) -> None:
        assert await storage.events.tasks() == []
        assert await storage.events.head() == (0, "")
        ends = {
            "a": TaskCompleted(task_id="a", at=at(7), reason="max_turns", summary="said all"),
            "c": TaskFailed(task_id="c", at=at(8), reason="stuck", message="no answer"),
            "b": TaskCanceled(task_id="b", at=at(9)),
        }
        for task_id, end in ends.items():
            fence = await storage.create(created(task_id), "me", None)
            await storage.commit(fence, started(task_id))
            await storage.commit(fence, journal.AppendEvent(end))
        assert [(row.id, row.status, row.reason) for row in await storage.events.tasks()] == [
            ("a", "completed", "max_turns"),
            ("c", "failed", "stuck"),
            ("b", "canceled", "canceled"),
        ]
        for row in await storage.events.tasks():
            state = fold(await storage.events.of_task(row.id))
            assert row == TaskRow(
                row.id, row.id, None, "chat", "Look at cart.py", state.status, state.reason,
                at(0), state.changed_at,
            )  # fmt: skip

    async def test_events_are_numbered_without_gaps_and_chained(self, storage: Storage) -> None:
        heads: list[tuple[int, str]] = []
        for task_id in ("a", "b"):
            fence = await storage.create(created(task_id), "me", None)
            heads.append(await storage.events.head())
            await storage.commit(fence, started(task_id))
            heads.append(await storage.events.head())
        assert [sequence for sequence, _ in heads] == [1, 2, 3, 4]
        assert len({digest for _, digest in heads}) == 4

    async def test_the_audit_comes_back_as_it_was(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, *(journal.AppendAudit(entry) for entry in ENTRIES))
        assert await storage.audit.of_task(TASK) == ENTRIES
        assert await storage.audit.of_task("another") == []

    async def test_only_new_entries_can_be_requested(self, storage: Storage, fence: Fence) -> None:
        events = await storage.events.of_task(TASK)
        assert await storage.events.of_task(TASK, after=1) == events[1:]
        await storage.commit(fence, *(journal.AppendAudit(entry) for entry in ENTRIES))
        assert await storage.audit.of_task(TASK, after=1) == ENTRIES[1:]
        assert await storage.audit.of_task(TASK, after=2) == []
        await storage.commit(fence, *opening("z"), *opening("a"))
        assert await storage.journal.turns(TASK, after=1) == [turn("a")]

    async def test_the_timeline_lists_everything_in_commit_order(
        self, storage: Storage, fence: Fence
    ) -> None:
        failed = journal.CloseTurn(TASK, STEP, 1, at(5), "failed", "no answer", None)
        await storage.commit(fence, *opening(), failed, open_turn(attempt=2))
        closed = journal.CloseTurn(TASK, STEP, 2, at(6), "completed", None, None)
        sent = message(1)._replace(at=at(6))
        await storage.commit(fence, journal.AppendMessage(sent), closed)
        await storage.create(created("b"), "me", message(1, "b"))
        await storage.commit(fence, *(journal.AppendAudit(entry) for entry in ENTRIES), asked("q1"))
        await storage.inbox.respond(answered("q1"))
        ticket = replace(TICKET, history=(*TICKET.history, *TICKET.history))
        await storage.commit(fence, journal.PutTicket(TASK, ticket, None))
        rows = await storage.timeline.after(0)
        assert [row.sequence for row in rows] == list(range(1, 13))
        assert await storage.timeline.head() == 12
        mine = [row for row in rows if row.task_id != "b"]
        assert await storage.timeline.after(0, TASK) == await storage.timeline.before(TASK) == mine
        kinds = [type(row.source).__name__ for row in mine]
        calls = ["AuditedCall", "AuditedCall", "AskedQuestion", "AskedQuestion"]
        tickets = ["TicketMoment", "TicketMoment"]
        assert kinds == ["StatusChange", "StatusChange", "Turn", "SentMessage", *calls, *tickets]
        reply, ended, answer = (mine[place].source for place in (3, 5, 7))
        assert isinstance(reply, SentMessage)
        assert reply.turn is not None
        assert reply.turn.attempt == 2, "that of the turn that it ended"
        assert isinstance(ended, AuditedCall)
        assert ended.given == ENTRIES[0].input, "that of the beginning"
        assert isinstance(answer, AskedQuestion)
        assert answer.interaction.interaction_id == "q1"

    async def test_a_page_of_a_timeline_is_read_by_numbers(
        self, storage: Storage, fence: Fence
    ) -> None:
        for number in range(1, 7):
            await storage.commit(fence, journal.AppendMessage(message(number)))
        rows = await storage.timeline.after(0, TASK)
        third = rows[3].sequence
        assert await storage.timeline.before(TASK, None, 3) == rows[-3:]
        assert await storage.timeline.before(TASK, third, 2) == rows[1:3]
        assert await storage.timeline.after(third, TASK, 2) == rows[4:6]
        assert await storage.timeline.after(third, "another") == []

    async def test_the_history_of_a_task_holds_all_that_is_stored_about_it(
        self, storage: Storage, fence: Fence
    ) -> None:
        await storage.create(created("b"), "me", message(1, "b"))
        await storage.commit(fence, *opening(), *closing(), *opening("next"))
        await storage.leases.record_child(fence, child("mark-1"))
        await storage.inbox.request(TASK, "say", "max", "be quick")
        assert await storage.history(TASK) == journal.TaskHistory(
            events=await storage.events.of_task(TASK),
            lease=await storage.leases.get(TASK),
            messages=await storage.conversation.messages(TASK),
            steps=await storage.journal.steps(TASK),
            turns=await storage.journal.turns(TASK),
            requests=await storage.inbox.requests(TASK),
        )
        assert await storage.history("none") == journal.TaskHistory([], None, [], [], [], [])

    async def test_the_audit_of_every_task_is_one_chain(
        self, storage: Storage, fence: Fence
    ) -> None:
        other = await storage.create(created("b"), "me", None)
        elsewhere = replace(ENTRIES[0], task_id="b", input={"half": "\ud800", "at": 0.1})
        await storage.commit(fence, journal.AppendAudit(ENTRIES[0]))
        await storage.commit(other, journal.AppendAudit(elsewhere))
        await storage.commit(fence, journal.AppendAudit(ENTRIES[1]))
        # What UTF-8 cannot encode is replaced before hashing.
        kept = replace(elsewhere, input={"half": "\ufffd", "at": 0.1})
        expected = [ENTRIES[0], kept, ENTRIES[1]]
        rows = await storage.audit.chain()
        assert _readable(await storage.audit.all()) == expected
        assert _readable(row.entry for row in rows) == expected
        previous = ""
        for place, row in enumerate(rows, 1):
            assert (row.sequence, row.previous) == (place, previous)
            assert row.hash == _hash(row), "hashed as docs/inbox.md tells others to hash it"
            previous = row.hash

    async def test_a_thread_grows_at_its_end_and_nowhere_else(
        self, storage: Storage, fence: Fence
    ) -> None:
        storage.post(fence, journal.AppendThread(TASK, "t-1", 1, '{"n":1}'))
        await storage.commit(
            fence,
            journal.AppendThread(TASK, "t-1", 2, '{"n":2}'),
            journal.AppendThread(TASK, "t-2", 1, "{}"),
        )
        for place in (1, 2, 4):
            with pytest.raises(IllegalWrite):
                await storage.commit(fence, journal.AppendThread(TASK, "t-1", place, "{}"))
        assert await storage.conversation.thread("t-1") == ['{"n":1}', '{"n":2}']
        assert await storage.conversation.thread("t-2") == ["{}"]
        assert await storage.conversation.thread("t-3") == []

    async def test_spending_covers_every_task_and_turn(
        self, storage: Storage, fence: Fence
    ) -> None:
        other = await storage.create(created("b"), "me", None)
        for task_id, mine in ((TASK, fence), ("b", other)):
            for name, second, usage in (("x", 4, None), ("y", 5, '{"output_tokens":1}')):
                opened = journal.OpenTurn(task_id, name, 1, "ann", 1, at(second))
                await storage.commit(mine, opened)
                end = journal.CloseTurn(task_id, name, 1, at(6), "failed", "exit 3", None, usage)
                await storage.commit(mine, end)
        await storage.commit(other, journal.OpenTurn("b", "z", 1, "ann", 1, at(8)))
        cost = '{"input_tokens":2}'
        end = journal.CloseTurn("b", "z", 1, at(9), "completed", None, None, cost)
        await storage.commit(other, end)
        spent = await storage.journal.spending()
        assert [(turn.task_id, turn.step, turn.usage) for turn in spent] == [
            ("b", "x", None),
            (TASK, "x", None),
            ("b", "y", '{"output_tokens":1}'),
            (TASK, "y", '{"output_tokens":1}'),
            ("b", "z", cost),
        ]
        assert await storage.journal.spending(at(6)) == spent[4:]
        assert await storage.journal.spending(at(8)) == spent[4:]
        assert await storage.journal.spending(at(9)) == []
        assert await storage.journal.spending(task_id="b") == spent[::2]
        assert await storage.journal.spending(at(8), "b") == spent[4:]

    async def test_the_cost_of_an_attempt_counts_however_it_ends(
        self, storage: Storage, fence: Fence
    ) -> None:
        cost = '{"output_tokens":1}'
        ends: list[tuple[str, journal.TurnOutcome, str | None]] = [
            ("x", "unknown", None),
            ("y", "completed", '{"cost_usd":2}'),
        ]
        for name, outcome, usage in ends:
            await storage.commit(fence, journal.OpenTurn(TASK, name, 1, "ann", 1, at(4)))
            await storage.commit(fence, journal.SpendTurn(TASK, name, 1, cost))
            assert (await storage.journal.spending())[-1].usage == cost
            end = journal.CloseTurn(TASK, name, 1, at(6), outcome, None, None, usage)
            await storage.commit(fence, end)
            with pytest.raises(IllegalWrite):
                await storage.commit(fence, journal.SpendTurn(TASK, name, 1, cost))
        turns = await storage.journal.turns(TASK)
        assert [turn.usage for turn in turns] == [cost, '{"cost_usd":2}']

    async def test_messages_come_back_as_they_were(self, storage: Storage, fence: Fence) -> None:
        messages = [message(1, text=""), message(2, text="\0 ☃ \n"), message(3, text="x" * 100_000)]
        for each in messages:
            storage.post(fence, journal.AppendMessage(each))
        assert await storage.conversation.messages(TASK) == messages
        assert await storage.conversation.messages(TASK, after=1) == messages[1:]
        assert await storage.conversation.messages(TASK, after=3) == []
        assert await storage.conversation.messages("another") == []

    async def test_a_turn_is_opened_and_closed(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, *opening())
        assert await storage.journal.steps(TASK) == [step()]
        assert await storage.journal.turns(TASK) == [turn()]
        await storage.commit(fence, *closing())
        assert await storage.journal.steps(TASK) == [step(result='{"message":1}')]
        ended = ("t-2", at(5), "completed", '{"input_tokens":3}')
        expected = journal.Turn(TASK, STEP, 1, "ann", 1, at(4), *ended)
        assert await storage.journal.turns(TASK) == [expected]

    async def test_a_step_recorded_whole_cannot_be_closed_again(
        self, storage: Storage, fence: Fence
    ) -> None:
        whole = journal.Step(TASK, "heard/1", "heard", "d", "", "[]")
        await storage.commit(fence, journal.OpenStep(whole))
        assert await storage.journal.steps(TASK) == [whole]

    async def test_the_order_of_opening_outlives_everything(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        names = ["z", "b", "a", "m"]
        for name in names[:2]:
            await storage.commit(fence, *opening(name))
        storage.post(fence, journal.CloseTurn(TASK, "z", 1, at(6), "failed", "exit 3", None))
        storage.post(fence, open_turn("z", attempt=2))
        async with self.opened(tmp_path) as other:
            await storage.leases.park(fence)
            await other.leases.claim(TASK, "other", 1)
            for name in names[2:]:
                await other.commit(Fence(TASK, 2), *opening(name))
            assert [each.name for each in await other.journal.steps(TASK)] == names
            turns = [(each.step, each.attempt) for each in await other.journal.turns(TASK)]
            assert turns == [("z", 1), ("b", 1), ("z", 2), ("a", 1), ("m", 1)]

    async def test_steps_that_no_longer_count_are_kept_under_another_name(
        self, storage: Storage, fence: Fence
    ) -> None:
        other = await storage.create(created("b"), "me", None)
        await storage.commit(other, *opening("a", "b"))
        await storage.commit(fence, *opening("a"), *opening("b"))
        await storage.commit(fence, journal.SupersedeSteps(TASK, "aside2/", ("a", "none")))
        assert await storage.journal.steps(TASK) == [step("aside2/a"), step("b")]
        assert await storage.journal.turns(TASK) == [turn("aside2/a"), turn("b")]
        assert await storage.journal.steps("b") == [step("a", task_id="b")]

    async def test_tasks_do_not_mix(self, storage: Storage, fence: Fence) -> None:
        other = await storage.create(created("b"), "me", message(1, "b"))
        await storage.commit(fence, *opening())
        await storage.commit(other, *opening(task_id="b"))
        await storage.commit(other, journal.CloseStep("b", STEP, "1"))
        assert await storage.journal.steps(TASK) == [step()]
        assert await storage.conversation.messages(TASK) == []

    async def test_only_rare_member_states_are_kept(self, storage: Storage, fence: Fence) -> None:
        def state(member: str, name: str, reason: str = "") -> journal.SetMemberState:
            return journal.SetMemberState(TASK, member, name, reason, at(1))

        storage.post(fence, state("bob", "quiet"), state("ann", "waiting", "rate limit"))
        storage.post(fence, state("bob", "stuck", "no answer"), state("cat", "working"))
        assert await storage.member_states(TASK) == [
            state("ann", "waiting", "rate limit"),
            state("bob", "stuck", "no answer"),
        ]
        storage.post(fence, state("ann", "working"), state("bob", "idle"))
        assert await storage.member_states(TASK) == []

    async def test_tickets_are_read_in_the_order_of_their_creation(
        self, storage: Storage, fence: Fence
    ) -> None:
        other = Ticket("T0", "t-0", "Price rules", dependencies=("T1",))
        made = (journal.PutTicket(TASK, ticket, None) for ticket in (TICKET, other))
        await storage.commit(fence, *made)
        moved = replace(TICKET.moved("in_progress", at(2), "go"), owner="wren")
        await storage.commit(fence, journal.PutTicket(TASK, moved, "pending"))
        assert await storage.tickets.tickets(TASK) == [moved, other]
        assert await storage.tickets.tickets("other") == []

    async def test_envelopes_have_numbers_without_gaps(
        self, storage: Storage, fence: Fence
    ) -> None:
        unmade = journal.PutTicket(TASK, TICKET, "in_progress")
        with pytest.raises(IllegalWrite):
            await storage.commit(fence, journal.AppendEnvelope(envelope(1)), unmade)
        await storage.commit(fence, journal.AppendEnvelope(envelope(2)))
        report = Envelope.of(TASK, at(3), "wren", "mira", Report(status="completed"), "T1")
        await storage.commit(fence, journal.AppendEnvelope(report))
        assert await storage.tickets.envelopes(TASK) == [(1, envelope(2)), (2, report)]
        assert await storage.tickets.envelopes(TASK, after=1) == [(2, report)]

    async def test_a_move_that_the_table_does_not_have_is_refused(
        self, storage: Storage, fence: Fence
    ) -> None:
        await storage.commit(fence, journal.PutTicket(TASK, TICKET, None))
        done = replace(TICKET, state="done")
        with pytest.raises(IllegalWrite, match="not done"):
            await storage.commit(fence, journal.PutTicket(TASK, done, "pending"))
        moved = replace(TICKET, state="in_progress")
        with pytest.raises(IllegalWrite, match="not in state blocked"):
            await storage.commit(fence, journal.PutTicket(TASK, moved, "blocked"))
        with pytest.raises(IllegalWrite, match="already exists"):
            await storage.commit(fence, journal.PutTicket(TASK, TICKET, None))
        assert await storage.tickets.tickets(TASK) == [TICKET]
