"""A machine with a worker on it, behaving like `LeasedOwners`, the keepers and `app/worker.py`.

The rules are the real ones: `LeaseDeadline` and `SilentOwners` on this machine's own clock, and
`MemoryOffers` for what is on offer.  Agents ignore SIGTERM: they end when they are done, or when
their keeper kills them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.simulation.runs import Run
from bench.simulation.world import Store, World
from coterie.model.lease_clock import LeaseTimes, SilentOwners
from coterie.process.deadline import LeaseDeadline

JOB_TIMEOUT = 30.0
"""Seconds without a sign from its queue worker after which a job is queued again."""
RETRY_DELAY = 1.0
"""Seconds before an unreachable store is tried again."""
KEEPER_DELAY = 0.5
"""Seconds after the death of a worker in which its keepers end its agents."""


@dataclass(frozen=True)
class Rules:
    """The adjustable parameters."""

    times: LeaseTimes = LeaseTimes()
    seats: int = 2
    turn: float = 30.0
    """Average seconds that a turn takes."""
    poll: float = 5.0
    """Seconds between unprompted polls of the queue, for each pool."""
    pause: float = 0.02
    """Seconds until a machine sweeps after a change of the store, at most, multiplied by the number
    of machines; 0: a fixed time, however many there are."""
    most_looks: float = 1e9
    """How many looks at the others all machines together may make in a second."""

    def sweeps(self, machines: int, seconds: float, changes: int) -> int:
        """Return the number of sweeps in this time, given how often others changed the store."""
        most = min(1.0, self.pause * machines) if self.pause else 0.02
        return int(max(seconds, min(changes, seconds / (0.05 + max(0.02, most / 2)))))

    def look(self, machines: int) -> float:
        """Return the seconds between two looks at so many machines."""
        return max(self.times.look, min(self.times.beat, machines / self.most_looks))


@dataclass(eq=False)
class WorkerProcess:
    """One owner, from its start."""

    id: str
    lease: LeaseDeadline
    silent: SilentOwners
    runs: set[Run] = field(default_factory=set[Run])
    jobs: set[int] = field(default_factory=set[int])
    """Jobs that the queue has handed to it, whether or not it knows."""
    looks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=100))
    """When the store was read, and when the result arrived by our clock."""
    reaped_at: float = float("inf")
    """When its agents were ended because the owner itself died."""


@dataclass(eq=False)
class Machine:
    """A machine with a clock of its own, which runs too fast or too slow."""

    world: World
    store: Store
    rules: Rules
    name: str
    rate: float
    queues: tuple[str, ...]
    on_agent: Callable[[Run], None]
    offset: float = 0.0
    process: WorkerProcess | None = None
    process_count: int = 0
    is_cut: bool = False
    is_mute: bool = False
    is_off: bool = False
    is_stopped: bool = False
    paused_at: float | None = None
    declared: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Deaths that it declared: the silence before each, in true time, and its own clock rate."""
    _stood_still: float = 0.0
    _late: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(
        default_factory=list[tuple[Callable[..., None], tuple[Any, ...]]]
    )
    _jobs: int = 1_000_000
    _polling: bool = False
    _seen_commits: int = 0
    _poll_at: float = 0.0

    # -- time ------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return its clock's time, which stands still while the host has paused the machine."""
        time = self.world.time if self.paused_at is None else self.paused_at
        return self.offset + self.rate * (time - self._stood_still)

    def after(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        """Schedule a call after a delay by its own clock."""
        self.world.after(max(0.0, seconds) / self.rate, call, *args)

    # -- faults ----------------------------------------------------------------------------------

    def die(self, until: float, *, power: bool = False) -> None:
        """Kill the worker, or with `power` everything on the machine; restart it at `until`."""
        process, self.process, self.is_off = self.process, None, True
        if process is not None:
            process.reaped_at = self.world.time + (0.0 if power else KEEPER_DELAY)
        self._late.clear()
        self._set_jobs(self.rules.seats)
        self._forget_jobs(process)
        self.world.at(until, self._start, process)

    def _start(self, before: WorkerProcess | None) -> None:
        self.is_off = False
        self.begin(before)

    def pause(self, until: float) -> None:
        """Pause the machine as its host would: none of its clocks move."""
        if self.paused_at is None and not self.is_stopped:
            self.paused_at = self.world.time
            self.world.at(until, self._resume)

    def _resume(self) -> None:
        assert self.paused_at is not None
        self._stood_still += self.world.time - self.paused_at
        self.paused_at = None
        for run in list(self.process.runs if self.process else ()):
            if run.agent:
                self.on_agent(run)
        self._catch_up()

    def stop(self, until: float) -> None:
        """Send SIGSTOP to the worker: its keepers and agents go on."""
        if self.paused_at is None and not self.is_stopped:
            self.is_stopped = True
            self.world.at(until, self._go_on)

    def _go_on(self) -> None:
        self.is_stopped = False
        self._catch_up()

    def _catch_up(self) -> None:
        late, self._late = self._late, []
        for call, args in late:
            self.world.after(0.0, call, *args)

    # -- the store -------------------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        """Whether its worker does nothing."""
        return self.is_stopped or self.paused_at is not None

    def ask(
        self,
        kind: str,
        effect: Callable[[], Any],
        answer: Callable[[Any], None],
        lost: Callable[[], None],
    ) -> None:
        """Send the store a request; its result goes to `answer`, or `lost` if it is unknown."""
        process = self.process
        if self.is_cut or self.store.is_down:
            self.world.after(RETRY_DELAY, self._receive, process, lost)
            return
        done = self.store.serve(kind, self.store.cost(kind))
        self.world.at(done, self._served, process, effect, answer, lost)

    def _served(
        self,
        process: WorkerProcess | None,
        effect: Callable[[], Any],
        answer: Callable[[Any], None],
        lost: Callable[[], None],
    ) -> None:
        result = effect()
        self.store.notify_idle()
        if self.is_cut or self.is_mute or self.store.is_down:
            self.world.after(RETRY_DELAY, self._receive, process, lost)
        else:
            self._receive(process, answer, result)

    def _receive(
        self, process: WorkerProcess | None, call: Callable[..., None], *args: Any
    ) -> None:
        if self.process is not process or self.is_off:
            return
        if self.is_frozen:
            self._late.append((self._receive, (process, call, *args)))
        else:
            call(*args)

    # -- its own lease ---------------------------------------------------------------------------

    def begin(self, before: WorkerProcess | None = None) -> None:
        """Become an owner, and declare the previous one dead, whose agents are."""
        if self.is_off or self.process is not None:
            return
        if self.is_frozen or self.is_cut or self.is_mute or self.store.is_down:
            self.world.after(RETRY_DELAY, self.begin, before)
            return
        self.process_count += 1
        process = WorkerProcess(
            f"{self.name}.{self.process_count}",
            LeaseDeadline([0, 0], self.rules.times.soft, self.now),
            SilentOwners(self.rules.times),
        )
        self.process, sent = process, self.now()
        self._polling = False

        def begun(_: object) -> None:
            process.lease.begin(sent + self.rules.times.ttl)
            self._set_jobs(0)
            if before is not None:
                dead = before.id
                self.ask(
                    "renew",
                    lambda: self.store.declare_dead(dead, None),
                    _ignore_result,
                    _ignore_loss,
                )
            self.after(self.rules.times.beat, self._renew, process)
            self.after(self.world.random.random() * self.rules.times.look, self._maintain, process)

        self.ask(
            "renew", lambda: self.store.add(process.id), begun, lambda: self._begin_again(before)
        )

    def _begin_again(self, before: WorkerProcess | None) -> None:
        self.process = None
        self.begin(before)

    def _renew(self, process: WorkerProcess) -> None:
        if self.process is not process or self.is_off:
            return
        if self.is_frozen:
            self._late.append((self._renew, (process,)))
            return
        if process.lease.passed():
            self._over(process)
            return
        sent = self.now()

        def answer(lives: bool) -> None:
            if not lives:
                process.lease.expire()  # another machine has declared us dead
            elif self.now() - sent < self.rules.times.beat:
                process.lease.extend(sent + self.rules.times.ttl)
            later()

        def later() -> None:
            soft = 0.0 if process.lease.passed() else process.lease.deadline - process.lease.soft
            self.after(min(sent + self.rules.times.beat, soft) - self.now(), self._renew, process)

        self.ask("renew", lambda: self.store.renew(process.id), answer, later)

    def _over(self, process: WorkerProcess) -> None:
        """Handle the end of the lease: nothing more is written, and what runs is ended."""
        self.process = None
        declared_dead = self.now() < process.lease.deadline - process.lease.soft
        for run in process.runs:
            if declared_dead:
                run.agent = False  # we end it ourselves; otherwise its keeper does, at the deadline
        self._set_jobs(self.rules.seats)
        self._forget_jobs(process)
        self.after(max(0.0, process.lease.deadline - self.now()) + RETRY_DELAY, self.begin, process)

    # -- the others ------------------------------------------------------------------------------

    def _maintain(self, process: WorkerProcess) -> None:
        """Look at the others, sweep, and poll the queue; then schedule the next time."""
        if self.process is not process or self.is_off:
            return
        if self.is_frozen:
            self._late.append((self._maintain, (process,)))
            return
        look = self.rules.look(len(self.store.owners))
        if self.is_cut or self.store.is_down:
            self.after(look, self._maintain, process)
            return
        store = self.store
        done = store.serve("look", store.cost("look"))
        commits = store.asked["commit"] - self._seen_commits
        self._seen_commits += commits
        sweeps = self.rules.sweeps(len(store.owners), look, commits)
        done = max(done, store.serve("sweep", store.cost("sweep"), sweeps))
        if self.world.time >= self._poll_at:  # the pool for sessions, which has no jobs here
            self._poll_at = self.world.time + self.rules.poll
            done = max(done, store.serve("poll", store.cost("poll")))
        process.looks.append((done, self.now() + self.rate * (done - self.world.time)))
        self.world.at(done, self._looked, process)
        if self._jobs < self.rules.seats:
            self.poll()
        self.after(look + self.rate * (done - self.world.time), self._maintain, process)

    def _looked(self, process: WorkerProcess) -> None:
        """Handle the results.  A silent owner counts as seen at every look since its last beat."""
        self.store.offers.sweep()
        self.store.notify_idle()
        if self.process is not process or self.is_mute or self.is_frozen or self.is_off:
            return
        for owner, row in self.store.silent(self.rules.times.ttl / 2):
            if owner == process.id:
                continue
            first = next((mine for read, mine in process.looks if read >= row.beat_at), self.now())
            process.silent.saw(owner, row.beat, first)
            if process.silent.saw(owner, row.beat, self.now()):
                self._declare(owner, row.beat)

    def _declare(self, owner: str, beat: int) -> None:
        silent_for = self.world.time - self.store.owners[owner].beat_at

        def declared(was: bool) -> None:
            if was:
                self.declared.append((silent_for, self.rate))
                self.ask("sweep", self.store.offers.sweep, _ignore_result, _ignore_loss)

        self.ask("renew", lambda: self.store.declare_dead(owner, beat), declared, _ignore_loss)

    # -- work ------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Ask the queue for a job if a seat is free."""
        if self.process is None or self._polling or self._jobs >= self.rules.seats:
            return
        self._polling = True

        def fetched(job: int | None) -> None:
            self._polling = False
            if job is not None and self.process is not None:
                self._set_jobs(self._jobs + 1)
                run = Run(self, self.process, job)
                self.process.runs.add(run)
                run.take()
                self.poll()

        def lost() -> None:
            self._polling = False

        process, kind = self.process, "fetch" if self.store.offers.has(self.queues) else "poll"
        self.ask(kind, lambda: self._fetched(process), fetched, lost)

    def _fetched(self, process: WorkerProcess | None) -> int | None:
        """Return a job; one handed to a machine that is gone is lost until a sweep detects it."""
        job = self.store.offers.fetch(self.queues)
        if job is None or process is None:
            return None
        process.jobs.add(job)
        if self.is_cut or self.is_mute or self.process is not process:
            self.world.after(JOB_TIMEOUT, self.store.offers.finish, job)
            return None
        return job

    def finished(self, run: Run) -> None:
        """Free a seat."""
        run.process.runs.discard(run)
        run.process.jobs.discard(run.job)
        if self.process is run.process:
            self._set_jobs(self._jobs - 1)
            self.poll()

    def _set_jobs(self, jobs: int) -> None:
        seats = self.rules.seats
        self.store.idle += (jobs < seats) - (self._jobs < seats)
        self._jobs = jobs

    def _forget_jobs(self, process: WorkerProcess | None) -> None:
        """Let the queue detect that its worker gives no sign any more."""
        for job in process.jobs if process else ():
            self.world.after(JOB_TIMEOUT, self.store.offers.finish, job)


def _ignore_result(_: object) -> None: ...


def _ignore_loss() -> None: ...
