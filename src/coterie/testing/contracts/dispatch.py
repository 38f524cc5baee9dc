"""The contract of every `ports.Dispatch`.

Subclass `DispatchContract`, implement the events that a dispatch does not cause itself, and pytest
runs the whole suite.  It needs anyio's plugin in auto mode and a fixture `anyio_backend` that
returns "asyncio".
"""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from coterie.model import instant
from coterie.model.machine import FULL, MachineRow, Offer, queues_of
from coterie.ports import Dispatch
from coterie.testing.contracts.dispatch_refusals import RefusalsContract
from coterie.testing.contracts.dispatch_stage import AGENTS, HOUR, OFFER, TASK, TIMEOUT


class DispatchContract(RefusalsContract):
    """What is on offer, to whom, and when."""

    # -- taking and releasing --------------------------------------------------------------------

    async def test_an_offer_is_handed_out_and_taken_by_one_owner(self, dispatch: Dispatch) -> None:
        assert (await dispatch.get(TASK), await dispatch.sweep()) == (None, False)
        await dispatch.offer(OFFER)
        assert (await dispatch.get(TASK), await dispatch.sweep()) == (OFFER, True)
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.offered() == {TASK: OFFER}
        takers = ("one", "two", "one")
        assert [await dispatch.take(TASK, one) for one in takers] == [OFFER, None, None]
        assert await dispatch.take("another", "one") is None

    async def test_only_the_taker_can_put_an_offer_back(self, dispatch: Dispatch) -> None:
        await dispatch.offer(OFFER)
        taken = await self.taken(dispatch, "one")
        await dispatch.put_back(taken, "two")
        await dispatch.defer(taken, "two")
        await dispatch.refuse(taken, "two", "gpu2", "no")
        assert await dispatch.take(TASK, "two") is None
        await dispatch.put_back(taken, "one")
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.take(TASK, "two") == OFFER

    async def test_the_queue_hands_out_the_oldest_first(self, dispatch: Dispatch) -> None:
        names = ["c", "a", "b"]
        for name in names:
            await dispatch.offer(Offer(name))
        assert await self.handed_out(dispatch) == names

    async def test_an_offer_that_was_handed_out_but_not_taken_is_handed_out_again(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(OFFER)
        for _ in range(2):
            assert await self.handed_out(dispatch) == [TASK]
            assert await dispatch.sweep()
        await self.lose_jobs()
        await dispatch.sweep()
        assert await self.handed_out(dispatch) == [TASK]

    async def test_a_taken_offer_is_not_queued_again(self, dispatch: Dispatch) -> None:
        await dispatch.offer(OFFER)
        assert await self.handed_out(dispatch) == [TASK]
        await dispatch.take(TASK, "one")
        assert await dispatch.sweep()
        await dispatch.sweep()
        assert await self.handed_out(dispatch) == []

    async def test_serving_respects_the_concurrency_limit(self, dispatch: Dispatch) -> None:
        running = most = done = 0
        all_done = anyio.Event()

        async def run(task_id: str) -> None:
            nonlocal running, most, done
            running += 1
            most = max(most, running)
            if task_id == "t3":
                await dispatch.offer(Offer("t4"))
            await anyio.sleep(0.01)
            running, done = running - 1, done + 1
            if done == 5:
                all_done.set()

        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as group:
                queues = queues_of("seat", AGENTS, "gpu1")
                group.start_soon(dispatch.serve, "seat", queues, 2, run)
                for number in range(4):
                    await dispatch.offer(Offer(f"t{number}"))
                await all_done.wait()
                group.cancel_scope.cancel()
        assert most <= 2

    # -- which machines are asked ----------------------------------------------------------------

    async def test_only_machines_with_what_a_task_needs_are_offered_it(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(Offer("any"))
        await dispatch.offer(Offer("both", needs=("claude", "codex")))
        await dispatch.offer(Offer("full", needs=(FULL, "codex")))
        await dispatch.offer(Offer("session", "session"))
        await dispatch.offer(Offer("mine", needs=("gemini",), machine="gpu2"))
        assert await self.handed_out(dispatch, has=("gemini",), machine="gpu3") == ["any"]
        assert await self.handed_out(dispatch, has=("codex",), machine="gpu3") == []
        assert await self.handed_out(dispatch, machine="gpu2") == ["both", "mine"]
        assert await self.handed_out(dispatch, has=("codex", FULL)) == ["full"]
        assert await self.handed_out(dispatch, pool="session", has=()) == ["session"]

    async def test_a_task_of_one_machine_can_be_offered_to_all(self, dispatch: Dispatch) -> None:
        await dispatch.offer(replace(OFFER, machine="gpu1"))
        await dispatch.offer(OFFER)
        assert await self.handed_out(dispatch, machine="gpu2") == [TASK]
        assert await dispatch.take(TASK, "two") == replace(OFFER, woken=1)

    # -- due times -------------------------------------------------------------------------------

    async def test_an_offer_cannot_be_taken_before_it_is_due(self, dispatch: Dispatch) -> None:
        await dispatch.offer(OFFER, instant.after(HOUR))
        assert (await self.handed_out(dispatch), await dispatch.take(TASK, "one")) == ([], None)
        assert await dispatch.sweep()
        await self.later(HOUR + 60)
        await dispatch.sweep()
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.take(TASK, "one") == OFFER

    async def test_an_offer_for_now_replaces_one_for_later(self, dispatch: Dispatch) -> None:
        await dispatch.offer(OFFER, instant.after(HOUR))
        await dispatch.offer(OFFER)
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.take(TASK, "one") == replace(OFFER, woken=1)

    async def test_a_deferred_offer_is_due_after_a_few_seconds_or_at_the_given_time(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(OFFER)
        for at, wait in ((None, 6.0), (instant.after(HOUR), HOUR + 60)):
            taken = await self.taken(dispatch, "one")
            await dispatch.defer(taken, "one", at)
            assert (await self.handed_out(dispatch), await dispatch.take(TASK, "two")) == ([], None)
            await self.later(wait)
            await dispatch.sweep()
        assert await self.handed_out(dispatch) == [TASK]

    # -- holding and reopening -------------------------------------------------------------------

    async def test_a_held_offer_is_not_taken_until_it_is_offered_again(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(OFFER)
        await dispatch.hold(TASK)
        await dispatch.hold("another")
        assert (await dispatch.take(TASK, "one"), await dispatch.sweep()) == (None, False)
        await dispatch.offer(OFFER)
        taken = await self.taken(dispatch, "one")
        await dispatch.put_back(taken, "one", held=True)
        assert (await self.handed_out(dispatch), await dispatch.sweep()) == ([], False)
        assert await dispatch.get(TASK) == taken

    async def test_an_offer_held_while_it_is_taken_stays_held(self, dispatch: Dispatch) -> None:
        await dispatch.offer(OFFER)
        taken = await self.taken(dispatch, "one")
        await dispatch.hold(TASK)
        await dispatch.put_back(taken, "one")
        assert (await dispatch.take(TASK, "two"), await dispatch.sweep()) == (None, False)

    @pytest.mark.parametrize("how", ["answer", "message"])
    async def test_an_answer_or_a_message_reopens_a_held_offer(
        self, dispatch: Dispatch, how: str
    ) -> None:
        await self.create(TASK)
        await dispatch.offer(OFFER)
        await dispatch.hold(TASK)
        await (self.answer if how == "answer" else self.send_message)(TASK)
        assert await dispatch.sweep()
        assert TASK in await self.handed_out(dispatch)
        assert await dispatch.take(TASK, "one") == replace(OFFER, woken=1)

    @pytest.mark.parametrize("how", ["answer", "message"])
    async def test_an_answer_or_a_message_makes_a_deferred_offer_due(
        self, dispatch: Dispatch, how: str
    ) -> None:
        await self.create(TASK)
        await dispatch.offer(OFFER, instant.after(HOUR))
        await (self.answer if how == "answer" else self.send_message)(TASK)
        assert await dispatch.sweep()
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.take(TASK, "one") == replace(OFFER, woken=1)

    @pytest.mark.parametrize("how", ["answer", "message", "offer"])
    async def test_what_arrives_while_an_offer_is_taken_keeps_it_open(
        self, dispatch: Dispatch, how: str
    ) -> None:
        await self.create(TASK)
        await dispatch.offer(OFFER)
        for put_back in ("held", "put off", "held"):
            taken = await self.taken(dispatch, "one")
            if how == "offer":
                await dispatch.offer(OFFER)
            else:
                await (self.answer if how == "answer" else self.send_message)(TASK)
            if put_back == "held":
                await dispatch.put_back(taken, "one", held=True)
            else:
                await dispatch.defer(taken, "one", instant.after(HOUR))
            await dispatch.sweep()
        assert TASK in await self.handed_out(dispatch)

    async def test_an_answer_given_before_the_offer_was_taken_does_not_reopen_it(
        self, dispatch: Dispatch
    ) -> None:
        await self.create(TASK)
        await dispatch.offer(OFFER)
        await self.answer(TASK)
        taken = await self.taken(dispatch, "one")
        await dispatch.put_back(taken, "one", held=True)
        assert not await dispatch.sweep()

    # -- ended tasks -----------------------------------------------------------------------------

    async def test_an_ended_task_is_no_longer_offered(self, dispatch: Dispatch) -> None:
        await self.create(TASK)
        await dispatch.offer(OFFER)
        taken = await self.taken(dispatch, "one")
        await self.end(TASK)
        await dispatch.put_back(taken, "one")
        await self.die("one")
        assert (await dispatch.get(TASK), await dispatch.sweep()) == (None, False)
        assert await dispatch.take(TASK, "two") is None

    async def test_an_event_of_a_child_reopens_its_session(self, dispatch: Dispatch) -> None:
        child = f"{TASK}/T1"
        session = Offer(TASK, "session")
        await self.create(TASK)
        await self.create(child, TASK)
        await dispatch.offer(session)
        await dispatch.offer(Offer(child))
        for number, what in enumerate((self.answer, self.send_message, self.end), 1):
            await dispatch.hold(TASK)
            await what(child)
            await dispatch.sweep()
            assert TASK in await self.handed_out(dispatch, pool="session")
            assert await dispatch.get(TASK) == replace(session, woken=number)
        assert await dispatch.get(child) is None

    async def test_a_message_to_a_session_does_not_reopen_its_children(
        self, dispatch: Dispatch
    ) -> None:
        child = f"{TASK}/T1"
        await self.create(TASK)
        await self.create(child, TASK)
        await dispatch.offer(Offer(child))
        await dispatch.hold(child)
        await self.send_message(TASK)
        assert (await dispatch.sweep(), await dispatch.get(child)) == (False, Offer(child))

    # -- dead owners -----------------------------------------------------------------------------

    async def test_offers_taken_by_a_dead_owner_are_given_back(self, dispatch: Dispatch) -> None:
        for name in ("a", "b", "c"):
            await dispatch.offer(Offer(name))
        assert await self.handed_out(dispatch) == ["a", "b", "c"]
        taken = [await dispatch.take("a", "one"), await dispatch.take("b", "two")]
        await dispatch.hold("c")
        await self.die("one")
        assert await dispatch.take("a", "two") is None
        assert await dispatch.sweep()
        assert await self.handed_out(dispatch) == ["a"]
        assert await dispatch.take("a", "two") == Offer("a")
        assert taken[0] is not None
        await dispatch.put_back(taken[0], "one", held=True)  # too late: another owner has it
        assert await dispatch.take("a", "two") is None

    async def test_an_offer_taken_after_its_owner_died_is_given_back(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(OFFER)
        await self.die("one")
        await dispatch.take(TASK, "one")
        await dispatch.sweep()
        assert await dispatch.take(TASK, "two") == OFFER

    async def test_a_machine_is_alive_while_one_of_its_owners_is(self, dispatch: Dispatch) -> None:
        for name in ("gpu2", "gpu1"):
            await dispatch.announce(MachineRow(name, AGENTS, 2, "c0ffee", "1.0", "2026-01-01"))
        details = ("c0ffee", "1.1", "2026-01-02", True)
        await dispatch.announce(MachineRow("gpu1", ("echo",), 3, *details))
        await self.die("two")
        first, second = await dispatch.machines()
        shown = (first.name, first.state, first.has, first.seats, first.version, first.seen)
        assert shown == ("gpu1", "alive", ["echo", FULL], 3, "1.1", "2026-01-02")
        assert (second.name, second.state, second.has) == ("gpu2", "dead", list(AGENTS))
