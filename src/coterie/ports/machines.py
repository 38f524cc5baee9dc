"""The seams between processes, on one machine or several: who may run a task, and who is dead."""

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
    """Until when agents of this process may run, in a page of memory that their keepers share."""

    @property
    def fd(self) -> int:
        """The file of that page, for a keeper to inherit."""
        ...

    @property
    def soft(self) -> float:
        """How many seconds before it agents are asked to end."""
        ...

    def passed(self) -> bool:
        """Whether nothing may be started or written any more; once it is so, it stays so."""
        ...


def require_lease(deadline: Deadline) -> None:
    """Raise LeaseExpired where the lease of this process is over."""
    if deadline.passed():
        raise LeaseExpired


class OwnerRows(Protocol):
    """Which processes own tasks, as the store of several machines knows it.

    Uses a connection of its own.  Each call is one transaction, raises StorageError where the
    store cannot be reached, and may be cancelled: then nobody knows whether it took place.
    """

    async def add(self, row: OwnerRow) -> None:
        """A new owner; its id was never used before."""
        ...

    async def renew(self, owner: str) -> int | None:
        """Give a beat: its number, or None of an owner that is dead or not known."""
        ...

    async def get(self, owner: str) -> OwnerRow | None:
        """What is known of an owner; rows are not removed while a lease names them."""
        ...

    async def living(self) -> list[OwnerRow]:
        """Every owner that nobody has declared dead."""
        ...

    async def declare_dead(self, owner: str, beat: int | None) -> bool:
        """Say that an owner is dead, if its beat is still this one (None: whatever it is); whether
        it was alive until then.  From then on it cannot be renewed."""
        ...

    def close(self) -> None:
        """Let go of its connections."""
        ...


class Takeover(Protocol):
    """Whether an owner elsewhere that is only silent may be declared dead."""

    async def allows(self, row: OwnerRow, silent: float) -> bool:
        """Whether it may, after so many seconds; sees to it that it is dead where that can be
        done, or has somebody asked.  Called again and again while it may not."""
        ...

    async def looked(self, living: Sequence[OwnerRow]) -> None:
        """These are all that nobody has declared dead."""
        ...


class Owners(Protocol):
    """This process as an owner of tasks, and what it can prove of the others."""

    @property
    def me(self) -> str:
        """The id of this process, which no other has or had; `begin` gives it."""
        ...

    @property
    def deadline(self) -> Deadline | None:
        """When its agents end unless its lease is renewed; None where it lives by a lock."""
        ...

    @property
    def death_ends_children(self) -> bool:
        """Whether nothing that an owner started runs anywhere once its death is proven."""
        ...

    async def begin(self) -> str:
        """Be an owner from now on, and say under which id; nothing happens where it is one.

        What dead owners left behind, and no lease names, is cleared away.
        """
        ...

    def holding(self, task_id: str) -> AbstractContextManager[None]:
        """Do one thing at a time with a task: its lease is the whole process's.

        Raises TaskBusy where this process is at it already.
        """
        ...

    def proof(self, owner: str) -> AbstractAsyncContextManager[bool]:
        """Whether an owner is proven dead; where more than one is told so while the block runs, the
        token of a task decides who gets it.

        An owner that is only silent, or not known, is not.
        """
        ...

    async def living(self, owner: str) -> OwnerFacts | None:
        """What is known of an owner that lives; None of a dead one."""
        ...

    async def facts(self, owner: str) -> OwnerFacts:
        """What is known of an owner, dead or alive."""
        ...

    async def end(self, *, clean: bool = True) -> None:
        """This process runs nothing any more; nothing happens where it never was an owner.

        `clean`: all that it started is proven gone.
        """
        ...


