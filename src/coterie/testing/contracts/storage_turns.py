"""Steps, their attempts and messages read back the same, however a store keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.model import journal
from coterie.model.journal import Fence
from coterie.model.timeline import SentMessage, StatusChange
from coterie.ports import Storage
from coterie.testing.contracts import samples
from coterie.testing.contracts.samples import TASK, OpenedStorage


class TurnsContract(OpenedStorage):
    """Turns written at once or in parts, of tickets, retried, and set aside."""

    async def test_a_turn_is_the_same_whether_its_writes_come_together_or_apart(
        self, storage: Storage, fence: Fence
    ) -> None:
        """A store may keep a step and its first attempt as one."""
        await storage.commit(fence, *samples.opening("a"))
        for one in samples.opening("b"):
            await storage.commit(fence, one)
        await storage.commit(fence, journal.SpendTurn(TASK, "a", 1, "{}"))
        await storage.commit(fence, journal.SpendTurn(TASK, "b", 1, "{}"))
        await storage.commit(fence, *samples.closing("a"))
        for one in samples.closing("b", 2):
            await storage.commit(fence, one)
        first, second = await storage.journal.turns(TASK)
        assert replace(first, step="b") == second
        assert (first.outcome, first.usage, first.thread) == ("completed", "{}", "t-2")
        one, other = await storage.journal.steps(TASK)
        assert (one.result, other.result) == ('{"message":1}', '{"message":2}')
        for name in ("a", "b"):
            for refused in (samples.open_turn(name), *samples.closing(name)[:2]):
                with pytest.raises(journal.IllegalWrite):
                    await storage.commit(fence, refused)

    async def test_a_step_and_its_attempts_are_recorded_independently(
        self, storage: Storage, fence: Fence
    ) -> None:
        """A step is closed after a failed attempt or by a second one, and is then set aside."""
        failed = journal.CloseTurn(TASK, "a", 1, samples.at(5), "failed", "no answer", None)
        await storage.commit(
            fence, *samples.opening("a"), failed, journal.CloseStep(TASK, "a", "1")
        )
        assert [(one.attempt, one.outcome) for one in await storage.journal.turns(TASK)] == [
            (1, "failed")
        ]
        assert [one.result for one in await storage.journal.steps(TASK)] == ["1"]
        sources = [row.source for row in await storage.timeline.after(0, TASK)]
        assert [one.step for one in sources if isinstance(one, journal.Turn)] == ["a"]
        await storage.commit(
            fence, *samples.opening("c"), failed._replace(step="c"), samples.open_turn("c", 2)
        )
        ended = journal.CloseTurn(TASK, "c", 2, samples.at(6), "completed", None, None)
        await storage.commit(fence, ended, journal.CloseStep(TASK, "c", "2"))
        await storage.commit(fence, journal.SupersedeSteps(TASK, "aside/1/", ("a", "c")))
        turns = await storage.journal.turns(TASK)
        assert [(one.step, one.attempt, one.outcome) for one in turns] == [
            ("aside/1/a", 1, "failed"),
            ("aside/1/c", 1, "failed"),
            ("aside/1/c", 2, "completed"),
        ]
        sources = [row.source for row in await storage.timeline.after(0, TASK)]
        assert [one.step for one in sources if isinstance(one, journal.Turn)] == [
            "aside/1/a", "aside/1/c",
        ]  # fmt: skip

    async def test_a_turn_of_a_ticket_keeps_its_own_task_although_its_step_is_of_the_session(
        self, storage: Storage, fence: Fence
    ) -> None:
        ticket = f"{TASK}/T1"
        part = samples.created(ticket).model_copy(update={"parent_id": TASK, "workflow": "ticket"})
        await storage.commit(fence, journal.AppendEvent(part), *samples.opening("a"))
        opened = journal.OpenStep(samples.step("ticket/T1/at/1/work"))
        await storage.commit(fence, opened, samples.open_turn(opened.step.name, task_id=ticket))
        ended = journal.CloseTurn(
            ticket, opened.step.name, 1, samples.at(5), "completed", None, None
        )
        await storage.commit(fence, ended, journal.CloseStep(TASK, opened.step.name, "1"))
        assert [one.task_id for one in await storage.journal.turns(ticket)] == [ticket]
        both = await storage.journal.turns(TASK)
        assert [(one.task_id, one.outcome) for one in both] == [(TASK, None), (ticket, "completed")]
        assert [one.name for one in await storage.journal.steps(ticket)] == []

    async def test_the_tasks_below_a_task_and_no_others(
        self, storage: Storage, fence: Fence
    ) -> None:
        above = {f"{TASK}/T1": TASK, f"{TASK}/T1.2": f"{TASK}/T1", "other": None, f"{TASK}.1": TASK}
        for name, parent in above.items():
            part = samples.created(name).model_copy(update={"parent_id": parent})
            await storage.commit(None, journal.AppendEvent(part))
        rows = await storage.events.tasks()
        assert await storage.events.below(TASK) == [
            row for row in rows if row.id not in (TASK, "other")
        ]
        assert [row.id for row in await storage.events.below(f"{TASK}/T1")] == [f"{TASK}/T1.2"]
        assert await storage.events.below("other") == []

    async def test_messages_of_a_ticket_turn_are_listed_with_the_ticket(
        self, storage: Storage, fence: Fence
    ) -> None:
        """The turn is a task of its own, whose start and end are not told with the ticket."""
        names = [f"{TASK}/{name}" for name in ("T1", "T1.2", "T10", "T10.2")]
        for name in names:
            await storage.commit(None, journal.AppendEvent(samples.created(name)))
        messages = [samples.message(1)._replace(task_id=name) for name in names]
        await storage.commit(None, *map(journal.AppendMessage, messages))
        for name, wanted in ((names[0], names[:2]), (names[1], names[1:2]), (TASK, names)):
            rows = await storage.timeline.after(0, name)
            assert [row.task_id for row in rows if isinstance(row.source, SentMessage)] == wanted
            assert rows == await storage.timeline.before(name)
            changed = {row.task_id for row in rows if isinstance(row.source, StatusChange)}
            assert changed == {name}

    async def test_an_empty_message_is_stored_but_not_on_the_timeline(
        self, storage: Storage, fence: Fence
    ) -> None:
        before = await storage.timeline.head()
        sent = [
            samples.message(1),
            samples.message(2)._replace(text=""),
            samples.message(3)._replace(text=""),
            samples.message(4),
        ]
        await storage.commit(fence, *map(journal.AppendMessage, sent))
        assert await storage.conversation.messages(TASK) == sent
        assert await storage.timeline.head() == before + 2
        rows = await storage.timeline.after(before)
        assert [(row.sequence - before, row.source.message.seq) for row in rows
                if isinstance(row.source, SentMessage)] == [(1, 1), (2, 4)]  # fmt: skip
