"""Every way in which a machine, its line or the database can fail, and what becomes of its task.

    python -m bench.chaos.faults FOLDER ROUNDS

Each machine runs a task; all are hit at once, and another machine takes over.  Started by `run` in
a network of its own, where that may be made.
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
from bench.machines.machine import Machine, furnish, make_repository, now, ticking
from bench.machines.tasks import Alive, Desk, last_token, overlap, ticks
from coterie.model.lease_clock import LeaseTimes
from coterie.testing.postgres import Cluster, Databases, own_cluster

TIMES = LeaseTimes.of(6.0)
AWAY = 10.0
PATIENCE = 120.0
"""For a busy machine: whatever is waited for comes much sooner."""
FROZEN, PAUSED = "frozen", "paused"
"""Machines that stand still, and a clock of theirs that goes on, or stands still too: their agents
may run for a moment when they wake, before they end."""
WAKING = (FROZEN, PAUSED)
ROWS = ("killed", "restarted", "gone", "stopped", "cut", "mute", *WAKING)
DATABASE = ("database restarted", "database crashed", "database away")
HEIR = "heir"


@dataclass
class FaultTally:
    """What a number of rounds came to."""

    rounds: int = 0
    namespaces: bool = False
    taken_over: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """By fault: seconds until the next agent of the task ran."""
    overlaps: dict[str, float] = field(default_factory=dict[str, float])
    """By fault: for how many seconds two agents ran at once; below 0: how long there was none."""
    woken: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """By machine that stood still: for how many seconds its agents ran on when it woke."""
    disturbed: dict[str, int] = field(default_factory=dict[str, int])
    """By what befell the database: how many agents were ended by it."""
    wrong: list[str] = field(default_factory=list[str])

    def late(self) -> list[str]:
        """What took longer than it may, on a machine that has nothing else to do."""
        most = dict.fromkeys(ROWS, TIMES.ttl + TIMES.margin + 2.0) | {"restarted": 3.5}
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


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that others do."""
    late = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > late:
            raise TimeoutError(what)
        time.sleep(0.02)