class Dispatch(Protocol):
    """Which tasks are on offer to machines, and the queue that hands them out.

    An offer is a hint, and may be handed out twice or late: who runs a task is decided by its lease
    alone.  Raises StorageError where the store cannot be reached.
    """

    async def offer(self, offer: Offer, at: str | None = None) -> None:
        """Have a task run by whichever machine can, not before `at`.

        Where it is on offer already, only `at` and its machine are new, and all are asked anew.
        """
        ...

    async def get(self, task_id: str) -> Offer | None:
        """The offer of a task, in whatever state."""
        ...

    async def offered(self) -> Mapping[str, Offer]:
        """By task: the offers that are open."""
        ...

    async def hold(self, task_id: str) -> None:
        """Have nobody take it before something happens that is to be looked at."""
        ...

    async def take(self, task_id: str, owner: str) -> Offer | None:
        """Have an offer in hand; None where it is none, or in another's."""
        ...

    async def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """Let go of an offer in hand; `held`: not to be taken before something happens, unless it
        has happened since it was taken."""
        ...

    async def put_off(self, offer: Offer, owner: str, at: str | None = None) -> None:
        """The same, but nobody is to take it before `at`, or for a few seconds."""
        ...

    async def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """The same for what a machine does not run: nobody is handed it from then on, but others
        find it among what is left over, and this one when it is asked anew."""
        ...

    async def left_over(self, has: Sequence[str], machine: str) -> list[Offer]:
        """What others refused, and this machine, which has all of that, has not: it may take it."""
        ...

    async def ask_anew(self, machine: str) -> None:
        """Forget what a machine refused: something there is not as it was."""
        ...

    async def sweep(self) -> bool:
        """Queue what is to be run and is not queued, such as what a dead owner had in hand; whether
        anything is on offer that may be taken now or later."""
        ...

    async def serve(
        self,
        pool: Pool,
        queues: Sequence[str],
        seats: int,
        run: Callable[[str], Awaitable[None]],
        *,
        until_empty: bool = False,
    ) -> None:
        """Call `run` with each task that the queues hand out, `seats` at a time, until it is
        cancelled or nothing is left.

        What it called is not ended with it: that is the caller's.
        """
        ...

    async def announce(self, machine: MachineRow) -> None:
        """Say what a machine is and has, for people."""
        ...

    async def machines(self) -> list[MachineView]:
        """Every machine that was announced."""
        ...

    async def close(self) -> None:
        """Let go of what calls have opened."""
        ...


FindRemote = Callable[[], "GitRemote | None"]
"""The repository that branches travel by; None: they travel in the store.  Reads files; raises
UsageError where there is none, or one that the user has not agreed to."""


class Sharing(Protocol):
    """What a running task sends to other machines, and gets from them; bound to its lease."""

    @property
    def machine(self) -> str:
        """What this machine is called in the store."""
        ...

    @property
    def for_others(self) -> bool:
        """Whether this machine only works for whoever asked for the task: nothing of it is
        committed to the branch that is checked out here."""
        ...

    @property
    def token(self) -> int:
        """Of the lease, which no other holder of it has."""
        ...

    async def remote(self) -> GitRemote | None:
        """The repository that branches travel by; None: they travel in the store."""
        ...

    async def put(self, data: bytes) -> str:
        """Keep something for the task's session; its digest."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """What has this digest; None where nothing is kept."""
        ...

    async def set_ref(self, ref: SentRef) -> None:
        """Say where a branch of the session is now; raises LeaseLost."""
        ...

    async def refs(self) -> list[SentRef]:
        """Every branch of the session that was sent."""
        ...

    async def set_file(self, path: str, digest: str) -> None:
        """Say what a file of the session holds now; raises LeaseLost."""
        ...

    async def files(self) -> Mapping[str, str]:
        """By path: the digests of the session's files that were sent."""
        ...


class Blobs(Protocol):
    """What goes from machine to machine beside rows: bundles of commits, artifacts, keys."""

    async def put(self, session: str, data: bytes) -> str:
        """Keep it for a session, once; its digest.  Raises StorageFull."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """What has this digest; None where nothing is kept."""
        ...

    async def session_key(self, session: str, made: bytes) -> bytes:
        """What a session is signed with: what was kept first, for which `made` is a proposal."""
        ...

    async def set_ref(self, fence: Fence, session: str, ref: SentRef) -> None:
        """Say where a branch of a session is now; raises LeaseLost where the token is old."""
        ...

    async def refs(self, session: str) -> list[SentRef]:
        """Every branch of a session that was sent."""
        ...

    async def set_file(self, fence: Fence, session: str, path: str, digest: str) -> None:
        """Say what a file of a session holds now; raises LeaseLost where the token is old."""
        ...

    async def files(self, session: str) -> Mapping[str, str]:
        """By path: the digests of a session's files that were sent."""
        ...
