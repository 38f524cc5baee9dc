"""The interfaces between processes, on one machine or several: who may run a task, who is dead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from coterie.errors import LeaseExpired

if TYPE_CHECKING:
    from coterie.model.journal import Fence
    from coterie.model.machine import (
        MachineRow,
        MachineView,
        Offer,
        OwnerFacts,
        OwnerRow,
        Pool,
        SentRef,
    )
    from coterie.model.remote import GitRemote


class Deadline(Protocol):
    """Until when this process's agents may run, in a memory page shared with their keepers."""

    @property
    def fd(self) -> int:
        """The descriptor of that page, for a keeper to inherit."""
        ...

    @property
    def soft(self) -> float:
        """How many seconds before the deadline agents are asked to end."""
        ...

    def passed(self) -> bool:
        """Whether nothing may be started or written any more; once true, it stays true."""
        ...


def require_lease(deadline: Deadline) -> None:
    """Raise LeaseExpired if the lease of this process is over."""
    if deadline.passed():
        raise LeaseExpired


class OwnerRows(Protocol):
    """Which processes own tasks, according to the store that several machines share.

    Uses its own connection.  Each call is one transaction, raises StorageError if the store
    cannot be reached, and may be cancelled: it is then unknown whether it took effect.
    """

    async def add(self, row: OwnerRow) -> None:
        """Add a new owner, whose id was never used before."""
        ...

    async def renew(self, owner: str) -> int | None:
        """Record a beat and return its number; None if the owner is dead or unknown."""
        ...

    async def get(self, owner: str) -> OwnerRow | None:
        """Return the row of an owner; rows are not removed while a lease names them."""
        ...

    async def living(self) -> list[OwnerRow]:
        """Return every owner that has not been declared dead."""
        ...

    async def declare_dead(self, owner: str, beat: int | None) -> bool:
        """Declare an owner dead if its beat is still this one (None: any beat); returns whether it
        was alive until then.  It can no longer be renewed."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


class Takeover(Protocol):
    """Decides whether an owner elsewhere that is only silent may be declared dead."""

    async def allows(self, row: OwnerRow, silent: float) -> bool:
        """Whether an owner may be declared dead after this many seconds of silence; may first make
        sure that it is dead, or ask somebody.  Called repeatedly until it may."""
        ...

    async def after_scan(self, living: Sequence[OwnerRow]) -> None:
        """Called after each look at the owners, with all that have not been declared dead."""
        ...


class Owners(Protocol):
    """This process as an owner of tasks, and what it can prove about the others."""

    @property
    def me(self) -> str:
        """The id of this process, assigned by `begin`; never used by any other process."""
        ...

    @property
    def deadline(self) -> Deadline | None:
        """When its agents end unless its lease is renewed; None if it holds a lock instead."""
        ...

    @property
    def death_ends_children(self) -> bool:
        """Whether an owner's proven death means that nothing it started is still running."""
        ...

    async def begin(self) -> str:
        """Become an owner and return the id; does nothing if this process already is one.

        Clears away what dead owners left behind and no lease names.
        """
        ...

    def holding(self, task_id: str) -> AbstractContextManager[None]:
        """Do one thing at a time with a task: its lease belongs to the whole process.

        Raises TaskBusy if this process is already using the task.
        """
        ...

    def proof(self, owner: str) -> AbstractAsyncContextManager[bool]:
        """Whether an owner is proven dead; if several processes learn so while the block runs, the
        token of a task decides who gets it.

        An owner that is only silent, or unknown, is not proven dead.
        """
        ...

    async def living(self, owner: str) -> OwnerFacts | None:
        """Return what is known of a living owner; None if it is dead."""
        ...

    async def facts(self, owner: str) -> OwnerFacts:
        """Return what is known of an owner, dead or alive."""
        ...

    async def end(self, *, clean: bool = True) -> None:
        """Stop being an owner, as this process runs nothing any more; does nothing if it never was.

        `clean`: everything that it started is proven gone.
        """
        ...


RunTask = Callable[[str], Awaitable[None]]
"""Runs the task with this id, as far as it can be run here."""


