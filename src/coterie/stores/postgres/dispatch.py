"""`ports.Dispatch`: offers in a table of ours, handed out by procrastinate.

The queue has a job for every offer that is open, due and not taken; it may lose a job, or have it
twice.  It lives in the schema `dispatch`, known only to this module and to the one that creates
that schema.  Each call has a connection to itself, and one is kept for the next call: connecting
costs the server more than all the queries.
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
from coterie.ports import RunTask
from coterie.stores.postgres.failures import explained
from coterie.stores.postgres.queue_schema import QUEUE_SCHEMA
from coterie.stores.postgres.store_url import SCHEMA, StoreUrl

_JOB = "coterie.run"
_POLL = 5.0
"""How often the queue is polled without a notification, in seconds: it notifies of every job, and
polling reads all jobs that are for other machines."""
_RECONNECT_DELAY = 1.0
"""How soon an unreachable queue is tried again, in seconds."""
_STALLED = 30.0
"""A job whose queue worker has sent no heartbeat for this many seconds is queued again."""
_SEARCH = 15.0
"""How often a process searches for jobs that the queue has lost, in seconds; it reads all jobs."""
_RETRY_DELAY = "5 seconds"
"""How soon an offer that a machine could not take may be handed out again."""

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
_RELEASE = "UPDATE offers SET taker = NULL, job = NULL{} WHERE task_id = %s AND taker = %s"
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
_REFUSED = """
SELECT task_id, pool, needs, machine, woken, refused, taker FROM offers
WHERE state = 'open' AND taker IS NULL AND refused <> '{}' AND (due IS NULL OR due <= now())
    AND coalesce(machine, %(machine)s) = %(machine)s
    AND NOT jsonb_exists(refused::jsonb, %(machine)s) AND needs::jsonb <@ %(has)s::jsonb
