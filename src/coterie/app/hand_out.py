"""Offer a child task to other machines and wait for it, or run it here if none could take it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import anyio

from coterie.app.elsewhere import offer_of
from coterie.app.run_here import is_run, withdraw_and_stop
from coterie.app.store import SharedStore
from coterie.engine.task_run import RunServices
from coterie.errors import StorageError
from coterie.model.conversation import Message
from coterie.model.journal import Fence
from coterie.model.machine import Offer
from coterie.model.record import ResultRecord
from coterie.model.task import ENDED, Stopped, TaskCreated, fold
from coterie.ports import RunChild, Storage

THREAD_TIMEOUT = 15.0
"""How many seconds a turn waits for the machine that has its thread: any other begins a new one."""
LOOK = 1.0
"""Seconds between two checks of an offer that nobody has taken."""


@dataclass(frozen=True)
class ChildOffers:
    """`ports.HandOut` to the machines that share a store."""

    shared: SharedStore

    @property
    def _storage(self) -> Storage:
        return self.shared.storage

    async def __call__(self, part: TaskCreated, here: RunChild, wait: float | None) -> ResultRecord:
        """Offer a child task, and return how it ended or what it waits for."""
        await self._make(part)
        offer = offer_of(part)
        if (ended := await self._ended(part.task_id)) is not None:
            return ended
        able = await self._capable_machines(offer)
        if not able:
            return await here(part)
        known = await self._machine_with_thread(part)
        offer = replace(offer, machine=known if known in able else None)
        await self.shared.dispatch.offer(offer)
        try:
            return await self._wait_for_end(part, here, offer, wait)
        except BaseException:  # whoever runs it must stop: its session is no longer running
            deadline = self.shared.owners.deadline
            if deadline is not None and not deadline.passed():  # else another may own the session
                with anyio.CancelScope(shield=True), suppress(StorageError):
                    await withdraw_and_stop(self.shared, part.task_id)
            raise

    async def _make(self, part: TaskCreated) -> None:
        if not await self._storage.events.of_task(part.task_id):
            # The opening message is empty: nobody asked for this part as such.
            opening = Message(part.task_id, 1, part.author, "", part.at)
            await self._storage.create(part, self.shared.owners.me, opening)
        lease = await self._storage.leases.get(part.task_id)
        if lease is not None and lease.owner == self.shared.owners.me:
            await self._storage.leases.park(Fence(part.task_id, lease.token))

    async def _capable_machines(self, offer: Offer) -> list[str]:
        """Return the living machines that have what the offer needs and have not refused it."""
        machines, stored = await self.shared.dispatch.machines(), await self._stored_offer(offer)
        alive = [one for one in machines if one.state == "alive" and one.name not in stored.refused]
        return [one.name for one in alive if set(offer.needs) <= set(one.has)]

    async def _stored_offer(self, offer: Offer) -> Offer:
        """Return the offer as stored, or as given if it is not stored yet."""
        return await self.shared.dispatch.get(offer.task_id) or offer

    async def _machine_with_thread(self, part: TaskCreated) -> str | None:
        """Return the machine with its member's last thread on the ticket, if only one has it."""
        turns = await self._storage.journal.spending(task_id=part.parent_id)
        worker = part.team.ai_members[0].id
        for turn in reversed(turns):
            if turn.member == worker and turn.thread:
                is_kept = await self._storage.conversation.thread(turn.thread)
                return None if is_kept else turn.machine
        return None

    async def _offer_to_all(self, offer: Offer, able: list[str], waited: float) -> Offer:
        """Open an untaken offer to all machines if the one it was reserved for is gone or has not
        taken it in time."""
        alone = offer.machine
        if alone is None or (alone in able and waited < THREAD_TIMEOUT):
            return offer
        offer = replace(offer, machine=None)
        await self.shared.dispatch.offer(offer)
        return offer

    async def _wait_for_end(
        self, part: TaskCreated, here: RunChild, offer: Offer, wait: float | None
    ) -> ResultRecord:
        seen, since = 0, anyio.current_time()
        while True:
            if (ended := await self._ended(part.task_id)) is not None:
                return ended
            if await is_run(self.shared, part.task_id):
                since = anyio.current_time()
            elif await self._asks(part.task_id):
                if wait is not None and anyio.current_time() - since > wait:
                    stop = Stopped("question")
                    return ResultRecord(part.task_id, "waiting", stop.reason, "", 0, stop=stop)
            elif able := await self._capable_machines(offer):
                waited = anyio.current_time() - since
                offer = await self._offer_to_all(offer, able, waited)
            else:
                await self.shared.dispatch.hold(part.task_id)
                return await here(part)
            with anyio.move_on_after(LOOK):
                seen = await self._storage.changed(seen)
                await anyio.sleep(0.05)  # treat a burst of changes as one

    async def _ended(self, task_id: str) -> ResultRecord | None:
        state = fold(await self._storage.events.of_task(task_id))
        if state.status not in ENDED:
            return None
        return ResultRecord(task_id, state.status, state.reason, state.summary, 0)

    async def _asks(self, task_id: str) -> bool:
        questions = await self._storage.inbox.questions()
        return any(one.interaction.task_id == task_id for one in questions)


def with_offers(services: RunServices, shared: SharedStore, *, for_others: bool) -> RunServices:
    """Return the services of a run whose child tasks may run on other machines; `for_others`: the
    run itself was taken from an offer."""
    name, offers = shared.machine, ChildOffers(shared)
    services = replace(services, machine=name, blobs=shared.blobs, hand_out=offers)
    return replace(services, find_remote=shared.find_remote, for_others=for_others)
