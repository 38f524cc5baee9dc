"""Many machines on a virtual clock, with the real rules of leases and offers: how far it scales."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from bench.simulation.runs import Run
from bench.simulation.worker import Machine, Rules
from bench.simulation.world import Costs, Store, TaskState, World
from coterie.model.machine import Offer, queues_of

NEEDS = (("claude",), ("claude",), ("codex",), (), ("claude", "codex"))
HAVE = (("claude", "codex"), ("claude", "codex"), ("claude",))
TICK = 0.01
"""Resolution in seconds when measuring the length of an overlap."""


@dataclass(frozen=True)
class Scenario:
    """What to simulate."""

    workers: int
    tasks: int
    turns: int = 3
    drift: float = 0.05
    """How much faster the fastest clock runs than the slowest."""
    extremes: bool = False
    """Whether every clock runs at one of those two speeds."""
    faults: tuple[str, ...] = ("kill", "crash", "stop", "cut", "mute")
    fault_every: float = 1800.0
    """Average seconds between faults of one machine."""
    fault_length: float = 60.0
    """Average seconds that a fault lasts."""
    outages: tuple[tuple[float, float], ...] = ()
    """When the store is down, and for how long."""
    questions: float = 0.1
    """The share of turns that begin with a question."""
    costs: Costs = Costs()
    rules: Rules = Rules()
    seed: int = 1
    limit: float = 20_000.0


@dataclass
class Outcome:
    """The results."""

    seconds: float = 0.0
    ended: int = 0
    ended_twice: int = 0
    turns: int = 0
    agents: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    overlaps: list[float] = field(default_factory=list[float])
    """For how long two agents of one task ran at once, each time."""
    silent: list[float] = field(default_factory=list[float])
    """For how long each owner had been silent when another declared it dead."""
    too_late: int = 0
    """How many of them later than `ttl + margin` and two looks, by the clock of the machine that
    declared it, plus the time for which the store was down."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """How many requests the store received, by kind."""
    spent: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds of its cores, by kind of request."""
    slowest: float = 0.0

    @property
    def per_second(self) -> float:
        """Completed tasks per second."""
        return self.ended / self.seconds

    @property
    def busy(self) -> float:
        """How many of the store's cores were busy on average."""
        return sum(self.spent.values()) / self.seconds


class Simulation:
    """Runs a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World(scenario.seed)
        self.store = Store(self.world, scenario.costs)
        self.outcome = Outcome()
        self._agents: defaultdict[str, list[Run]] = defaultdict(list)
        self.machines = [self._machine(number) for number in range(scenario.workers)]

    def run(self) -> Outcome:
        """Run until everything has ended, or the time is up."""
        scenario, store, outcome = self.scenario, self.store, self.outcome
        for number, needs in zip(range(scenario.tasks), cycle(NEEDS), strict=False):
            self._offer(f"t{number}", needs)
        for machine in self.machines:
            self.world.after(self.world.random.random() * 5, machine.begin)
            self._next_fault(machine)
        for at, length in scenario.outages:
            self.world.at(at, self._down, True)
            self.world.at(at + length, self._down, False)
        self.world.run(lambda: store.ended == scenario.tasks, scenario.limit)
        outcome.seconds, outcome.ended = self.world.time, store.ended
        outcome.ended_twice = sum(task.ended > 1 for task in store.tasks.values())
        outcome.turns = sum(task.done for task in store.tasks.values())
        outcome.asked, outcome.spent, outcome.slowest = store.asked, store.spent, store.slowest
        times = scenario.rules.times
        away = max([0.0, *(length for _, length in scenario.outages)])
        if away > times.ttl - times.soft:  # all start over, and again wait for owners that do not
            away += times.ttl + times.margin
        for machine in self.machines:
            look = scenario.rules.look(scenario.workers)
            for seconds, rate in machine.declared:
                outcome.silent.append(seconds)
                late = (times.ttl + times.margin + 2 * look) / rate + 3 * store.slowest
                outcome.too_late += seconds > late + away
        return outcome

    def _machine(self, number: int) -> Machine:
        scenario, random = self.scenario, self.world.random
        # The fastest over the slowest is 1 + drift, centered on a correct clock.
        least, most = (1 + scenario.drift) ** -0.5, (1 + scenario.drift) ** 0.5
        rate = random.choice([least, most]) if scenario.extremes else random.uniform(least, most)
        name = f"m{number}"
        queues = queues_of("seat", HAVE[number % len(HAVE)], name)
        return Machine(
            self.world,
            self.store,
            scenario.rules,
            name,
            rate,
            tuple(queues),
            self._agent,
            offset=random.uniform(0, 1e6),
        )

    def _offer(self, task_id: str, needs: tuple[str, ...]) -> None:
        random, scenario = self.world.random, self.scenario
        asks = {turn for turn in range(scenario.turns) if random.random() < scenario.questions}
        self.store.tasks[task_id] = TaskState(scenario.turns, asks=asks)
        self.store.offers.offer(Offer(task_id, needs=needs))

    def _down(self, is_down: bool) -> None:
        self.store.is_down = is_down

    # -- never two agents ------------------------------------------------------------------------

    def _agent(self, run: Run) -> None:
        """Handle an agent that begins, or continues after a pause."""
        self.outcome.agents += 1
        others = [one for one in self._agents[run.task_id] if one is not run and one.has_agent]
        self._agents[run.task_id] = [*others, run]
        for other in others:
            self._together(run, other, 0.0)

    def _together(self, run: Run, other: Run, so_far: float) -> None:
        paused = run.machine.paused_at is not None or other.machine.paused_at is not None
        if not paused and run.has_agent and other.has_agent:
            self.world.after(TICK, self._together, run, other, so_far + TICK)
        elif so_far:
            self.outcome.overlaps.append(so_far)

    # -- faults ----------------------------------------------------------------------------------

    def _next_fault(self, machine: Machine) -> None:
        if self.scenario.faults:
            wait = self.world.random.expovariate(1 / self.scenario.fault_every)
            self.world.after(wait, self._fault, machine)

    def _fault(self, machine: Machine) -> None:
        kind = self.world.random.choice(self.scenario.faults)
        until = self.world.time + self.world.random.expovariate(1 / self.scenario.fault_length)
        self.outcome.faults[kind] += 1
        self._apply_fault(machine, kind, until)
        self.world.at(until, self._next_fault, machine)

    def _apply_fault(self, machine: Machine, kind: str, until: float) -> None:
        begun: dict[str, Callable[[], None]] = {
            "kill": lambda: machine.die(max(until, self.world.time + 2.0)),
            "crash": lambda: machine.die(until + 60.0, power=True),
            "stop": lambda: machine.stop(until),
            "pause": lambda: machine.pause(until),
            "pause, then cut": lambda: self._pause_and_cut(machine, until),
            "cut": lambda: self._line(machine, is_cut=True),
            "mute": lambda: self._line(machine, is_mute=True),
        }
        begun[kind]()
        if kind in ("cut", "mute"):
            self.world.at(until, self._line, machine)

    def _line(self, machine: Machine, is_cut: bool = False, is_mute: bool = False) -> None:
        machine.is_cut, machine.is_mute = is_cut, is_mute

    def _pause_and_cut(self, machine: Machine, until: float) -> None:
        machine.pause(until)
        machine.is_cut = True
        self.world.at(until + 120.0, self._line, machine)


def simulate(scenario: Scenario) -> Outcome:
    """Run a scenario."""
    return Simulation(scenario).run()
