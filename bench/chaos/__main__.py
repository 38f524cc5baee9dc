"""`make chaos`: kill -9 at random instants of chats, the built-in agent, tickets and pipelines.

Chats are killed undisturbed, between interrupts and messages, and while several share a daily
budget.  Sessions with tickets are killed alone, and while other terminals answer for them, take
them over, park them, watch them and clean up.  Servers are killed with pages open.  All but the
servers keep their tasks in SQLite first and then in PostgreSQL; `--store` picks one.

A chat on PostgreSQL is disconnected, and its server restarted and crashed.  Machines that share a
store fail in every way of the fault table, and at random with many tasks.

Looks are random command lines that are allowed without asking, run in hostile folders under strace.
Exits with 1 if anything was lost, duplicated or left running, or if a look escaped.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import anyio

from bench.chaos.budgets import BudgetChaos
from bench.chaos.builtin import BuiltinChaos, Outcome
from bench.chaos.chats import Chaos
from bench.chaos.cuts import CutChaos
from bench.chaos.interrupts import InterruptChaos, Interrupted
from bench.chaos.pipelines import PipelineChaos
from bench.chaos.read_only import ReadOnlyFuzzer
from bench.chaos.stores import KINDS as STORES
from bench.chaos.stores import Stores, stores_of
from bench.chaos.terminals import TerminalChaos
from bench.chaos.tickets import TicketChaos

KILLS = {
    "chat": 200,
    "interrupts": 100,
    "builtin": 100,
    "tickets": 100,
    "terminals": 30,
    "pipelines": 100,
    "budgets": 40,
    "pages": 20,
    "cuts": 50,
    "faults": 20,
    "workers": 5,
    "read-only": 20_000,
}
"""How often to kill by default, by what is killed; for read-only, the number of lines."""


def main() -> int:
    """Run what was asked for; return 1 if anything went wrong."""
    options = _options()
    wanted = [options.only] if options.only else list(KILLS)
    clean = [_run(name, options) for name in wanted if name in ON_STORES or options.store is None]
    return 0 if all(clean) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(KILLS))
    usual = ", ".join(f"{name} {kills}" for name, kills in KILLS.items())
    parser.add_argument("--kills", type=int, help=f"kills of each kind (default: {usual})")
    several = ", ".join(ON_STORES)
    parser.add_argument("--store", choices=STORES, help=f"default: both; for {several}")
    parser.add_argument("--turns", type=int, default=30, help="turns per chat")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keeper", default="auto", choices=["auto", "bubblewrap", "subreaper"])
    options = parser.parse_args()
    if options.store and options.only in ELSEWHERE:
        parser.error(f"--store is for {several}; {options.only} has one of its own, or none")
    return options


def _run(name: str, options: argparse.Namespace) -> bool:
    """Run one kind on every wanted store; return whether nothing went wrong."""
    kills = options.kills or KILLS[name]
    if name in ELSEWHERE:
        return ELSEWHERE[name](options, kills)
    clean = True
    for store in STORES if options.store is None else (options.store,):
        sys.stdout.write(f"{name} on {store}, seed {options.seed}\n")
        sys.stdout.flush()
        with stores_of(store) as stores, tempfile.TemporaryDirectory() as folder:
            clean = ON_STORES[name](options, kills, Path(folder), stores) and clean
    return clean


def chats(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Kill durable chats; return whether nothing went wrong."""
    chaos = Chaos(folder, options.turns, keeper=options.keeper, seed=options.seed, stores=stores)
    tally = chaos.run(kills, lambda now: _progress(now.kills, kills, f"{now.chats} chats"))
    sys.stdout.write(f"\n{asdict(tally)}\nrepeated executions: {tally.repeated}\n")
    clean = not (tally.wrong or tally.overlaps or tally.survivors)
    return clean and tally.repeated <= tally.kills


