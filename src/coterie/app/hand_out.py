"""A child task on offer to machines: waited for, or run here where no machine could take it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import anyio

from coterie.app.elsewhere import offer_of
from coterie.app.run_here import is_run, withdraw
from coterie.app.store import SharedStore
from coterie.engine.task_run import RunServices
from coterie.errors import StorageError
from coterie.model.conversation import Message
from coterie.model.journal import Fence
from coterie.model.machine import Offer
from coterie.model.record import ResultRecord
from coterie.model.task import ENDED, Stopped, TaskCreated, fold
from coterie.ports import RunChild, Storage

KNOWS = 15.0
"""How long a turn waits for the machine that has the thread it goes on with, in seconds: another
begins a new one."""
LOOK = 1.0
"""How often an offer that nobody has taken is looked at, in seconds."""


@dataclass(frozen=True)
class ChildOffers:
    """`ports.HandOut` to the machines that share a store."""

    shared: SharedStore

    @property
    def _storage(self) -> Storage:
        return self.shared.storage

    async def __call__(
        self, part: TaskCreated, here: RunChild, patience: float | None
    ) -> ResultRecord:
        """How a child task ended, or what it waits for."""
        await self._make(part)
        offer = offer_of(part)
        if (ended := await self._ended(part.task_id)) is not None:
            return ended
        able = await self._able(offer)
        if not able:
            return await here(part)
        known = await self._machine_that_knows(part)
        offer = replace(offer, machine=known if known in able else None)
        await self.shared.dispatch.offer(offer)
        try:
            return await self._over(part, here, offer, patience)
        except BaseException:  # whoever runs it lets go: its session does not run
            deadline = self.shared.owners.deadline
            if deadline is not None and not deadline.passed():  # else another runs that by now
                with anyio.CancelScope(shield=True), suppress(StorageError):
                    await withdraw(self.shared, part.task_id)
            raise

    async def _make(self, part: TaskCreated) -> None:
        if not await self._storage.events.of_task(part.task_id):
            # What it is about was said by nobody: it is a part of what was asked for.
            opening = Message(part.task_id, 1, part.author, "", part.at)
            await self._storage.create(part, self.shared.owners.me, opening)
        lease = await self._storage.leases.get(part.task_id)
        if lease is not None and lease.owner == self.shared.owners.me:
            await self._storage.leases.park(Fence(part.task_id, lease.token))

    async def _able(self, offer: Offer) -> list[str]:
        """The machines that live, have what it needs, and have not refused it."""
        machines, made = await self.shared.dispatch.machines(), await self._made(offer)
        alive = [one for one in machines if one.state == "alive" and one.name not in made.refused]
        return [one.name for one in alive if set(offer.needs) <= set(one.has)]

    async def _made(self, offer: Offer) -> Offer:
        """As the store has it, if it has it by now."""
        return await self.shared.dispatch.get(offer.task_id) or offer

    async def _machine_that_knows(self, part: TaskCreated) -> str | None:
        """Where the thread is that its member last had on the ticket, if it is on one machine."""
        turns = await self._storage.journal.spending(task_id=part.parent_id)
        worker = part.team.ai_members[0].id
        for turn in reversed(turns):
            if turn.member == worker and turn.thread:
                is_kept = await self._storage.conversation.thread(turn.thread)
                return None if is_kept else turn.machine
        return None

    async def _offer_to_all(self, offer: Offer, able: list[str], waited: float) -> Offer:
        """The offer of a turn that nobody has taken: no longer to one machine alone, where that is
        busy, gone, or does not take it."""
        alone = offer.machine
        if alone is None or (alone in able and waited < KNOWS):
            return offer
        offer = replace(offer, machine=None)
        await self.shared.dispatch.offer(offer)
        return offer

    async def _over(
        self, part: TaskCreated, here: RunChild, offer: Offer, patience: float | None
    ) -> ResultRecord:
        seen, since = 0, anyio.current_time()
        while True:
            if (ended := await self._ended(part.task_id)) is not None:
                return ended
            if await is_run(self.shared, part.task_id):
                since = anyio.current_time()
            elif await self._asks(part.task_id):
                if patience is not None and anyio.current_time() - since > patience:
                    stop = Stopped("question")
                    return ResultRecord(part.task_id, "waiting", stop.reason, "", 0, stop=stop)
            elif able := await self._able(offer):
                waited = anyio.current_time() - since
                offer = await self._offer_to_all(offer, able, waited)
            else:
                await self.shared.dispatch.hold(part.task_id)
                return await here(part)
            with anyio.move_on_after(LOOK):
                seen = await self._storage.changed(seen)
                await anyio.sleep(0.05)  # several in a row are one

    async def _ended(self, task_id: str) -> ResultRecord | None:
        state = fold(await self._storage.events.of_task(task_id))
        if state.status not in ENDED:
            return None
        return ResultRecord(task_id, state.status, state.reason, state.summary, 0)

    async def _asks(self, task_id: str) -> bool:
        asked = await self._storage.inbox.questions()
        return any(one.interaction.task_id == task_id for one in asked)


def with_offers(services: RunServices, shared: SharedStore, *, for_others: bool) -> RunServices:
    """The services of a run whose parts other machines may do; `for_others`: of one that was on
    offer itself."""
    name, offers = shared.machine, ChildOffers(shared)
    services = replace(services, machine=name, blobs=shared.blobs, hand_out=offers)
    return replace(services, find_remote=shared.find_remote, for_others=for_others)
