"""One task in one seat: taken, claimed, run turn by turn, put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.model.machine import Offer

if TYPE_CHECKING:
    from bench.simulation.worker import Machine, WorkerProcess


class Run:
    """What a worker does with a job from the queue."""

    def __init__(self, machine: Machine, process: WorkerProcess, job: int) -> None:
        self.machine = machine
        self.process = process
        self.job = job
        self.task_id = machine.store.offers.task_of(job)
        self.offer: Offer | None = None
        self.token = 0
        self.agent = False
        """Whether an agent was started and has not ended by itself."""

    @property
    def has_agent(self) -> bool:
        """Whether its agent is alive at this moment, in true time."""
        machine, process = self.machine, self.process
        if not self.agent or machine.world.time >= process.reaped_at:
            return False
        return machine.now() < process.lease.deadline

    def take(self) -> None:
        """Take the offer."""
        self._ask("take", lambda: self._offers.take(self.task_id, self.process.id), self._taken)

    def _taken(self, offer: Offer | None) -> None:
        self.offer = offer
        if offer is None:
            self._over()
            return
        tokens: list[int | None] = []

        def claim() -> int | None:  # sent again, it is the same commit
            tokens[:] = tokens or [self._store.claim(self.task_id, self.process.id)]
            return tokens[0]

        self._commit(claim, self._claimed)

    def _claimed(self, token: int | None) -> None:
        assert self.offer is not None
        if token is None:
            offer = self.offer
            self._let_go(lambda: self._offers.defer(offer, self.process.id))
            return
        self.token = token
        self._next_turn()

    def _next_turn(self) -> None:
        task, process = self._store.tasks[self.task_id], self.process
        if process.lease.passed():
            return  # nothing is started; the renewal handles the rest
        if task.done in task.asks:
            self._ask_user(task.done)
            return
        self.agent = True
        self.machine.on_agent(self)
        seconds = self.machine.world.random.expovariate(1 / self.machine.rules.turn)
        self.machine.world.after(seconds, self._turn_over, task.done)

    def _turn_over(self, number: int) -> None:
        """Handle the end of an agent, unless it was killed before."""
        if not self.has_agent:
            return
        if self.machine.paused_at is not None:
            self.machine.world.after(1.0, self._turn_over, number)
            return
        self.agent = False
        self.machine._receive(self.process, self._close, number)

    def _close(self, number: int) -> None:
        def effect() -> bool:
            task = self._store.tasks[self.task_id]
            if not self._store.holds(self.task_id, self.token):
                return False
            if task.done == number:
                task.done += 1
                if task.done == task.turns:
                    self._store.end(self.task_id)
            return True

        self._commit(effect, self._closed)

    def _closed(self, kept: bool) -> None:
        if not kept:  # the task's lease is lost: so is ours, as the next renewal will say
            self.process.lease.expire()
        elif self._store.tasks[self.task_id].ended:
            self._over()
        else:
            self._next_turn()

    def _ask_user(self, number: int) -> None:
        """Park the task with a question, which is answered at once or later."""

        def effect() -> bool:
            task = self._store.tasks[self.task_id]
            if not self._store.holds(self.task_id, self.token):
                return False
            if number in task.asks:
                task.asks.discard(number)
                task.is_run = False
                world = self.machine.world
                seconds = world.random.choice([0.0, 0.01, 5.0, 60.0])
                world.after(seconds, self.machine.store.answered, self.task_id)
            return True

        self._commit(effect, self._asked)

    def _asked(self, kept: bool) -> None:
        if not kept:
            self.process.lease.expire()
            return
        offer = self.offer
        assert offer is not None
        self._let_go(lambda: self._offers.put_back(offer, self.process.id, held=True))

    # -- the store -------------------------------------------------------------------------------

    @property
    def _store(self) -> Any:
        return self.machine.store

    @property
    def _offers(self) -> Any:
        return self.machine.store.offers

    def _ask(self, kind: str, effect: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        self.machine.ask(kind, effect, answer, self._storage_error)

    def _commit(self, effect: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        """Retry until it is known to be stored, or the lease is over; it is stored only once."""

        def again() -> None:
            if not self.process.lease.passed():
                self.machine.ask("commit", effect, answer, again)

        again()

    def _let_go(self, effect: Callable[[], None]) -> None:
        def done(_: object) -> None:
            self._over()

        self._ask("put back", effect, done)

    def _storage_error(self) -> None:
        """Put the task back in case we have it: nobody knows what became of the request."""
        offer = self.offer or Offer(self.task_id)
        self._let_go(lambda: self._offers.put_back(offer, self.process.id))

    def _over(self) -> None:
        self._offers.finish(self.job)
        self.machine.finished(self)
