"""Every way in which a machine, its link or the database can fail, and what becomes of its task.

    python -m bench.chaos.faults FOLDER ROUNDS

Each machine runs a task; all are hit at once, and another machine takes over.  `run` starts this in
a network of its own, if one can be created.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

from bench.machines.links import Link, NamespaceLink, ProxyLink, in_own_network, listen_in_namespace
from bench.machines.machine import Machine, create_machine, make_repository, now, ticking
from bench.machines.tasks import OfferingMachine, RunInterval, last_token, overlap, runs_by_token
from coterie.model.lease_clock import LeaseTimes
from coterie.testing.postgres import Cluster, Databases, own_cluster

TIMES = LeaseTimes.of(6.0)
DATABASE_DOWN_SECONDS = 10.0
TIMEOUT = 120.0
"""For a busy machine: everything that is waited for should come much sooner."""
FROZEN, PAUSED = "frozen", "paused"
"""Machines that stand still, while their clock goes on or stands still too: their agents may run
for a moment when they wake up, before they end."""
WAKING = (FROZEN, PAUSED)
MACHINE_FAULTS = ("killed", "restarted", "gone", "stopped", "cut", "mute", *WAKING)
DATABASE = ("database restarted", "database crashed", "database away")
SUCCESSOR = "heir"


@dataclass
class FaultTally:
    """The results of a number of rounds."""

    rounds: int = 0
    namespaces: bool = False
    taken_over: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """By fault: seconds until the task's next agent ran."""
    overlaps: dict[str, float] = field(default_factory=dict[str, float])
    """By fault: for how many seconds two agents ran at once; below 0: how long there was none."""
    woken: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """By machine that stood still: for how many seconds its agents ran on when it woke up."""
    ended_agents: dict[str, int] = field(default_factory=dict[str, int])
    """By fault of the database: how many agents it ended."""
    wrong: list[str] = field(default_factory=list[str])

    def late(self) -> list[str]:
        """Return what took longer than allowed on a machine that has nothing else to do."""
        most = dict.fromkeys(MACHINE_FAULTS, TIMES.ttl + TIMES.margin + 2.0) | {"restarted": 3.5}
        ran_on = [
            f"{name}: ran on for {seconds:.1f} s"
            for name, all_seconds in self.woken.items()
            for seconds in all_seconds
            if seconds > TIMES.beat
        ]
        return ran_on + [
            f"{fault}: taken over after {seconds:.1f} s"
            for fault, all_seconds in self.taken_over.items()
            for seconds in all_seconds
            if fault in most and seconds > most[fault]
        ]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until others have made a condition true; raises TimeoutError."""
    late = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > late:
            raise TimeoutError(what)
        time.sleep(0.02)


class Faults:
    """One machine for every fault, and one that takes over from all of them."""

    def __init__(self, folder: Path, cluster: Cluster, *, namespaces: bool) -> None:
        self.tally = FaultTally(namespaces=namespaces)
        self._cluster = cluster
        self._folder = folder
        make_repository(folder)
        Databases(cluster.url()).create("faults")
        self._offering = OfferingMachine(folder, cluster.url("faults"), MACHINE_FAULTS, TIMES.ttl)
        self._machines = {
            name: self._machine(name, 10 + n) for n, name in enumerate(MACHINE_FAULTS)
        }
        self._successor = self._machine(SUCCESSOR, 9, *MACHINE_FAULTS)
        self._tasks: dict[str, str] = {}
        self._paused_at = 0.0

    def _machine(self, name: str, number: int, *agents: str) -> Machine:
        link: Link = (
            NamespaceLink(self._cluster, "faults", number)
            if self.tally.namespaces
            else ProxyLink(self._cluster, "faults")
        )
        has = agents or (name,)
        place = create_machine(self._folder, name, has, ticking(self._folder, 600))
        return Machine(place, link, has, 2 * len(has))

    def close(self) -> None:
        """Shut down all machines."""
        for machine in (*self._machines.values(), self._successor):
            machine.close()

    def round(self) -> None:
        """Hit every machine once, and the database in every way."""
        self._begin()
        for name, how in zip(DATABASE[:2], (signal.SIGINT, signal.SIGKILL), strict=True):
            self._restart_database(name, how)
        self._start(self._successor)
        self._hit()
        self._heal()
        self._away()
        self._finish()
        self.tally.rounds += 1

    def _start(self, machine: Machine) -> None:
        before = machine.state_count("ready")
        machine.start()
        wait_until(lambda: machine.state_count("ready") > before, f"{machine.name} is ready")

    def _begin(self) -> None:
        for machine in self._machines.values():
            if machine.worker is None:
                machine.start()
        made = anyio.run(self._offering.offer, MACHINE_FAULTS)
        self._tasks = dict(zip(MACHINE_FAULTS, made, strict=True))
        self._until_run_by(dict.fromkeys(MACHINE_FAULTS, 0), "every task runs")

    def _tokens(self) -> dict[str, int]:
        return {name: last_token(self._folder, task) for name, task in self._tasks.items()}

    def _until_run_by(self, before: dict[str, int], what: str) -> None:
        def left() -> list[str]:
            return [name for name, token in self._tokens().items() if token <= before[name]]

        try:
            wait_until(lambda: not left(), what)
        except TimeoutError:
            raise TimeoutError(f"{what}: not so {left()}") from None

    def _restart_database(self, name: str, how: signal.Signals) -> None:
        before = self._tokens()
        self._cluster.stop(how)
        self._cluster.start(settings(namespaces=self.tally.namespaces))
        ended = [name for name, token in self._tokens().items() if token > before[name]]
        self.tally.ended_agents[name] = self.tally.ended_agents.get(name, 0) + len(ended)

    def _hit(self) -> None:
        before, machines, at = self._tokens(), self._machines, dict[str, float]()
        hits: dict[str, Callable[[], None]] = {
            "killed": machines["killed"].kill,
            "gone": machines["gone"].power_off,
            "stopped": lambda: machines["stopped"].signal(signal.SIGSTOP),
            "cut": machines["cut"].link.cut,
            "mute": lambda: machines["mute"].link.cut(one_way=True),
            FROZEN: lambda: machines[FROZEN].ask("freeze"),
            PAUSED: lambda: machines[PAUSED].ask("freeze"),
            "restarted": machines["restarted"].kill,
        }
        for name, hit in hits.items():
            at[name] = now()
            hit()
        self._paused_at = at[PAUSED]
        machines["restarted"].start()
        self._until_run_by(before, "every task is taken over")
        for name, task in self._tasks.items():
            first = min(run.first for token, run in self._ran(task) if token > before[name])
            self.tally.taken_over.setdefault(name, []).append(round(first - at[name], 2))

    def _ran(self, task: str) -> list[tuple[int, RunInterval]]:
        return list(runs_by_token(self._folder, task).items())

    def _heal(self) -> None:
        """Heal machines that can recover: they find themselves declared dead, and start over."""
        machines = {name: self._machines[name] for name in ("stopped", "cut", "mute", *WAKING)}
        ready = {name: machine.state_count("ready") for name, machine in machines.items()}
        machines["stopped"].signal(signal.SIGCONT)
        before, woken = self._tokens(), dict[str, float]()
        machines[PAUSED].ask("put_off_deadlines", now() - self._paused_at)
        for name in WAKING:
            woken[name] = now()
            machines[name].ask("thaw")
        for name in ("cut", "mute"):
            machines[name].link.heal()
        for name, machine in machines.items():
            wait_until(
                lambda machine=machine, name=name: machine.state_count("ready") > ready[name],
                f"{name} starts over",
            )
            if left := machine.agents_running():
                self.tally.wrong.append(f"{name}: {left} agents left")
        for name in WAKING:
            ran = self._ran(self._tasks[name])
            last = max(run.last for token, run in ran if token < before[name])
            self.tally.woken.setdefault(name, []).append(round(max(0.0, last - woken[name]), 3))

    def _away(self) -> None:
        before, begun = self._tokens(), now()
        self._cluster.stop(signal.SIGINT)
        wait_until(lambda: not any(map(Machine.agents_running, self._alive())), "all agents end")
        time.sleep(max(0.0, begun + DATABASE_DOWN_SECONDS - now()))
        self._cluster.start(settings(namespaces=self.tally.namespaces))
        back = now()
        self._until_run_by(before, "all tasks resume once the database is back")
        took = max(last_run_began(self._folder, task) for task in self._tasks.values()) - back
        self.tally.taken_over.setdefault(DATABASE[2], []).append(round(took, 2))

    def _alive(self) -> list[Machine]:
        everyone = (*self._machines.values(), self._successor)
        return [machine for machine in everyone if machine.worker is not None]

    def _finish(self) -> None:
        (self._folder / "finish").touch()
        tasks = list(self._tasks.values())
        wait_until(lambda: not self._offering.unfinished(tasks), "every task ends")
        codes = {machine.name: machine.end() for machine in self._alive()}
        wrong = self.tally.wrong
        wrong += [f"{name} ended with {code}" for name, code in codes.items() if code]
        for machine in (*self._machines.values(), self._successor):
            wrong += [f"{machine.name}: left running: {left}" for left in machine.processes()]
            machine.link.heal()
        wrong += anyio.run(self._offering.problems, tasks)
        wrong += [
            f"{one.name} shows a stack trace"
            for one in self._machines.values()
            if one.has_traceback
        ]
        for name, task in self._tasks.items():
            if name in WAKING:
                continue
            found = overlap(runs_by_token(self._folder, task))
            self.tally.overlaps[name] = round(max(found, self.tally.overlaps.get(name, -99.0)), 3)
            if found > 0:
                wrong.append(f"{name}: two agents for {found:.3f} s")
        (self._folder / "finish").unlink()


def last_run_began(folder: Path, task: str) -> float:
    """Return when the last run of a task began."""
    return max(run.first for run in runs_by_token(folder, task).values())


def settings(*, namespaces: bool) -> dict[str, str]:
    """Return the PostgreSQL settings that let machines connect."""
    if namespaces:
        return {"listen_addresses": "*"}
    return {"authentication_timeout": "5s"}  # a proxy may leave half a connection behind


def run(folder: Path, rounds: int) -> FaultTally:
    """Run this many rounds, in a network of our own if one can be created."""
    prefix = in_own_network()
    words = [sys.executable, "-m", __name__, str(folder), str(rounds), str(len(prefix))]
    ran = subprocess.run([*prefix, *words], check=False, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        return FaultTally(wrong=[f"it ended with {ran.returncode}"])
    return FaultTally(**json.loads(ran.stdout))


def main(folder: Path, rounds: int, *, namespaces: bool) -> None:
    """Entry point of the process that `run` starts."""
    if namespaces:
        listen_in_namespace()
    with ExitStack() as stack:
        cluster = stack.enter_context(own_cluster(settings(namespaces=namespaces)))
        faults = Faults(folder, cluster, namespaces=namespaces)
        stack.callback(faults.close)
        try:
            for _ in range(rounds):
                faults.round()
        except TimeoutError as late:
            faults.tally.wrong.append(f"timed out waiting for: {late}")
    sys.stdout.write(json.dumps(asdict(faults.tally)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), namespaces=sys.argv[3] != "0")
