"""Questions and requests."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from coterie.model.interaction import Question
from coterie.model.journal import AppendEvent, Fence, Request, TakeRequest
from coterie.model.task import IllegalEvent, TaskCanceled, TaskStarted
from coterie.ports import Storage
from coterie.testing.contracts.samples import (
    STEP,
    TASK,
    answered,
    asked,
    at,
    closed,
    created,
    interaction,
    started,
)
from coterie.testing.contracts.storage_opening import OpenedStorage


class InboxContract(OpenedStorage):
    """The inbox."""

    async def test_ids_are_never_given_out_twice(self, tmp_path: Path, storage: Storage) -> None:
        async with self.opened(tmp_path) as other:
            given = [await each.inbox.allocate() for each in (storage, other, storage, other)]
        assert given == ["q1", "q2", "q3", "q4"]

    async def test_a_question_is_asked_and_answered_once(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        await storage.commit(fence, asked("q1"))
        question = Question(interaction("q1"), f"{STEP}/ask/q1", "open", at(2))
        assert await storage.inbox.questions() == [question]
        assert [row.status for row in await storage.events.tasks()] == ["waiting"]
        async with self.opened(tmp_path) as other:
            assert await other.inbox.question("q1") == question
            assert await other.inbox.respond(answered("q1"))
            assert not await other.inbox.respond(answered("q1", by="late"))
        assert not await storage.inbox.respond(answered("q1", by="later"))
        assert await storage.inbox.questions() == []
        assert await storage.inbox.question("q1") == Question(
            interaction("q1"),
            f"{STEP}/ask/q1",
            "answered",
            at(2),
            answered("q1").response,
            at(3),
        )
        assert [row.status for row in await storage.events.tasks()] == ["running"]

    async def test_a_task_waits_until_its_last_question_is_answered(
        self, storage: Storage, fence: Fence
    ) -> None:
        await storage.commit(fence, asked("q2"), asked("q1"))
        assert await storage.inbox.respond(answered("q1"))
        assert [row.status for row in await storage.events.tasks()] == ["waiting"]
        assert await storage.inbox.respond(answered("q2"))
        assert [row.status for row in await storage.events.tasks()] == ["running"]

    async def test_questions_come_in_the_order_they_were_asked(
        self, storage: Storage, fence: Fence
    ) -> None:
        other = await storage.create(created("b"), "me", None)
        await storage.commit(other, started("b"), asked("q9", "b"))
        await storage.commit(fence, asked("q10"), asked("q2"))
        assert [q.interaction.interaction_id for q in await storage.inbox.questions()] == [
            "q9",
            "q10",
            "q2",
        ]

    async def test_what_nobody_answered_is_closed(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, asked("q1"), asked("q2"))
        await storage.commit(fence, AppendEvent(closed("q1")))
        await storage.commit(fence, AppendEvent(TaskCanceled(task_id=TASK, at=at(9))))
        questions = await storage.inbox.questions(only_open=False)
        assert [(q.state, q.answered_at) for q in questions] == [
            ("closed", at(3)),
            ("closed", None),
        ]
        assert not await storage.inbox.respond(answered("q2"))

    async def test_an_answer_to_nothing(self, storage: Storage, fence: Fence) -> None:
        assert await storage.inbox.question("q7") is None
        assert not await storage.inbox.respond(answered("q7"))
        assert not await storage.inbox.respond(answered("q7", task_id="none"))
        with pytest.raises(IllegalEvent):
            await storage.inbox.respond(TaskStarted(task_id=TASK, at=at(1)))

    async def test_answers_race_and_one_wins(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        await storage.commit(fence, asked("q1"))
        won: list[bool] = []

        async def answer(by: Storage, who: str) -> None:
            won.append(await by.inbox.respond(answered("q1", by=who)))

        async with self.opened(tmp_path) as other, anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(answer, (storage, other)[number % 2], f"you {number}")
        assert sorted(won) == [False] * 9 + [True]

    async def test_requests_wait_until_they_are_taken(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        async with self.opened(tmp_path) as other:
            first = await other.inbox.request(TASK, "say", "max", "be quick")
            second = await other.inbox.request(TASK, "stop", "max", "")
            await other.inbox.request("another", "stop", "max", "")
        found = await storage.inbox.requests(TASK)
        assert found == [
            Request(first, TASK, "say", "max", "be quick", found[0].at),
            Request(second, TASK, "stop", "max", "", found[1].at),
        ]
        await storage.commit(fence, TakeRequest(first))
        await storage.inbox.discard_requests(TASK, ["stop", "cancel"])
        assert await storage.inbox.requests(TASK) == []
        assert len(await storage.inbox.requests("another")) == 1

    async def test_a_number_that_was_taken_does_not_come_again(
        self, storage: Storage, fence: Fence
    ) -> None:
        first = await storage.inbox.request(TASK, "say", "max", "one")
        await storage.commit(fence, TakeRequest(first))
        await storage.commit(fence, TakeRequest(first))
        assert await storage.inbox.request(TASK, "say", "max", "two") > first
