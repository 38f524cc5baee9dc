"""A storage without a file, with every promise of `ports.Storage`: fences, order, refusal.

Two `MemoryStorage` on one `MemoryDatabase` stand for two processes in one project.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from coterie.errors import LeaseLost
from coterie.model import instant
from coterie.model.envelope import Envelope
from coterie.model.interaction import Question
from coterie.model.journal import AppendEvent, ChildLease, Fence, Lease, Request, Step, Turn, Write
from coterie.model.journal import RequestKind as Kind
from coterie.model.message import Message
from coterie.model.task import Event, IllegalEvent, TaskCreated, TaskRow, UserInteractionResponded
from coterie.model.ticket import Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.stores.projection import audit_row, chained
from coterie.testing.memory_tables import Tables

T = TypeVar("T")
Work = Callable[[Tables], T]
After = Callable[[], None] | None

RIDE = 0.005
"""How long a posted write waits for a commit to ride in, as in the real store."""


class MemoryDatabase:
    """What would be on disk, and the storages that have it open."""

    def __init__(self) -> None:
        self.tables: Tables = Tables()
        self.opened: list[MemoryStorage] = []


class MemoryStorage:
    """One process's view of a database in memory; implements `ports.Storage`."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        self._database = database or MemoryDatabase()
        self._database.opened.append(self)
        self._posted: list[tuple[Work[object], Fence | None, After]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._told = False
        self._closed = False
        self._version = 1
        self._waiters: set[asyncio.Event] = set()
        self.events: _Events = _Events(self)
        self.audit: _Audit = _Audit(self)
        self.conversation: _Conversation = _Conversation(self)
        self.journal: _Journal = _Journal(self)
        self.tickets: _Tickets = _Tickets(self)
        self.inbox: _Inbox = _Inbox(self)
        self.leases: _Leases = _Leases(self)

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        return await self.submit(lambda tables: tables.create(event, owner, opening))

    async def commit(self, fence: Fence | None, *writes: Write, after: After = None) -> None:
        await self.submit(lambda tables: tables.apply(writes), fence, after)

    def post(self, fence: Fence | None, *writes: Write, after: After = None) -> None:
        self.queue(lambda tables: tables.apply(writes), fence, after)

    async def changed(self, seen: int) -> int:
        while self._version <= seen:
            woken = asyncio.Event()
            self._waiters.add(woken)
            try:
                await woken.wait()
            finally:
                self._waiters.discard(woken)
        return self._version

    async def member_states(self, task_id: str) -> list[tuple[str, str, str, str]]:
        tables = await self.read()
        return [
            (write.member, write.state, write.reason, write.since)
            for _, write in sorted(tables.member_states.items())
            if write.task_id == task_id
        ]

    async def close(self) -> None:
        self._flush()
        self._let_go()
        if self._failure is not None and not self._told:
            raise self._failure

    def crash(self) -> None:
        """Die as a process does: what was only queued is lost."""
        self._posted.clear()
        self._let_go()

    # -- for the parts -------------------------------------------------------------------------

    async def submit(
        self, work: Work[T], fence: Fence | None = None, after: After = None, *, wakes: bool = False
    ) -> T:
        """Run the work as one transaction, after all that was posted."""
        self._flush()
        self._refuse_if_done()
        try:
            result = self._run(work, fence, after)
        except LeaseLost as error:
            self._failure, self._told = error, True
            raise
        if wakes:
            self._bump()
        await asyncio.sleep(0)
        return result

    def queue(self, work: Work[object], fence: Fence | None = None, after: After = None) -> None:
        """Run the work with the next submission, or soon."""
        self._refuse_if_done()
        self._posted.append((work, fence, after))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RIDE, self._flush)

    async def read(self) -> Tables:
        """What is there, with all that was posted; not to be changed."""
        if self._closed:
            raise RuntimeError("the storage is closed")
        self._flush()
        await asyncio.sleep(0)
        return self._database.tables

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        posted, self._posted = self._posted, []
        for work, fence, after in posted:
            if self._failure is not None:
                return
            try:
                self._run(work, fence, after)
            except (LeaseLost, ValueError) as error:
                self._failure = error

    def _run(self, work: Work[T], fence: Fence | None, after: After) -> T:
        tables = self._database.tables.copy()
        if fence is not None:
            tables.check(fence)
        result = work(tables)
        self._database.tables = tables
        if after is not None:
            asyncio.get_running_loop().call_soon(after)
        for other in self._database.opened:
            if other is not self:
                other._bump()
        return result

    def _bump(self) -> None:
        self._version += 1
        for waiter in self._waiters:
            waiter.set()

    def _refuse_if_done(self) -> None:
        if self._closed:
            raise RuntimeError("the storage is closed")
        if self._failure is not None:
            self._told = True
            raise self._failure

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._closed = True
        if self in self._database.opened:
            self._database.opened.remove(self)


