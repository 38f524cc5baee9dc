"""Workers that share a store, hit at random while they run many tasks.

    python -m bench.chaos.workers FOLDER SEED WORKERS HITS TASKS

A hit kills a worker, stops it for a while, cuts its link or all connections, or restarts or crashes
the database.  `run` starts this in a network of its own, if one can be created.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
import psycopg

from bench.chaos.faults import settings, wait_until
from bench.machines.links import Link, NamespaceLink, ProxyLink, in_own_network, listen_in_namespace
from bench.machines.machine import Machine, create_machine, make_repository, ticking
from bench.machines.tasks import OfferingMachine, overlap, runs_by_token
from coterie.testing.postgres import Cluster, Databases, own_cluster

TTL = 6.0
AGENT = "ticker"
SECONDS = 4.0
SEATS = 2
LONGEST_STOP = 9.0
WEIGHTS = {"kill": 8, "stop": 6, "cut": 4, "connections": 4, "restart": 2, "crash": 1}
OF_ALL = frozenset({"connections", "restart", "crash"})
"""Hits that affect every machine."""
_END_CONNECTIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@dataclass
class WorkersTally:
    """What was done to the workers, and what became of their tasks."""

    hits: dict[str, int] = field(default_factory=dict[str, int])
    tasks: int = 0
    executions: int = 0
    may_repeat: int = 0
    """How many executions the hits may have cost: one for each affected seat."""
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def repeated(self) -> int:
        """Executions beyond one per task."""
        return self.executions - self.tasks


class WorkersChaos:
    """Some machines, hit one after the other while the others work."""

    def __init__(
        self, folder: Path, cluster: Cluster, seed: int, workers: int, *, namespaces: bool
    ) -> None:
        self.tally = WorkersTally()
        self._random = random.Random(seed)
        self._folder = folder
        self._cluster = cluster
        self._namespaces = namespaces
        make_repository(folder)
        Databases(cluster.url()).create("workers")
        self._offering = OfferingMachine(folder, cluster.url("workers"), [AGENT], TTL)
        self.machines = [self._machine(number) for number in range(workers)]

    def _machine(self, number: int) -> Machine:
        link: Link = (
            NamespaceLink(self._cluster, "workers", 10 + number)
            if self._namespaces
            else ProxyLink(self._cluster, "workers")
        )
        command = ticking(self._folder, SECONDS)
        place = create_machine(self._folder, f"machine{number}", [AGENT], command)
        return Machine(place, link, [AGENT], SEATS)

    def run(self, hits: int, tasks: int) -> None:
        """Hit this often while this many tasks run, then let everything finish."""
        begun = time.monotonic()
        for machine in self.machines:
            machine.start()
        made = anyio.run(self._offering.offer, [AGENT] * tasks)
        wait_until(
            lambda: any(machine.state_count("taken") for machine in self.machines), "a task runs"
        )
        late: list[tuple[float, Callable[[], None]]] = []
        for _ in range(hits):
            self._wait(self._random.uniform(0.2, 2.0), late)
            self._hit(late)
            for machine in self.machines:
                machine.restart_if_ended()
        while late:
            self._wait(0.2, late)
        wait_until(lambda: all(one.is_ready() for one in self.machines), "every worker is ready")
        wait_until(lambda: not self._offering.unfinished(made), "every task ends")
        self.tally.seconds = round(time.monotonic() - begun, 1)
        self._check(made)

    def _wait(self, seconds: float, late: list[tuple[float, Callable[[], None]]]) -> None:
        """Let this much time pass, and do what is due meanwhile."""
        end = time.monotonic() + seconds
        while late and min(late, key=lambda one: one[0])[0] < end:
            due = min(late, key=lambda one: one[0])
            late.remove(due)
            time.sleep(max(0.0, due[0] - time.monotonic()))
            due[1]()
        time.sleep(max(0.0, end - time.monotonic()))

    def _hit(self, late: list[tuple[float, Callable[[], None]]]) -> None:
        ways = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        well_now = [machine for machine in self.machines if not machine.is_hit]
        how = ways[0] if well_now else "connections"
        machine = self._random.choice(well_now or self.machines)
        self.tally.hits[how] = self.tally.hits.get(how, 0) + 1
        self.tally.may_repeat += SEATS * (len(self.machines) if how in OF_ALL else 1)
        well = time.monotonic() + self._random.uniform(0.0, LONGEST_STOP)
        if how == "kill":
            machine.kill()
            well = time.monotonic() + self._random.uniform(0.0, 2.0)
            late.append((well, machine.start))
        elif how == "stop":
            machine.signal(signal.SIGSTOP)
            late.append((well, lambda: machine.signal(signal.SIGCONT)))
        elif how == "cut":
            machine.link.cut(one_way=self._random.random() < 0.3)
            late.append((well, machine.link.heal))
        else:
            self._hit_database(how)
        if how not in OF_ALL:
            machine.is_hit = True
            late.append((well, lambda: setattr(machine, "is_hit", False)))

    def _hit_database(self, how: str) -> None:
        if how == "connections":
            with psycopg.connect(self._offering.url, autocommit=True) as connection:
                connection.execute(_END_CONNECTIONS)
        else:
            self._cluster.stop(signal.SIGINT if how == "restart" else signal.SIGKILL)
            self._cluster.start(settings(namespaces=self._namespaces))

    def _check(self, tasks: list[str]) -> None:
        tally = self.tally
        tally.tasks = len(tasks)
        for machine in self.machines:
            if code := machine.end():
                tally.wrong.append(f"{machine.name} ended with {code}")
            tally.wrong += [f"{machine.name}: left: {line}" for line in machine.processes()]
            if machine.has_traceback:
                tally.wrong.append(f"{machine.name} shows a stack trace")
        for task in tasks:
            runs = runs_by_token(self._folder, task)
            tally.executions += len(runs)
            if overlap(runs) > 0:
                tally.wrong.append(f"{task}: two agents for {overlap(runs):.3f} s")
        tally.wrong += anyio.run(self._offering.problems, tasks)
        if tally.repeated > tally.may_repeat:
            tally.wrong.append(f"{tally.repeated} repeated, {tally.may_repeat} at most")

    def close(self) -> None:
        """Shut down all machines."""
        for machine in self.machines:
            machine.close()


def run(folder: Path, seed: int, workers: int = 4, hits: int = 25, tasks: int = 60) -> WorkersTally:
    """Run one seed, in a network of our own if one can be created."""
    prefix = in_own_network()
    numbers = map(str, (seed, workers, hits, tasks, len(prefix)))
    words = [sys.executable, "-m", __name__, str(folder), *numbers]
    ran = subprocess.run([*prefix, *words], check=False, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        return WorkersTally(wrong=[f"it ended with {ran.returncode}"])
    return WorkersTally(**json.loads(ran.stdout))


def main(folder: Path, seed: int, workers: int, hits: int, tasks: int, namespaces: int) -> None:
    """Entry point of the process that `run` starts."""
    if namespaces:
        listen_in_namespace()
    with ExitStack() as stack:
        cluster = stack.enter_context(own_cluster(settings(namespaces=bool(namespaces))))
        chaos = WorkersChaos(folder, cluster, seed, workers, namespaces=bool(namespaces))
        stack.callback(chaos.close)
        try:
            chaos.run(hits, tasks)
        except TimeoutError as late:
            chaos.tally.wrong.append(f"timed out waiting for: {late}")
    sys.stdout.write(json.dumps(asdict(chaos.tally)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:7]))
