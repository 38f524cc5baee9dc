"""What several workers gain on many tasks of a slow agent, and what an idle worker costs."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil

from bench.chaos.faults import wait_until
from bench.machines.links import DirectLink
from bench.machines.machine import Machine, create_machine, make_repository
from bench.machines.tasks import OfferingMachine
from coterie.testing.postgres import Cluster, Databases, own_cluster

AGENT = "ticker"
SEATS = 2
SLEEPER = ["sh", "-c", """cat > /dev/null; sleep 2; echo '{"type": "result", "text": "done"}'"""]
TTL = 60.0


@dataclass(frozen=True)
class Throughput:
    """The results of a number of workers."""

    workers: int
    wall: float
    """Seconds from the first offer to the last end."""
    cpu: float
    """Milliseconds of worker CPU per task, without agents and their keepers."""
    server: float
    """The same for the database."""
    once: bool
    """Whether each task ran exactly once."""


@dataclass(frozen=True)
class IdleWorker:
    """A worker that waits for tasks."""

    cpu: float
    """Percent of a core."""
    memory: float
    """Megabytes."""


class Fleet:
    """Workers on one store, which is on the same computer."""

    def __init__(self, folder: Path, cluster: Cluster, name: str, workers: int) -> None:
        folder.mkdir()
        self._cluster = cluster
        make_repository(folder)
        Databases(cluster.url()).create(name)
        self.offering = OfferingMachine(folder, cluster.url(name), [AGENT], TTL)
        self.machines = [
            Machine(
                create_machine(folder, f"machine{number}", [AGENT], SLEEPER),
                DirectLink(cluster, name),
                [AGENT],
                SEATS,
            )
            for number in range(workers)
        ]

    def start(self) -> None:
        """Start all of them, and wait until they are ready."""
        for machine in self.machines:
            machine.start()
        wait_until(lambda: all(one.state_count("ready") for one in self.machines), "all are ready")

    def run(self, tasks: int) -> Throughput:
        """Run this many tasks."""
        before, served = self._cpu(), self._server_cpu()
        begun = time.monotonic()
        made = anyio.run(self.offering.offer, [AGENT] * tasks)
        wait_until(
            lambda: sum(one.state_count("over") for one in self.machines) >= tasks, "all tasks end"
        )
        wall = time.monotonic() - begun
        spent, serving = self._cpu() - before, self._server_cpu() - served
        once = not self.offering.unfinished(made) and self.offering.attempts() == tasks
        per_task = 1000 / tasks
        count = len(self.machines)
        return Throughput(count, wall, spent * per_task, serving * per_task, once)

    def idle(self, seconds: float) -> IdleWorker:
        """Measure the first worker while it is idle for this long."""
        (machine, *_) = self.machines
        time.sleep(2)  # its start-up work
        before, begun = machine.ask("cpu", machine.worker), time.monotonic()
        time.sleep(seconds)
        spent, took = machine.ask("cpu", machine.worker) - before, time.monotonic() - begun
        return IdleWorker(spent / took * 100, machine.ask("memory", machine.worker))

    def _cpu(self) -> float:
        return sum(machine.ask("cpu", machine.worker) for machine in self.machines)

    def _server_cpu(self) -> float:
        """Return the CPU seconds of the server, including its ended processes."""
        server = psutil.Process(self._cluster.pid)
        ended = server.cpu_times().children_user + server.cpu_times().children_system
        for process in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # a connection that was closed
                ended += process.cpu_times().user + process.cpu_times().system
        return ended

    def end(self) -> None:
        """Shut everything down."""
        for machine in self.machines:
            machine.end()
            machine.close()


def measure(tasks: int, idle_seconds: float) -> tuple[list[Throughput], IdleWorker]:
    """Measure one, two and four workers in turn, and one that has nothing to do."""
    found: list[Throughput] = []
    idle: list[IdleWorker] = []
    with own_cluster({"fsync": "on"}) as cluster, tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2, 4):
            fleet = Fleet(Path(folder) / str(workers), cluster, f"workers{workers}", workers)
            fleet.start()
            if workers == 1:
                idle.append(fleet.idle(idle_seconds))
            found.append(fleet.run(tasks))
            fleet.end()
    return found, idle[0]
