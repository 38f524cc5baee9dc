"""`ports.Dispatch`: offers in a table of ours, handed out by procrastinate.

The queue has a job for every offer that is open and due and that nobody has in hand; it may lose
one, or have it twice.  It lives in the schema `dispatch`; this file alone, and what makes that
schema, know of it.  A call has a connection to itself, and one is kept for the next call: to
connect costs the server more than all that is asked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, TypeVar

import anyio
import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ProcrastinateException
from procrastinate.jobs import Status
from psycopg.rows import DictRow, dict_row
from psycopg_pool import PoolTimeout

from coterie.errors import StorageError
from coterie.model.machine import MachineRow, MachineView, Offer, Pool
from coterie.stores.postgres.failures import explained
from coterie.stores.postgres.place import SCHEMA, Place
from coterie.stores.postgres.queue_schema import QUEUE_SCHEMA

_JOB = "coterie.run"
_POLL = 5.0
"""How often the queue is looked at without being told to, in seconds: it tells of every job, and a
look reads all jobs that are for others."""
_AWAY = 1.0
"""How soon a queue that is out of reach is tried again, in seconds."""
_STALLED = 30.0
"""A job whose queue worker has given no sign for so long, in seconds, is queued anew."""
_SEARCH = 15.0
"""How often one process looks for jobs that the queue has lost, in seconds; it looks at all."""
_AGAIN = "5 seconds"
"""How soon a machine that could not take an offer may be asked again."""

T = TypeVar("T")
Connection = psycopg.AsyncConnection[DictRow]

_OFFER = """
INSERT INTO offers (task_id, pool, needs, machine, state, due)
VALUES (%s, %s, %s, %s, 'open', %s::timestamptz)
ON CONFLICT (task_id) DO UPDATE SET state = 'open', due = EXCLUDED.due, woken = offers.woken + 1,
    machine = EXCLUDED.machine, refused = '{}',
    job = CASE WHEN EXCLUDED.due IS NULL
        AND offers.machine IS NOT DISTINCT FROM EXCLUDED.machine THEN offers.job END
"""
_OFFERED = (
    "SELECT task_id, pool, needs, machine, woken, refused, taker FROM offers WHERE state = 'open'"
)
_GET = "SELECT task_id, pool, needs, machine, woken, refused, taker FROM offers WHERE task_id = %s"
_TAKE = """
UPDATE offers SET taker = %s WHERE task_id = %s AND state = 'open' AND taker IS NULL
    AND (due IS NULL OR due <= now())
RETURNING task_id, pool, needs, machine, woken, refused, taker
"""
_LET_GO = "UPDATE offers SET taker = NULL, job = NULL{} WHERE task_id = %s AND taker = %s"
_HOLD = "UPDATE offers SET state = 'held', job = NULL WHERE task_id = %s"
_GIVE_BACK = """
UPDATE offers SET taker = NULL, job = NULL
WHERE taker IN (SELECT id FROM owners WHERE dead)
"""
_LOST = """
UPDATE offers SET job = NULL WHERE taker IS NULL AND job IS NOT NULL AND NOT EXISTS (
    SELECT FROM dispatch.procrastinate_jobs WHERE id = offers.job AND status IN ('todo', 'doing'))
"""
_UNQUEUED = """
SELECT task_id, pool, needs, machine, woken, refused, taker FROM offers
WHERE state = 'open' AND job IS NULL AND taker IS NULL AND (due IS NULL OR due <= now())
    AND refused = '{}'
FOR UPDATE SKIP LOCKED
"""
_LEFT_OVER = """
SELECT task_id, pool, needs, machine, woken, refused, taker FROM offers
WHERE state = 'open' AND taker IS NULL AND refused <> '{}' AND (due IS NULL OR due <= now())
    AND coalesce(machine, %(machine)s) = %(machine)s
    AND NOT jsonb_exists(refused::jsonb, %(machine)s) AND needs::jsonb <@ %(has)s::jsonb
ORDER BY task_id
"""
_ASK_ANEW = """
UPDATE offers SET refused = (refused::jsonb - %(machine)s)::text
WHERE refused <> '{}' AND jsonb_exists(refused::jsonb, %(machine)s)
"""
_OPEN = "SELECT EXISTS (SELECT FROM offers WHERE state = 'open') AS open"
_ANNOUNCE = """
INSERT INTO machines (name, agents, seats, root_commit, version, seen, allows_full)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE SET agents = EXCLUDED.agents, seats = EXCLUDED.seats,
    root_commit = EXCLUDED.root_commit, version = EXCLUDED.version, seen = EXCLUDED.seen,
    allows_full = EXCLUDED.allows_full