def interrupts(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Kill chats that are also interrupted and written to; return whether nothing went wrong."""
    chaos = InterruptChaos(folder, keeper=options.keeper, seed=options.seed, stores=stores)

    def progress(now: Interrupted) -> None:
        _progress(now.kills, kills, f"{now.chats} chats, {now.interrupts} interrupts")

    outcome = anyio.run(chaos.run, kills, progress)
    sys.stdout.write(f"\n{asdict(outcome)}\n")
    return outcome.clean


def builtin(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Kill tasks of 30 tool calls with approvals; return whether nothing went wrong."""
    chaos = BuiltinChaos(folder, seed=options.seed, stores=stores)

    def progress(now: Outcome) -> None:
        _progress(now.kills, kills, f"{now.tasks} tasks")

    outcome = anyio.run(chaos.run, kills, progress)
    sys.stdout.write(f"\n{asdict(outcome)}\n")
    return not outcome.wrong


def tickets(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Kill sessions of twelve tickets with three workers; return whether nothing went wrong."""
    chaos = TicketChaos(folder, keeper=options.keeper, seed=options.seed, stores=stores)
    tally = chaos.run(kills, lambda now: _progress(now.kills, kills, f"{now.sessions} sessions"))
    sys.stdout.write(f"\n{asdict(tally)}\nrepeated executions: {tally.repeated}\n")
    return tally.clean


def terminals(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Do so with budgets and several terminals at once; return whether nothing went wrong."""
    chaos = TerminalChaos(folder, keeper=options.keeper, seed=options.seed, stores=stores)
    tally = chaos.run(kills, lambda now: _progress(now.kills, kills, f"{now.sessions} sessions"))
    sys.stdout.write(f"\n{asdict(tally)}\nrepeated executions: {tally.repeated}\n")
    return tally.clean


def budgets(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Kill concurrent chats under one daily limit; return whether nothing went wrong."""
    chaos = BudgetChaos(folder, keeper=options.keeper, seed=options.seed, stores=stores)
    tally = chaos.run(kills, lambda now: _progress(now.kills, kills, f"{now.projects} days"))
    sys.stdout.write(f"\n{asdict(tally)}\n")
    return tally.clean


def pipelines(options: argparse.Namespace, kills: int, folder: Path, stores: Stores) -> bool:
    """Kill pipelines from plan to commit, with a finding; return whether nothing went wrong."""
    chaos = PipelineChaos(folder, keeper=options.keeper, seed=options.seed, stores=stores)
    tally = chaos.run(kills, lambda now: _progress(now.kills, kills, f"{now.pipelines} pipelines"))
    sys.stdout.write(f"\n{asdict(tally)}\nrepeated executions: {tally.repeated}\n")
    return tally.clean


def pages(options: argparse.Namespace, kills: int) -> bool:
    """Kill servers with pages open in a real browser; return whether each shows what the store
    holds."""
    from bench.chaos.pages import PageChaos
    from bench.page.browser import CHROMIUM, chromium
    from bench.page.machine import Machine

    if CHROMIUM is None:
        sys.stdout.write("chromium is not installed: scripts/system-packages\n")
        return True
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        machine = Machine(Path(folder) / "machine", Path(sys.executable).parent)
        chaos = PageChaos(machine, browser, seed=options.seed)
        tally = chaos.run(
            kills, lambda now: _progress(now.kills, kills, f"{now.sessions} sessions")
        )
    sys.stdout.write(f"\n{asdict(tally)}\n")
    return tally.clean


def cuts(options: argparse.Namespace, hits: int) -> bool:
    """Disconnect, restart and crash a chat's PostgreSQL; return whether nothing went wrong."""
    chaos = CutChaos(options.turns * hits, seed=options.seed)
    tally = chaos.run(hits, lambda now: _progress(sum(now.hits.values()), hits, f"{now.hits}"))
    sys.stdout.write(f"\n{asdict(tally)}\n")
    return not tally.wrong and tally.turns == options.turns * hits


def faults(options: argparse.Namespace, rounds: int) -> bool:
    """Run every row of the fault table; return whether nothing went wrong or was late."""
    from bench.chaos.faults import run

    with tempfile.TemporaryDirectory() as folder:
        tally = run(Path(folder), rounds)
    late = tally.late()
    sys.stdout.write(f"\n{asdict(tally)}\n" + "".join(f"late: {one}\n" for one in late))
    return not tally.wrong and not late


def workers(options: argparse.Namespace, seeds: int) -> bool:
    """Run four workers with sixty tasks, 25 hits for each seed; return whether nothing went
    wrong."""
    from bench.chaos.workers import run

    clean = True
    for seed in range(options.seed, options.seed + seeds):
        with tempfile.TemporaryDirectory() as folder:
            tally = run(Path(folder), seed)
        sys.stdout.write(f"\nseed {seed}: {asdict(tally)}\nrepeated: {tally.repeated}\n")
        sys.stdout.flush()
        clean = clean and not tally.wrong
    return clean


def read_only(options: argparse.Namespace, cases: int) -> bool:
    """Run random command lines in hostile folders; return whether none escaped."""
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = ReadOnlyFuzzer(Path(folder).resolve(), seed=options.seed)
        tally = fuzzer.run(cases, lambda now: _progress(now.cases, cases, str(now), "lines"))
    sys.stdout.write("\n" + "\n".join([str(tally), *tally.escapes]) + "\n")
    return not tally.escapes


ON_STORES = {
    "chat": chats,
    "interrupts": interrupts,
    "builtin": builtin,
    "tickets": tickets,
    "terminals": terminals,
    "pipelines": pipelines,
    "budgets": budgets,
}
"""Run with their tasks in SQLite, and in PostgreSQL."""
ELSEWHERE = {
    "pages": pages,
    "cuts": cuts,
    "faults": faults,
    "workers": workers,
    "read-only": read_only,
}
"""Have a store of their own, or none."""


def _progress(done: int, kills: int, what: str, unit: str = "kills") -> None:
    sys.stderr.write(f"\r{done} of {kills} {unit}, {what} ")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