class _Part:
    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage


class _Events(_Part):
    async def of_task(self, task_id: str) -> list[Event]:
        tables = await self._storage.read()
        return [event for event in tables.events if event.task_id == task_id]

    async def tasks(self) -> list[TaskRow]:
        return list((await self._storage.read()).tasks.values())

    async def head(self) -> tuple[int, str]:
        tables = await self._storage.read()
        return len(tables.events), tables.head.hex()


class _Audit(_Part):
    async def of_task(self, task_id: str) -> list[AuditEntry]:
        tables = await self._storage.read()
        return [entry for entry in tables.audit if entry.task_id == task_id]

    async def all(self) -> list[AuditEntry]:
        return list((await self._storage.read()).audit)

    async def chain(self) -> list[ChainedEntry]:
        found: list[ChainedEntry] = []
        previous = b""
        for place, entry in enumerate((await self._storage.read()).audit, 1):
            before, previous = previous, chained(previous, audit_row(place, entry))
            found.append(ChainedEntry(place, before.hex(), previous.hex(), entry))
        return found


class _Conversation(_Part):
    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        return list((await self._storage.read()).messages.get(task_id, ())[after:])

    async def thread(self, thread: str) -> list[str]:
        return list((await self._storage.read()).threads.get(thread, ()))


class _Journal(_Part):
    async def steps(self, task_id: str) -> list[Step]:
        tables = await self._storage.read()
        return [step for step in tables.steps.values() if step.task_id == task_id]

    async def turns(self, task_id: str) -> list[Turn]:
        tables = await self._storage.read()
        return [turn for turn in tables.turns.values() if turn.task_id == task_id]

    async def spending(self, since: str = "") -> list[Turn]:
        turns = (await self._storage.read()).turns.values()
        spent = [turn for turn in turns if turn.usage and turn.opened_at >= since]
        return sorted(spent, key=lambda turn: (turn.opened_at, turn.task_id))


class _Tickets(_Part):
    async def tickets(self, session_id: str) -> list[Ticket]:
        tables = await self._storage.read()
        return [ticket for key, ticket in tables.tickets.items() if key[0] == session_id]

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        said = (await self._storage.read()).envelopes.get(session_id, ())
        return list(enumerate(said, 1))[after:]


class _Inbox(_Part):
    async def allocate(self) -> str:
        return await self._storage.submit(lambda tables: tables.next_question())

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        asked = (await self._storage.read()).questions.values()
        return [question for question in asked if question.state == "open" or not only_open]

    async def question(self, interaction_id: str) -> Question | None:
        return (await self._storage.read()).questions.get(interaction_id)

    async def respond(self, event: Event) -> bool:
        if not isinstance(event, UserInteractionResponded):
            raise IllegalEvent(f"{event.type} is no answer")

        def answer(tables: Tables) -> bool:
            if not tables.is_open(event):
                return False
            tables.apply((AppendEvent(event),))
            return True

        return await self._storage.submit(answer, wakes=True)

    async def request(self, task_id: str, kind: Kind, author: str, text: str) -> int:
        at = instant.now()
        return await self._storage.submit(
            lambda tables: tables.request(task_id, kind, author, text, at), wakes=True
        )

    async def requests(self, task_id: str) -> list[Request]:
        words = (await self._storage.read()).requests.values()
        return [word for word in words if word.task_id == task_id]

    async def discard_requests(self, task_id: str, kinds: Sequence[Kind]) -> None:
        await self._storage.submit(lambda tables: tables.discard_requests(task_id, kinds))


class _Leases(_Part):
    async def get(self, task_id: str) -> Lease | None:
        return (await self._storage.read()).leases.get(task_id)

    async def all(self) -> list[Lease]:
        return [lease for _, lease in sorted((await self._storage.read()).leases.items())]

    async def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        return await self._storage.submit(lambda tables: tables.claim(task_id, owner, seen))

    async def confirm(self, fence: Fence) -> bool:
        return await self._storage.submit(lambda tables: tables.confirm(fence))

    async def park(self, fence: Fence) -> None:
        await self._storage.submit(lambda tables: tables.park(fence))

    async def record_child(self, fence: Fence, child: ChildLease) -> None:
        await self._storage.submit(lambda tables: tables.record_child(child), fence)

    def set_child_pid(self, mark: str, pid: int) -> None:
        self._storage.queue(lambda tables: tables.set_child_pid(mark, pid))

    def drop_child(self, mark: str) -> None:
        self._storage.queue(lambda tables: tables.children.pop(mark, None))

    async def children(self, task_id: str | None = None) -> list[ChildLease]:
        found = (await self._storage.read()).children.values()
        return sorted(
            (child for child in found if task_id in (None, child.task_id)),
            key=lambda child: (child.started_at, child.mark),
        )
