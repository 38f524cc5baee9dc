"""The lease rules: two owners never run agents for the same task at once, whatever happens.

Three machines, each with its own clock: the clocks show different times and run up to 4 % fast
or slow.  A machine may take any of its steps at any time or never, which is how pauses, lost
answers, partitions and restarts look from outside.  Only the keepers' kills are always on time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coterie.model.lease_clock import LeaseTimes, SilentOwners
from coterie.process.deadline import LeaseDeadline

TIMES = LeaseTimes(ttl=60.0, beat=5.0, soft=10.0, margin=5.0)
DRIFT = 0.04
"""The most that the margin allows: 1.04 / 0.96 < 65 / 60."""


@dataclass
class Row:
    beat: int = 0
    dead: bool = False


@dataclass
class World:
    """True time, plus what a store holds: a row for each owner, and the task's holder."""

    time: float = 0.0
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    holder: str = ""
    token: int = 0


@dataclass
class Machine:
    """One machine: its owner, its keepers, and what it has seen of the others."""

    world: World
    number: int
    rate: float
    offset: float
    life: int = 0
    sent: float | None = None
    """When the pending renewal was sent, by this machine's clock."""
    answer: bool | None = None
    """The store's answer to it, while it has not arrived yet."""
    read: dict[str, tuple[int, bool]] | None = None
    """What the store returned about the other owners, while it has not arrived yet."""
    asked: float = 0.0
    """When that was requested, by this machine's clock."""
    agent: bool = False

    def __post_init__(self) -> None:
        self.begin()

    def now(self) -> float:
        return self.offset + self.world.time * self.rate

    @property
    def me(self) -> str:
        return f"{self.number}.{self.life}"

    def begin(self) -> None:
        """Become a new owner: end the old one's agents first, only then mark it dead."""
        self.agent = False
        if self.me in self.world.rows:
            self.world.rows[self.me].dead = True
        self.life += 1
        self.world.rows[self.me] = Row()
        self.lease = LeaseDeadline([0, 0], TIMES.soft, self.now)
        self.lease.begin(self.now() + TIMES.ttl)
        self.silent = SilentOwners(TIMES)
        self.sent, self.answer, self.read = None, None, None

    def runs(self) -> bool:
        """Whether an agent is running: its keeper kills it at the lease deadline."""
        if self.agent and self.now() >= self.lease.deadline:
            self.agent = False
        return self.agent


numbers = st.integers(0, 2)


class Leases(RuleBasedStateMachine):
    """Any interleaving of the steps of three machines."""

    mistake = ""

    @initialize(
        rates=st.tuples(*[st.floats(1 - DRIFT, 1 + DRIFT)] * 3),
        offsets=st.tuples(*[st.floats(0, 1e6)] * 3),
    )
    def make(self, rates: tuple[float, ...], offsets: tuple[float, ...]) -> None:
        self.world = World()
        pairs = enumerate(zip(rates, offsets, strict=True))
        self.machines = [Machine(self.world, i, *pair) for i, pair in pairs]
        self.task_is_run(0)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 12.0, 31.0, 49.0, 59.0, 64.0, 65.0, 70.0, 90.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.world.time += seconds

    @rule(i=numbers)
    def renewal_is_sent(self, i: int) -> None:
        machine = self.machines[i]
        if not machine.lease.passed():
            machine.sent, machine.answer = machine.now(), None

    @rule(i=numbers)
    def renewal_arrives(self, i: int) -> None:
        machine, row = self.machines[i], self.world.rows[self.machines[i].me]
        if machine.sent is not None and machine.answer is None:
            machine.answer = not row.dead
            row.beat += not row.dead

    @rule(i=numbers)
    def answer_arrives(self, i: int) -> None:
        machine = self.machines[i]
        if machine.sent is None or machine.answer is None:
            return
        if machine.answer:
            sent = machine.now() if self.mistake == "deadline from the answer" else machine.sent
            machine.lease.extend(sent + TIMES.ttl)
        else:
            machine.lease.expire()
        machine.sent, machine.answer = None, None

    @rule(i=numbers)
    def store_is_asked(self, i: int) -> None:
        self.machines[i].asked = self.machines[i].now()

    @rule(i=numbers)
    def store_is_read(self, i: int) -> None:
        rows = self.world.rows.items()
        self.machines[i].read = {name: (row.beat, row.dead) for name, row in rows}

    @rule(i=numbers)
    def what_was_read_arrives(self, i: int) -> None:
        machine = self.machines[i]
        for name, (beat, dead) in (machine.read or {}).items():
            at = machine.asked if self.mistake == "waiting from the question" else machine.now()
            if name != machine.me and not dead and machine.silent.saw(name, beat, at):
                row, blind = self.world.rows[name], self.mistake == "no compare and set"
                row.dead = row.dead or row.beat == beat or blind
        machine.read = None

    @rule(i=numbers)
    def others_are_looked_at(self, i: int) -> None:
        self.store_is_asked(i)
        self.store_is_read(i)
        self.what_was_read_arrives(i)

    @rule(i=numbers)
    def lease_is_renewed(self, i: int) -> None:
        self.renewal_is_sent(i)
        self.renewal_arrives(i)
        self.answer_arrives(i)

    @rule(i=numbers)
    def task_is_run(self, i: int) -> None:
        self.task_is_claimed(i)
        self.agent_is_started(i)

    @rule(i=numbers)
    def task_is_claimed(self, i: int) -> None:
        machine, world = self.machines[i], self.world
        free = not world.holder or world.rows[world.holder].dead
        if free and not machine.lease.passed():
            world.holder, world.token = machine.me, world.token + 1

    @rule(i=numbers)
    def agent_is_started(self, i: int) -> None:
        machine = self.machines[i]
        if self.world.holder == machine.me and not machine.lease.passed():
            machine.agent = True

    @rule(i=numbers)
    def worker_restarts(self, i: int) -> None:
        self.machines[i].begin()

    @invariant()
    def never_two_agents(self) -> None:
        if hasattr(self, "machines"):
            assert sum(machine.runs() for machine in self.machines) <= 1


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=40, stateful_step_count=40)


