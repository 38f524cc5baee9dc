"""What a project's processes write for each other (questions, requests, leases), and waking up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from coterie.errors import LeaseLost
from coterie.model import journal, step_name
from coterie.model.incident import PendingNotification
from coterie.model.interaction import COTERIE, Question
from coterie.model.journal import Fence, IllegalWrite
from coterie.model.task import IllegalEvent, TaskCanceled, TaskStarted
from coterie.ports import Storage
from coterie.testing.contracts.samples import (
    STEP,
    TASK,
    OpenedStorage,
    answered,
    asked,
    at,
    child,
    created,
    interaction,
    message,
    reservation,
    started,
)


class ProcessesContract(OpenedStorage):
    """The inbox, leases, and waking up."""

    async def test_ids_are_never_given_out_twice(self, tmp_path: Path, storage: Storage) -> None:
        async with self.opened(tmp_path) as other:
            ids = [await each.inbox.allocate() for each in (storage, other, storage, other)]
        assert ids == ["q1", "q2", "q3", "q4"]

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
        assert await storage.inbox.question("q1") == replace(
            question, state="answered", response=answered("q1").response, answered_at=at(3)
        )
        assert [row.status for row in await storage.events.tasks()] == ["running"]

    async def test_a_message_that_is_an_answer_is_handled_with_it_or_not_at_all(
        self, storage: Storage, fence: Fence
    ) -> None:
        await storage.commit(fence, asked("q1"))
        words = [await storage.inbox.request(TASK, "say", "you", text) for text in ("a", "b")]
        assert await storage.inbox.respond(answered("q1"), words[0])
        assert not await storage.inbox.respond(answered("q1", by="late"), words[1])
        assert [one.id for one in await storage.inbox.requests(TASK)] == words[1:]

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
        questions = await storage.inbox.questions()
        assert [q.interaction.interaction_id for q in questions] == ["q9", "q10", "q2"]

    async def test_answers_about_budgets_are_found_by_session_and_instant(
        self, storage: Storage, fence: Fence
    ) -> None:
        places = {"q1": TASK, "q2": "k3f9.1", "q3": "b", "q4": TASK, "q5": TASK}
        for task_id in ("k3f9.1", "b"):
            session = task_id.partition(".")[0]
            task = created(task_id).model_copy(update={"session_id": session})
            await storage.commit(await storage.create(task, "me", None), started(task_id))
        about_budget = step_name.budget("task", "turns", TASK, 5, 1)
        for name, task_id in places.items():
            step = STEP if name == "q4" else about_budget
            await storage.commit(None, asked(name, task_id)._replace(step=step))
            if name != "q5":
                assert await storage.inbox.respond(answered(name, task_id))

        async def names(since: str = "", session_id: str | None = None) -> list[str]:
            questions = await storage.inbox.budget_answers(since, session_id)
            assert all(one.response is not None for one in questions)
            return [one.interaction.interaction_id for one in questions]

        assert await names() == ["q1", "q2", "q3"]
        assert await names(session_id=TASK) == ["q1", "q2"]
        assert await names(at(3)) == ["q1", "q2", "q3"]
        assert await names(at(4), TASK) == []

    async def test_unanswered_questions_are_closed(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, asked("q1"), asked("q2"))
        await storage.commit(fence, journal.AppendEvent(answered("q1", by=COTERIE)))
        await storage.commit(fence, journal.AppendEvent(TaskCanceled(task_id=TASK, at=at(9))))
        questions = await storage.inbox.questions(only_open=False)
        assert [(q.state, q.answered_at) for q in questions] == [
            ("closed", at(3)),
            ("closed", None),
        ]
        assert not await storage.inbox.respond(answered("q2"))

    async def test_an_answer_to_an_unknown_question_is_refused(
        self, storage: Storage, fence: Fence
    ) -> None:
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
        requests = await storage.inbox.requests(TASK)
        assert requests == [
            journal.Request(first, TASK, "say", "max", "be quick", requests[0].at),
            journal.Request(second, TASK, "stop", "max", "", requests[1].at),
        ]
        await storage.commit(fence, journal.TakeRequest(first))
        await storage.inbox.discard_requests(TASK, ["stop", "cancel"])
        assert await storage.inbox.requests(TASK) == []
        assert len(await storage.inbox.requests("another")) == 1

    async def test_a_number_that_was_taken_does_not_come_again(
        self, storage: Storage, fence: Fence
    ) -> None:
        first = await storage.inbox.request(TASK, "say", "max", "one")
        await storage.commit(fence, journal.TakeRequest(first))
        await storage.commit(fence, journal.TakeRequest(first))
        assert await storage.inbox.request(TASK, "say", "max", "two") > first

    async def test_a_lease_is_acquired_released_and_acquired_again(
        self, storage: Storage, fence: Fence
    ) -> None:
        leases = storage.leases
        await leases.park(fence)
        assert await leases.get(TASK) == journal.Lease(TASK, "me", 1, "parked")
        assert await leases.claim(TASK, "other", 7) is None
        assert await leases.claim(TASK, "other", 0) is None
        assert await leases.claim(TASK, "other", 1) == 2
        assert await leases.claim(TASK, "third", 1) is None
        assert await leases.get(TASK) == journal.Lease(TASK, "other", 2, "reclaiming")
        assert not await leases.confirm(fence)
        assert await leases.confirm(Fence(TASK, 2))
        assert not await leases.confirm(Fence(TASK, 2))
        await leases.park(fence)  # no longer ours: nothing happens
        assert await leases.all() == [journal.Lease(TASK, "other", 2, "running")]

    async def test_a_lease_is_released_with_the_last_write(
        self, storage: Storage, fence: Fence
    ) -> None:
        parked = journal.ParkLease(TASK, fence.token)
        await storage.commit(fence, journal.TakeRequest(1), parked)
        assert await storage.leases.get(TASK) == journal.Lease(TASK, "me", 1, "parked")
        assert await storage.leases.claim(TASK, "other", 1) == 2
        with pytest.raises(LeaseLost):
            await storage.commit(fence, parked)

    async def test_a_lease_that_never_was(self, storage: Storage) -> None:
        assert await storage.leases.get("none") is None
        assert await storage.leases.claim("none", "me", 1) is None
        assert await storage.leases.claim("none", "me", 0) == 1
        assert await storage.leases.get("none") == journal.Lease("none", "me", 1, "reclaiming")

    async def test_claims_race_and_one_wins(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        tokens: list[int | None] = []

        async def claim(by: Storage, owner: str) -> None:
            tokens.append(await by.leases.claim(TASK, owner, 1))

        async with self.opened(tmp_path) as other, anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(claim, (storage, other)[number % 2], f"owner {number}")
        assert [token for token in tokens if token is not None] == [2]

    async def test_children_are_known_from_before_their_start(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        await storage.create(created("b"), "me", None)
        await storage.leases.record_child(fence, child("m2"))
        await storage.leases.record_child(fence, child("m1"))
        await storage.leases.record_child(Fence("b", 1), child("m3", "b"))
        storage.leases.set_child_pid("m1", 4242)
        storage.leases.set_child_pid("gone", 4243)
        assert await storage.leases.children(TASK) == [replace(child("m1"), pid=4242), child("m2")]
        assert len(await storage.leases.children()) == 3
        storage.leases.drop_child("m1")
        storage.leases.drop_child("m1")
        assert await storage.leases.children(TASK) == [child("m2")]
        with pytest.raises(IllegalWrite):
            await storage.leases.record_child(fence, child("m2"))
        async with self.opened(tmp_path) as other:
            assert await other.leases.children(TASK) == [child("m2")]

    async def test_a_child_with_an_old_token_is_refused(
        self, storage: Storage, fence: Fence
    ) -> None:
        await storage.leases.claim(TASK, "other", 1)
        with pytest.raises(LeaseLost):
            await storage.leases.record_child(fence, child("m1"))
        assert await storage.leases.children() == []

    async def test_a_notification_is_claimed_by_one_process(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        ended = journal.AppendEvent(TaskCanceled(task_id=TASK, at=at(9)), incident=TASK)
        await storage.commit(fence, asked("q1")._replace(incident="q1"), ended)
        first = PendingNotification("q1", TASK, at(2), "")
        last = PendingNotification(TASK, TASK, at(9), "")
        async with self.opened(tmp_path) as other:
            assert await other.notifications.unsent() == [first, last]
            claims = [await one.notifications.claim("q1") for one in (other, storage)]
            assert claims == [True, False]
            assert await storage.notifications.unsent() == [last]
            await other.notifications.settle("q1", "failed", "no network")
        assert await storage.notifications.failed() == [replace(first, problem="no network")]
        assert await storage.notifications.claim(TASK)
        await storage.notifications.settle(TASK, "sent")
        assert await storage.notifications.failed() == [], "another notification was sent since"
        await storage.notifications.settle(TASK, "failed", "too late")
        assert await storage.notifications.failed() == []
        assert not await storage.notifications.claim("q2"), "nobody asked for that"
        for _ in range(2):
            await storage.notifications.add("limit", TASK, at(9))
        assert await storage.notifications.unsent() == [
            PendingNotification("limit", TASK, at(9), "")
        ]
        assert await storage.notifications.claim("limit")
        await storage.notifications.add("limit", TASK, at(10))
        assert await storage.notifications.unsent() == [], (
            "a notification is identified by its name"
        )

    async def test_a_reservation_needs_all_others_to_be_known(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        mine, again = reservation("turn/1"), reservation("turn/2")
        async with self.opened(tmp_path) as other:
            assert await other.reservations.all() == (0, [])
            assert await storage.reservations.add(fence, mine, 0)
            theirs = await other.create(created("b"), "other", None)
            assert theirs is not None
            late = reservation("turn/1", "b")
            assert not await other.reservations.add(theirs, late, 0)
            assert await other.reservations.all() == (1, [mine])
            assert await other.reservations.add(theirs, late, 1)
        assert await storage.reservations.all() == (2, [late, mine])
        assert await storage.reservations.add(fence, mine, 2), "of the same turn: once"
        assert await storage.reservations.add(fence, again, 3)
        storage.reservations.drop(TASK, "turn/1")
        storage.reservations.drop(TASK, "turn/1")
        assert await storage.reservations.all() == (4, [late, again])

    async def test_a_reservation_is_gone_with_its_run(self, storage: Storage, fence: Fence) -> None:
        assert await storage.reservations.add(fence, reservation("turn/1"), 0)
        assert await storage.leases.claim(TASK, "other", 1) == 2
        newer = reservation("turn/2")._replace(token=2)
        assert await storage.reservations.add(Fence(TASK, 2), newer, 1)
        assert await storage.reservations.all() == (2, [newer])
        with pytest.raises(LeaseLost):
            await storage.reservations.add(fence, reservation("turn/3"), 2)

    async def test_only_one_of_several_equal_questions_is_open(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        other = await storage.create(created("b"), "me", None)
        await storage.commit(other, started("b"))
        await storage.commit(fence, asked("q1")._replace(once="today"))
        with pytest.raises(IllegalWrite):
            await storage.commit(other, asked("q2", "b")._replace(once="today"))
        await storage.commit(other, asked("q3", "b")._replace(once="tomorrow"), asked("q4", "b"))
        async with self.opened(tmp_path) as answering:
            assert await answering.inbox.respond(answered("q1"))
        await storage.commit(other, asked("q2", "b")._replace(once="today"))

    async def test_the_first_wait_returns_at_once(self, storage: Storage) -> None:
        with anyio.fail_after(1):
            assert await storage.changed(0) > 0

    async def test_our_own_answers_and_requests_wake(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, asked("q1"))
        seen = await storage.changed(0)
        async with anyio.create_task_group() as group:
            group.start_soon(storage.inbox.respond, answered("q1"))
            with anyio.fail_after(1):
                seen = await storage.changed(seen)
        async with anyio.create_task_group() as group:
            group.start_soon(storage.inbox.request, TASK, "stop", "max", "")
            with anyio.fail_after(1):
                await storage.changed(seen)

    async def test_our_own_other_writes_do_not_wake(self, storage: Storage, fence: Fence) -> None:
        seen = await storage.changed(0)
        await storage.commit(fence, journal.AppendMessage(message(1)))
        storage.post(fence, journal.AppendMessage(message(2)))
        with anyio.move_on_after(0.2) as waited:
            await storage.changed(seen)
        assert waited.cancelled_caught

    async def test_another_process_wakes_all_who_wait(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        seen = await storage.changed(0)
        woken: list[int] = []

        async def wait() -> None:
            woken.append(await storage.changed(seen))

        async with self.opened(tmp_path) as other:
            with anyio.fail_after(2):
                async with anyio.create_task_group() as group:
                    group.start_soon(wait)
                    group.start_soon(wait)
                    await anyio.sleep(0.1)
                    assert woken == []
                    await other.inbox.request(TASK, "say", "max", "hello")
        assert len(woken) == 2

    async def test_a_change_between_two_waits_is_not_missed(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        seen = await storage.changed(0)
        with anyio.move_on_after(0.01):
            await storage.changed(seen)
        async with self.opened(tmp_path) as other:
            await other.inbox.request(TASK, "say", "max", "hello")
            await storage.commit(fence, journal.AppendMessage(message(1)))  # must not hide it
            with anyio.fail_after(2):
                await storage.changed(seen)
