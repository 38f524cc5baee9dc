"""A child task on offer to machines: waited for, or run here where no machine could take it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import anyio

from coterie.app.elsewhere import offer_of
from coterie.app.store import SharedStore
from coterie.engine.task_run import RunServices
from coterie.errors import StorageError
from coterie.model.conversation import YOU, opening_message
from coterie.model.journal import Fence
from coterie.model.machine import Offer
from coterie.model.record import ResultRecord
from coterie.model.task import ENDED, Stopped, TaskCreated, fold
from coterie.ports import RunChild, Storage

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
        if not await self._can_be_taken(offer):
            return await here(part)
        await self.shared.dispatch.offer(offer)
        try:
            return await self._over(part, here, offer, patience)
        except BaseException:  # whoever runs it lets go: its session does not run
            with anyio.CancelScope(shield=True), suppress(StorageError):
                await self._stop(part.task_id)
            raise

    async def _make(self, part: TaskCreated) -> None:
        if not await self._storage.events.of_task(part.task_id):
            await self._storage.create(part, self.shared.owners.me, opening_message(part))
        lease = await self._storage.leases.get(part.task_id)
        if lease is not None and lease.owner == self.shared.owners.me:
            await self._storage.leases.park(Fence(part.task_id, lease.token))

    async def _can_be_taken(self, offer: Offer) -> bool:
        """Whether a machine that lives has what it needs."""
        agents = {need for need in offer.needs if " " not in need}
        machines = await self.shared.dispatch.machines()
        return any(one.state == "alive" and agents <= set(one.agents) for one in machines)

    async def _over(
        self, part: TaskCreated, here: RunChild, offer: Offer, patience: float | None
    ) -> ResultRecord:
        seen, since = 0, anyio.current_time()
        while True:
            if (ended := await self._ended(part.task_id)) is not None:
                return ended
            if await self._is_run(part.task_id):
                since = anyio.current_time()
            elif await self._asks(part.task_id):
                if patience is not None and anyio.current_time() - since > patience:
                    stop = Stopped("question")
                    return ResultRecord(part.task_id, "waiting", stop.reason, "", 0, stop=stop)
            elif not await self._can_be_taken(offer):
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

    async def _is_run(self, task_id: str) -> bool:
        lease = await self._storage.leases.get(task_id)
        if lease is None or lease.state == "parked":
            return False
        return await self.shared.owners.living(lease.owner) is not None

    async def _stop(self, task_id: str) -> None:
        await self.shared.dispatch.hold(task_id)
        lease = await self._storage.leases.get(task_id)
        if lease is not None and lease.state != "parked":
            await self._storage.inbox.request(task_id, "stop", YOU, "")


def with_offers(services: RunServices, shared: SharedStore) -> RunServices:
    """The services of a run whose parts other machines may do."""
    name, offers = shared.machine, ChildOffers(shared)
    return replace(services, machine=name, blobs=shared.blobs, hand_out=offers)