"""
_MACHINES = """
SELECT name, agents, seats, machines.version, seen, allows_full,
    EXISTS (SELECT FROM owners WHERE machine = name AND NOT dead) AS alive,
    ARRAY(SELECT task_id::text FROM leases JOIN owners ON owners.id = leases.owner
        WHERE owners.machine = name AND NOT dead AND leases.state <> 'parked' ORDER BY task_id
    ) AS running
FROM machines ORDER BY name
"""


@dataclass
class PostgresDispatch:
    """The offers and the queue in the store at a place."""

    place: Place
    search: float = _SEARCH
    _app: App = field(init=False)
    _idle: list[Connection] = field(default_factory=list[Connection])
    _searched: float = -inf

    def __post_init__(self) -> None:
        # What it has to say is for its own developers; what matters to a user is raised.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)
        self._app = App(
            connector=PsycopgConnector(
                conninfo=self._conninfo, min_size=0, max_size=4, max_idle=5.0
            )
        )

    @property
    def _conninfo(self) -> str:
        return self.place.with_path(QUEUE_SCHEMA, SCHEMA)

    async def offer(self, offer: Offer, at: str | None = None) -> None:
        """Queued in one transaction with the offer."""
        needs = json.dumps(sorted(offer.needs))
        async with self._transaction() as connection:
            row = (offer.task_id, offer.pool, needs, offer.machine, at)
            await connection.execute(_OFFER, row)
            await self._queue(connection)

    async def get(self, task_id: str) -> Offer | None:
        """In whatever state."""
        async with self._transaction() as connection:
            return _offer(await (await connection.execute(_GET, [task_id])).fetchone())

    async def offered(self) -> Mapping[str, Offer]:
        """Those that are open."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_OFFERED)).fetchall()
        return {row["task_id"]: found for row in rows if (found := _offer(row))}

    async def hold(self, task_id: str) -> None:
        """Its job, if there is one, finds nothing to take."""
        async with self._transaction() as connection:
            await connection.execute(_HOLD, [task_id])

    async def take(self, task_id: str, owner: str) -> Offer | None:
        """One of several that are handed it has it."""
        async with self._transaction() as connection:
            return _offer(await (await connection.execute(_TAKE, [owner, task_id])).fetchone())

    async def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """An answer that came meanwhile has opened it again, whatever we saw."""
        state = ", state = CASE WHEN woken = %s THEN 'held' ELSE state END" if held else ""
        await self._let_go(offer, owner, state, *([offer.woken] if held else []))

    async def put_off(self, offer: Offer, owner: str, at: str | None = None) -> None:
        """Unless something happens before that."""
        due = "%s::timestamptz" if at else f"now() + interval '{_AGAIN}'"
        change = f", due = CASE WHEN woken = %s THEN {due} END"
        await self._let_go(offer, owner, change, offer.woken, *([at] if at else []))

    async def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """What it refused once it refuses again, until somebody does something about it; and no
        queue is for all machines but one."""
        change = ", refused = (refused::jsonb || jsonb_build_object(%s::text, %s::text))::text"
        await self._let_go(offer, owner, change, machine, why.replace("\0", ""))

    async def left_over(self, has: Sequence[str], machine: str) -> list[Offer]:
        """Looked for, for want of a queue."""
        given = {"has": json.dumps(list(has)), "machine": machine}
        async with self._transaction() as connection:
            rows = await (await connection.execute(_LEFT_OVER, given)).fetchall()
        return [found for row in rows if (found := _offer(row))]

    async def ask_anew(self, machine: str) -> None:
        """What nobody else refused is queued again."""
        async with self._transaction() as connection:
            await connection.execute(_ASK_ANEW, {"machine": machine})
            await self._queue(connection)

    async def _let_go(self, offer: Offer, owner: str, change: str, *values: object) -> None:
        async with self._transaction() as connection:
            text = _LET_GO.format(change)
            await connection.execute(text.encode(), [*values, offer.task_id, owner])
            await self._queue(connection)

    async def sweep(self) -> bool:
        """Queue what is not, and now and then what is no more."""
        at = time.monotonic()
        searches = at - self._searched >= self.search
        if searches:
            await self._remove_stalled()
        async with self._transaction() as connection:
            await connection.execute(_GIVE_BACK)
            if searches:
                await connection.execute(_LOST)
                self._searched = at
            await self._queue(connection)
            found = await (await connection.execute(_OPEN)).fetchone()
            return bool(found and found["open"])

    async def _remove_stalled(self) -> None:
        jobs = self._app.job_manager
        stalled = partial(jobs.get_stalled_jobs, seconds_since_heartbeat=_STALLED)
        for job in await self._asked(stalled):
            with suppress(ProcrastinateException):
                await jobs.finish_job(job, Status.FAILED, delete_job=True)

    async def _queue(self, connection: Connection) -> None:
        for row in await (await connection.execute(_UNQUEUED)).fetchall():
            offer = _offer(row)
            assert offer is not None
            deferred = self._app.configure_task(_JOB, queue=offer.queue, connection=connection)
            job = await deferred.defer_async(task_id=offer.task_id)
            text = "UPDATE offers SET job = %s WHERE task_id = %s"
            await connection.execute(text, [job, offer.task_id])

    async def serve(
        self,
        pool: Pool,
        queues: Sequence[str],
        seats: int,
        run: Callable[[str], Awaitable[None]],
        *,
        until_empty: bool = False,
    ) -> None:
        """A worker of the queue, started anew where it ends: it does so where the database is away
        for half a minute, and what runs must not end with that."""
        asyncio.get_running_loop().set_exception_handler(_unheard)
        while True:
            with suppress(ProcrastinateException, psycopg.Error, PoolTimeout):
                connector = PsycopgConnector(conninfo=self._conninfo, min_size=1, max_size=4)
                app = App(connector=connector)
                app.task(name=_JOB)(run_with(run))
                async with app.open_async():
                    await app.run_worker_async(
                        queues=queues,
                        concurrency=seats,
                        name=pool,
                        wait=not until_empty,
                        fetch_job_polling_interval=_POLL,
                        delete_jobs="always",
                        install_signal_handlers=False,
                        shutdown_graceful_timeout=0.1,
                    )
                if until_empty:
                    return
            await anyio.sleep(_AWAY)

    async def announce(self, machine: MachineRow) -> None:
        """The row of the machine."""
        row = (machine.name, json.dumps(machine.agents), machine.seats, machine.root_commit)
        said = (machine.version, machine.seen, machine.allows_full)
        async with self._transaction() as connection:
            await connection.execute(_ANNOUNCE, (*row, *said))

    async def machines(self) -> list[MachineView]:
        """Those that ran a worker here."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_MACHINES)).fetchall()
        return [
            MachineView(
                name=row["name"],
                state="alive" if row["alive"] else "dead",
                agents=tuple(json.loads(row["agents"])),
                seats=row["seats"],
                running=tuple(row["running"]),
                version=row["version"],
                seen=row["seen"],
                allows_full=row["allows_full"],
            )
            for row in rows
        ]

    async def close(self) -> None:
        """Let go of what calls have opened."""
        while self._idle:
            await self._idle.pop().close()
        with suppress(ProcrastinateException, psycopg.Error):
            await self._app.close_async()

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            await self._app.open_async()
            return await call()
        except (ProcrastinateException, psycopg.Error, PoolTimeout) as error:
            raise StorageError(self.place.shown, f"The queue cannot be used: {error}") from None

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Connection]:
        try:
            connection = await self._begun()
            try:
                yield connection
                await connection.execute("COMMIT")
            except BaseException:
                await connection.close()  # whatever is under way in it
                raise
        except ProcrastinateException as error:
            raise StorageError(self.place.shown, f"The queue cannot be used: {error}") from None
        except psycopg.Error as error:
            raise explained(self.place, error) from None
        self._idle.append(connection)
        while len(self._idle) > 1:
            await self._idle.pop().close()

    async def _begun(self) -> Connection:
        """A connection with an open transaction; one that was cut since its last use is none."""
        while True:
            kept = self._idle.pop() if self._idle else None
            connection = kept or await Connection.connect(
                self._conninfo, autocommit=True, row_factory=dict_row
            )
            try:
                await connection.execute("BEGIN")
            except BaseException as error:
                await connection.close()
                if kept is None or not isinstance(error, psycopg.OperationalError):
                    raise
            else:
                return connection


def _unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say nothing of tasks that a worker of the queue leaves behind where it is ended without its
    database: what they had in hand is found by whoever sweeps."""
    error = context.get("exception")
    is_left = "task" in context and error is None  # collected while it waited
    if not is_left and not isinstance(error, ProcrastinateException | psycopg.Error | PoolTimeout):
        loop.default_exception_handler(context)


def run_with(run: Callable[[str], Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """What the queue calls with the arguments of a job."""

    async def called(task_id: str) -> None:
        await run(task_id)

    return called


def _offer(row: DictRow | None) -> Offer | None:
    if row is None:
        return None
    return Offer(
        row["task_id"],
        row["pool"],
        tuple(json.loads(row["needs"])),
        row["machine"],
        row["woken"],
        json.loads(row["refused"]),
        row["taker"],
    )