class Dispatch(Protocol):
    """Which tasks are on offer to machines, and the queue that hands them out.

    An offer is a hint, and may be handed out twice or late: only a task's lease decides who runs
    it.  Raises StorageError if the store cannot be reached.
    """

    async def offer(self, offer: Offer, at: str | None = None) -> None:
        """Offer a task to any machine that can run it, not before `at`.

        If it is on offer already, only `at` and its machine change, and refusals are forgotten.
        """
        ...

    async def get(self, task_id: str) -> Offer | None:
        """Return the offer of a task, in whatever state."""
        ...

    async def offered(self) -> Mapping[str, Offer]:
        """Return the open offers, by task id."""
        ...

    async def hold(self, task_id: str) -> None:
        """Withdraw the task from offer until its next event."""
        ...

    async def take(self, task_id: str, owner: str) -> Offer | None:
        """Take an offer; None if it is not open, or already taken."""
        ...

    async def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """Release a taken offer; `held`: withdraw it until the task's next event, unless there was
        one since it was taken."""
        ...

    async def defer(self, offer: Offer, owner: str, at: str | None = None) -> None:
        """Release a taken offer, to be taken again not before `at`, or in a few seconds."""
        ...

    async def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """Release a taken offer that a machine does not run: it is not handed out any more, but
        others find it with `refused_offers`, and this one gets it again after `clear_refusals`."""
        ...

    async def refused_offers(self, has: Sequence[str], machine: str) -> list[Offer]:
        """Return the offers that other machines refused but this one, which has what they need,
        did not."""
        ...

    async def clear_refusals(self, machine: str) -> None:
        """Forget what a machine refused, since something has changed there."""
        ...

    async def sweep(self) -> bool:
        """Queue open offers that are not queued, such as those a dead owner had taken; returns
        whether anything is on offer, now or later."""
        ...

    async def serve(
        self, pool: Pool, queues: Sequence[str], seats: int, run: RunTask, *, once: bool = False
    ) -> None:
        """Call `run` with each task that the queues hand out, `seats` at a time, until cancelled;
        `once`: until nothing is left.

        Runs that were started do not end with it: they are up to the caller.
        """
        ...

    async def announce(self, machine: MachineRow) -> None:
        """Publish what a machine is and has, for people."""
        ...

    async def machines(self) -> list[MachineView]:
        """Return every machine that was ever announced."""
        ...

    async def close(self) -> None:
        """Close what calls have opened."""
        ...


FindRemote = Callable[[], "GitRemote | None"]
"""Finds the repository that branches travel by; None: they travel in the store.  Reads files;
raises UsageError if there is no such remote, or the user has not agreed to it."""


class Sharing(Protocol):
    """What a running task exchanges with other machines; bound to its lease."""

    @property
    def machine(self) -> str:
        """The name of this machine in the store."""
        ...

    @property
    def for_others(self) -> bool:
        """Whether this machine runs the task on behalf of another: nothing of it is committed to
        the branch that is checked out here."""
        ...

    @property
    def token(self) -> int:
        """The token of the lease, unique to this holder."""
        ...

    async def remote(self) -> GitRemote | None:
        """Return the repository that branches travel by; None: they travel in the store."""
        ...

    async def put(self, data: bytes) -> str:
        """Store data for the task's session; returns its digest."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """Return the data with this digest; None if it is not stored."""
        ...

    async def set_ref(self, ref: SentRef) -> None:
        """Record where a branch of the session is now; raises LeaseLost."""
        ...

    async def refs(self) -> list[SentRef]:
        """Return every branch of the session that was sent."""
        ...

    async def set_file(self, path: str, digest: str) -> None:
        """Record what a file of the session holds now; raises LeaseLost."""
        ...

    async def files(self) -> Mapping[str, str]:
        """Return the digests of the session's files that were sent, by path."""
        ...


class Blobs(Protocol):
    """What machines exchange in addition to rows: bundles of commits, artifacts, keys."""

    async def put(self, session: str, data: bytes) -> str:
        """Store data for a session, once; returns its digest.  Raises StorageFull."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """Return the data with this digest; None if it is not stored."""
        ...

    async def session_key(self, session: str, proposed: bytes) -> bytes:
        """Return a session's signing key: the first one stored; `proposed` if there is none."""
        ...

    async def set_ref(self, fence: Fence, session: str, ref: SentRef) -> None:
        """Record where a branch of a session is now; raises LeaseLost if the token is old."""
        ...

    async def refs(self, session: str) -> list[SentRef]:
        """Return every branch of a session that was sent."""
        ...

    async def set_file(self, fence: Fence, session: str, path: str, digest: str) -> None:
        """Record what a file of a session holds now; raises LeaseLost if the token is old."""
        ...

    async def files(self, session: str) -> Mapping[str, str]:
        """Return the digests of a session's files that were sent, by path."""
        ...