ORDER BY task_id
"""
_CLEAR_REFUSALS = """
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
    """The offers and the queue in a store."""

    store: StoreUrl
    search: float = _SEARCH
    _app: App = field(init=False)
    _idle: list[Connection] = field(default_factory=list[Connection])
    _searched: float = -inf

    def __post_init__(self) -> None:
        # The log output is for the libraries' own developers; what matters to a user is raised.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)
        self._app = App(
            connector=PsycopgConnector(
                conninfo=self._conninfo, min_size=0, max_size=4, max_idle=5.0
            )
        )

    @property
    def _conninfo(self) -> str:
        return self.store.with_path(QUEUE_SCHEMA, SCHEMA)

    async def offer(self, offer: Offer, at: str | None = None) -> None:
        """The job is queued in one transaction with the offer."""
        needs = json.dumps(sorted(offer.needs))
        async with self._transaction() as connection:
            row = (offer.task_id, offer.pool, needs, offer.machine, at)
            await connection.execute(_OFFER, row)
            await self._queue(connection)

    async def get(self, task_id: str) -> Offer | None:
        """In any state."""
        async with self._transaction() as connection:
            return _offer(await (await connection.execute(_GET, [task_id])).fetchone())

    async def offered(self) -> Mapping[str, Offer]:
        """Only the open offers."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_OFFERED)).fetchall()
        return {row["task_id"]: offer for row in rows if (offer := _offer(row))}

    async def hold(self, task_id: str) -> None:
        """If a job is already queued, it will find nothing to take."""
        async with self._transaction() as connection:
            await connection.execute(_HOLD, [task_id])

    async def take(self, task_id: str, owner: str) -> Offer | None:
        """If several owners are handed an offer, only one takes it."""
        async with self._transaction() as connection:
            return _offer(await (await connection.execute(_TAKE, [owner, task_id])).fetchone())

    async def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """With `held`, the offer stays open if an answer has arrived since it was taken."""
        state = ", state = CASE WHEN woken = %s THEN 'held' ELSE state END" if held else ""
        await self._release(offer, owner, state, *([offer.woken] if held else []))

    async def defer(self, offer: Offer, owner: str, at: str | None = None) -> None:
        """The delay ends as soon as something happens to the task."""
        due = "%s::timestamptz" if at else f"now() + interval '{_RETRY_DELAY}'"
        change = f", due = CASE WHEN woken = %s THEN {due} END"
        await self._release(offer, owner, change, offer.woken, *([at] if at else []))

    async def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """Not queued again: the machine would refuse it again until somebody changes something
        there, and no queue addresses all machines but one."""
        change = ", refused = (refused::jsonb || jsonb_build_object(%s::text, %s::text))::text"
        await self._release(offer, owner, change, machine, why.replace("\0", ""))

    async def refused_offers(self, has: Sequence[str], machine: str) -> list[Offer]:
        """Found by a query, as no queue holds these offers."""
        values = {"has": json.dumps(list(has)), "machine": machine}
        async with self._transaction() as connection:
            rows = await (await connection.execute(_REFUSED, values)).fetchall()
        return [offer for row in rows if (offer := _offer(row))]

    async def clear_refusals(self, machine: str) -> None:
        """Offers that no other machine refused are queued again."""
        async with self._transaction() as connection:
            await connection.execute(_CLEAR_REFUSALS, {"machine": machine})
            await self._queue(connection)

    async def _release(self, offer: Offer, owner: str, change: str, *values: object) -> None:
        async with self._transaction() as connection:
            text = _RELEASE.format(change)
            await connection.execute(text.encode(), [*values, offer.task_id, owner])
            await self._queue(connection)

    async def sweep(self) -> bool:
        """Queue what is not queued, and from time to time what the queue has lost."""
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
            row = await (await connection.execute(_OPEN)).fetchone()
            return bool(row and row["open"])

    async def _remove_stalled(self) -> None:
        jobs = self._app.job_manager
        stalled = partial(jobs.get_stalled_jobs, seconds_since_heartbeat=_STALLED)
        for job in await self._call_queue(stalled):
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
        self, pool: Pool, queues: Sequence[str], seats: int, run: RunTask, *, once: bool = False
    ) -> None:
        """Run a queue worker, and restart it when it ends: it ends when the database is out of
        reach for half a minute, and running tasks must not end with it."""
        asyncio.get_running_loop().set_exception_handler(_ignore_queue_errors)
        while True:
            with suppress(ProcrastinateException, psycopg.Error, PoolTimeout):
                connector = PsycopgConnector(conninfo=self._conninfo, min_size=1, max_size=4)
                app = App(connector=connector)
                app.task(name=_JOB)(job_function(run))
                async with app.open_async():
                    await app.run_worker_async(
                        queues=queues,
                        concurrency=seats,
                        name=pool,
                        wait=not once,
                        fetch_job_polling_interval=_POLL,
                        delete_jobs="always",
                        install_signal_handlers=False,
                        shutdown_graceful_timeout=0.1,
                    )
                if once:
                    return
            await anyio.sleep(_RECONNECT_DELAY)

    async def announce(self, machine: MachineRow) -> None:
        """Insert or update the machine's row."""
        row = (machine.name, json.dumps(machine.agents), machine.seats, machine.root_commit)
        details = (machine.version, machine.seen, machine.allows_full)
        async with self._transaction() as connection:
            await connection.execute(_ANNOUNCE, (*row, *details))

    async def machines(self) -> list[MachineView]:
        """Every machine that has run a worker with this store."""
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
        """Close the connections that calls have opened."""
        while self._idle:
            await self._idle.pop().close()
        with suppress(ProcrastinateException, psycopg.Error):
            await self._app.close_async()

    async def _call_queue(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            await self._app.open_async()
            return await call()
        except (ProcrastinateException, psycopg.Error, PoolTimeout) as error:
            raise StorageError(self.store.shown, f"The queue cannot be used: {error}") from None

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Connection]:
        try:
            connection = await self._begun()
            try:
                yield connection
                await connection.execute("COMMIT")
            except BaseException:
                await connection.close()  # whatever is in progress on it
                raise
        except ProcrastinateException as error:
            raise StorageError(self.store.shown, f"The queue cannot be used: {error}") from None
        except psycopg.Error as error:
            raise explained(self.store, error) from None
        self._idle.append(connection)
        while len(self._idle) > 1:
            await self._idle.pop().close()

    async def _begun(self) -> Connection:
        """Return a connection with an open transaction; kept ones that were cut are discarded."""
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


def _ignore_queue_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Silence asyncio tasks that a queue worker leaves behind when it ends without its database:
    the next sweep finds their jobs."""
    error = context.get("exception")
    is_left = "task" in context and error is None  # garbage-collected while waiting
    if not is_left and not isinstance(error, ProcrastinateException | psycopg.Error | PoolTimeout):
        loop.default_exception_handler(context)


def job_function(run: RunTask) -> Callable[..., Awaitable[None]]:
    """Return the function that the queue calls with the arguments of a job."""

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