class Faults:
    """One machine for every fault, and one that takes over from all."""

    def __init__(self, folder: Path, cluster: Cluster, *, namespaces: bool) -> None:
        self.tally = FaultTally(namespaces=namespaces)
        self._cluster = cluster
        self._folder = folder
        make_repository(folder)
        Databases(cluster.url()).create("faults")
        self._desk = Desk(folder, cluster.url("faults"), ROWS, TIMES.ttl)
        self._machines = {name: self._machine(name, 10 + n) for n, name in enumerate(ROWS)}
        self._heir = self._machine(HEIR, 9, *ROWS)
        self._tasks: dict[str, str] = {}
        self._paused_at = 0.0

    def _machine(self, name: str, number: int, *agents: str) -> Machine:
        link: Link = (
            NamespaceLink(self._cluster, "faults", number)
            if self.tally.namespaces
            else ProxyLink(self._cluster, "faults")
        )
        has = agents or (name,)
        place = furnish(self._folder, name, has, ticking(self._folder, 600))
        return Machine(place, link, has, 2 * len(has))

    def close(self) -> None:
        """End all machines."""
        for machine in (*self._machines.values(), self._heir):
            machine.close()

    def round(self) -> None:
        """Hit every machine once, and the database in every way."""
        self._begin()
        for name, how in zip(DATABASE[:2], (signal.SIGINT, signal.SIGKILL), strict=True):
            self._restart_database(name, how)
        self._start(self._heir)
        self._hit()
        self._heal()
        self._away()
        self._finish()
        self.tally.rounds += 1

    def _start(self, machine: Machine) -> None:
        before = machine.told("ready")
        machine.start()
        until(lambda: machine.told("ready") > before, f"{machine.name} is ready")

    def _begin(self) -> None:
        for machine in self._machines.values():
            if machine.worker is None:
                machine.start()
        made = anyio.run(self._desk.offer, ROWS)
        self._tasks = dict(zip(ROWS, made, strict=True))
        self._until_run_by(dict.fromkeys(ROWS, 0), "every task runs")

    def _tokens(self) -> dict[str, int]:
        return {name: last_token(self._folder, task) for name, task in self._tasks.items()}

    def _until_run_by(self, before: dict[str, int], what: str) -> None:
        def left() -> list[str]:
            return [name for name, token in self._tokens().items() if token <= before[name]]

        try:
            until(lambda: not left(), what)
        except TimeoutError:
            raise TimeoutError(f"{what}: not so {left()}") from None

    def _restart_database(self, name: str, how: signal.Signals) -> None:
        before = self._tokens()
        self._cluster.stop(how)
        self._cluster.start(settings(namespaces=self.tally.namespaces))
        ended = [name for name, token in self._tokens().items() if token > before[name]]
        self.tally.disturbed[name] = self.tally.disturbed.get(name, 0) + len(ended)

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

    def _ran(self, task: str) -> list[tuple[int, Alive]]:
        return list(ticks(self._folder, task).items())

    def _heal(self) -> None:
        """Those that are well again find themselves dead, and begin anew."""
        machines = {name: self._machines[name] for name in ("stopped", "cut", "mute", *WAKING)}
        ready = {name: machine.told("ready") for name, machine in machines.items()}
        machines["stopped"].signal(signal.SIGCONT)
        before, woken = self._tokens(), dict[str, float]()
        machines[PAUSED].ask("put_off_deadlines", now() - self._paused_at)
        for name in WAKING:
            woken[name] = now()
            machines[name].ask("thaw")
        for name in ("cut", "mute"):
            machines[name].link.heal()
        for name, machine in machines.items():
            until(
                lambda machine=machine, name=name: machine.told("ready") > ready[name],
                f"{name} begins anew",
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
        until(lambda: not any(map(Machine.agents_running, self._alive())), "all agents end")
        time.sleep(max(0.0, begun + AWAY - now()))
        self._cluster.start(settings(namespaces=self.tally.namespaces))
        back = now()
        self._until_run_by(before, "all goes on when the database is back")
        took = max(last_first(self._folder, task) for task in self._tasks.values()) - back
        self.tally.taken_over.setdefault(DATABASE[2], []).append(round(took, 2))

    def _alive(self) -> list[Machine]:
        everyone = (*self._machines.values(), self._heir)
        return [machine for machine in everyone if machine.worker is not None]

    def _finish(self) -> None:
        (self._folder / "finish").touch()
        tasks = list(self._tasks.values())
        until(lambda: not self._desk.unfinished(tasks), "every task ends")
        codes = {machine.name: machine.end() for machine in self._alive()}
        wrong = self.tally.wrong
        wrong += [f"{name} ended with {code}" for name, code in codes.items() if code]
        for machine in (*self._machines.values(), self._heir):
            wrong += [f"{machine.name}: left running: {left}" for left in machine.processes()]
            machine.link.heal()
        wrong += anyio.run(self._desk.problems, tasks)
        wrong += [f"{one.name} shows a stack trace" for one in self._machines.values() if one.broke]
        for name, task in self._tasks.items():
            if name in WAKING:
                continue
            found = overlap(ticks(self._folder, task))
            self.tally.overlaps[name] = round(max(found, self.tally.overlaps.get(name, -99.0)), 3)
            if found > 0:
                wrong.append(f"{name}: two agents for {found:.3f} s")
        (self._folder / "finish").unlink()


def last_first(folder: Path, task: str) -> float:
    """When the last run of a task began."""
    return max(run.first for run in ticks(folder, task).values())


def settings(*, namespaces: bool) -> dict[str, str]:
    """How PostgreSQL is reached from machines."""
    if namespaces:
        return {"listen_addresses": "*"}
    return {"authentication_timeout": "5s"}  # a proxy may leave half a connection behind


def run(folder: Path, rounds: int) -> FaultTally:
    """So many rounds, in a network of our own if that may be made."""
    prefix = in_own_network()
    words = [sys.executable, "-m", __name__, str(folder), str(rounds), str(len(prefix))]
    ran = subprocess.run([*prefix, *words], check=False, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        return FaultTally(wrong=[f"it ended with {ran.returncode}"])
    return FaultTally(**json.loads(ran.stdout))


def main(folder: Path, rounds: int, *, namespaces: bool) -> None:
    """What `run` starts."""
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
            faults.tally.wrong.append(f"waited for in vain: {late}")
    sys.stdout.write(json.dumps(asdict(faults.tally)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), namespaces=sys.argv[3] != "0")