NEAR_MISSES = {
    "deadline from the answer": [
        (0, "renewal_is_sent"),
        (0, "renewal_arrives"),
        (1, "others_are_looked_at"),
        49,
        (0, "answer_arrives"),
        (1, "lease_is_renewed"),
        17,
        (1, "others_are_looked_at"),
        (1, "task_is_run"),
    ],
    "waiting from the question": [
        (1, "store_is_asked"),
        49,
        (0, "lease_is_renewed"),
        (1, "store_is_read"),
        (1, "what_was_read_arrives"),
        (1, "lease_is_renewed"),
        17,
        (1, "others_are_looked_at"),
        (1, "task_is_run"),
    ],
    "no compare and set": [
        (1, "others_are_looked_at"),
        31,
        (1, "store_is_asked"),
        (1, "store_is_read"),
        (0, "lease_is_renewed"),
        (1, "lease_is_renewed"),
        40,
        (1, "what_was_read_arrives"),
        (1, "task_is_run"),
    ],
}


@pytest.mark.parametrize("mistake", NEAR_MISSES)
@pytest.mark.parametrize("is_made", [False, True])
def test_what_one_gets_wrong_is_two_agents_at_once(mistake: str, is_made: bool) -> None:
    leases = type("Tried", (Leases,), {"mistake": mistake if is_made else ""})()
    leases.make((1.0, 1.0, 1.0), (0.0, 500.0, 1000.0))
    for step in NEAR_MISSES[mistake]:
        if isinstance(step, int):
            leases.time_goes_by(float(step))
        else:
            getattr(leases, step[1])(step[0])
    assert sum(machine.runs() for machine in leases.machines) == 1 + is_made


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl": 0.0},
        {"beat": 50.0},
        {"soft": 60.0},
        {"soft": -1.0},
        {"margin": 0.0},
        {"look": 0.0},
    ],
)
def test_times_by_which_nobody_could_live_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="invalid lease times"):
        LeaseTimes(**wrong)


def test_an_owner_is_overdue_by_the_clock_of_whoever_looks_and_not_by_its_own() -> None:
    seen = SilentOwners(TIMES)
    assert [seen.saw("a", 7, at) for at in (1000.0, 1064.9, 1065.0)] == [False, False, True]
    assert [seen.saw("a", 8, at) for at in (1066.0, 1130.9, 1131.0)] == [False, False, True]
    seen.forget({"b"})
    assert not seen.saw("a", 8, 2000.0)
