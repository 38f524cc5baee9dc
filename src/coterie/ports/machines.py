"""The seams between processes, on one machine or several: who may run a task, and who is dead."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from coterie.errors import LeaseExpired

if TYPE_CHECKING:
    from coterie.model.machine import OwnerFacts, OwnerRow


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
        """Whether an owner is proven dead; of those that ask while the block runs, one is told so.

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
