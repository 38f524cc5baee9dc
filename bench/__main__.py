"""`make bench`: every figure we promise, measured side by side in one run."""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
from pathlib import Path

from bench.chat_turns import characters_sent, compare
from bench.commands import help_and_first_turn


class Report:
    """Prints figures, and counts those over their bound."""

    def __init__(self, *, short: bool = False) -> None:
        self.over = 0
        self.short = short

    def line(self, what: str, figure: float, bound: float, unit: str = "") -> None:
        """Print a figure with its bound."""
        held = figure <= bound
        self.over += not held
        word = "ok" if held else "OVER"
        sys.stdout.write(f"  {what:<58} {figure:8.2f}{unit:<3} <= {bound:g}{unit}  {word}\n")
        sys.stdout.flush()


def chat_turns(report: Report) -> None:
    """Durable turns."""
    sys.stdout.write("A durable chat turn compared with a bare loop that commits each message\n")
    # Three times: a bound that only two runs of three keep is not kept.
    few, many = ([compare(turns) for _ in range(3)] for turns in (60, 600))
    for turns, runs, most in ((60, few, 4), (600, many, 3)):
        for bare, chat in runs:
            sys.stdout.write(
                f"  {turns} turns: bare {bare.cpu:.0f} us, chat {chat.cpu:.0f} us of CPU\n"
            )
            over = chat.cpu / bare.cpu
            report.line(f"CPU per turn over the bare loop, {turns} turns", over, most, "x")
    (_, chat_60), (bare_600, chat_600) = few[-1], many[-1]
    report.line("CPU per turn, 600 turns over 60", chat_600.cpu / chat_60.cpu, 1.2, "x")
    report.line("database over the bare loop's file, 600", chat_600.file / bare_600.file, 3, "x")
    with tempfile.TemporaryDirectory() as folder:
        sent = characters_sent(Path(folder), 600)
    report.line("characters sent per turn, last over second", sent[-1] / sent[1], 1, "x")


def postgres(report: Report) -> None:
    """PostgreSQL compared with SQLite."""
    from bench.postgres import compare

    found = compare(60 if report.short else 300, 60)
    sys.stdout.write("PostgreSQL compared with SQLite, medians of one interleaved run\n")
    sys.stdout.write(
        f"  a chat turn: SQLite {found.sqlite:.0f} us, PostgreSQL {found.postgres:.0f} us of CPU\n"
    )
    report.line("CPU of a chat turn over SQLite's", found.postgres / found.sqlite, 1.5, "x")
    report.line("an answer reaches a waiter elsewhere, p95", found.late_p95, 20, "ms")


def workers(report: Report) -> None:
    """Several machines on one store."""
    from bench.workers import SEATS, measure

    tasks = 12 if report.short else 48
    found, idle = measure(tasks, 5 if report.short else 30)
    sys.stdout.write(f"{tasks} tasks of a 2 s agent on workers with {SEATS} seats each\n")
    for one in found:
        sys.stdout.write(
            f"  {one.workers} workers: {one.wall:.1f} s, {one.cpu:.0f} ms of CPU in the worker and "
            f"{one.server:.0f} ms in PostgreSQL for each task\n"
        )
        report.line(f"tasks not run once, {one.workers} workers", not one.once, 0)
    alone, two, four = (one.wall for one in found)
    sys.stdout.write(f"  {alone / two:.2f}x and {alone / four:.2f}x as fast as one\n")
    report.line("two workers: time over half of one worker's", two / alone * 2, 2 / 1.8, "x")
    report.line("four workers: time over a quarter of one worker's", four / alone * 4, 4 / 3.4, "x")
    report.line("CPU of a task in the worker", max(one.cpu for one in found), 120, "ms")
    report.line("idle worker", idle.cpu, 1.5, "%")
    report.line("memory of an idle worker, not shared", idle.memory, 80, "MB")


def tickets(report: Report) -> None:
    """Sessions with tickets."""
    from bench.tickets import FEW, MANY, compare, growth

    took = compare()
    sys.stdout.write(
        "A ticket with its review compared with a bare loop that commits as many rows\n"
    )
    sys.stdout.write(
        f"  {took.few.rows:.0f} rows: bare {took.bare:.0f} us, ticket {took.few.cpu:.0f} us of CPU "
        f"at {FEW}, {took.many.cpu:.0f} us at {MANY}\n"
    )
    report.line(
        f"CPU per ticket over the bare loop, {FEW} tickets", took.few.cpu / took.bare, 3, "x"
    )
    on_disk = took.many.cpu / took.few.cpu
    report.line(f"CPU per ticket, {MANY:,} tickets over {FEW}", on_disk, 1.2, "x")
    report.line(f"the same with all files in memory ({MANY:,} over {FEW})", growth(), 1.2, "x")


def tool_calls(report: Report) -> None:
    """The built-in agent's calls."""
    from bench.read_only import sandbox_cost
    from bench.tool_calls import CALLS, compare

    bare, ours = compare()
    sys.stdout.write(
        "A tool call compared with a bare loop that commits its request and completion\n"
    )
    sys.stdout.write(f"  bare {bare.cpu:.0f} us, call {ours.cpu:.0f} us of CPU\n")
    report.line(f"CPU per tool call over the bare loop, {CALLS} calls", ours.cpu / bare.cpu, 5, "x")
    with tempfile.TemporaryDirectory() as folder:
        adds = sandbox_cost(Path(folder))
    report.line("overhead of the sandbox of a read-only command", adds * 1000, 30, "ms")


def commands(report: Report) -> None:
    """Whole commands."""
    sys.stdout.write("Commands from process start, CPU of everything started\n")
    with tempfile.TemporaryDirectory() as folder:
        helps, first = help_and_first_turn(Path(folder))
    report.line("coterie --help", helps * 1000, 150, "ms")
    report.line("first turn of chat, scripted agent included", first, 0.6, "s")


def walk(report: Report) -> None:
    """How many source files an operation enters."""
    from bench.walk import measure_walk

    sys.stdout.write("Source files entered by an operation, in every thread\n")
    with tempfile.TemporaryDirectory() as folder:
        files = measure_walk(Path(folder))
    report.line("coterie chat, one turn with a generic agent", len(files.chat), 60)
    report.line("coterie tasks", len(files.tasks), 20)
    report.line("coterie inbox", len(files.inbox), 25)
    report.line("context.turn alone", len(files.turn), 25)


def real_clis(report: Report) -> None:
    """The real CLIs that are installed."""
    from bench.real_clis import BINS, LEAST_FASTER, WAYS, measure

    sys.stdout.write("A turn of the real CLIs on a model that answers at once, medians of 30\n")
    for kind in WAYS:
        if not (BINS / kind).exists():
            sys.stdout.write(f"  {kind} is not installed: scripts/real-clis\n")
            continue
        with tempfile.TemporaryDirectory() as folder:
            took = asyncio.run(measure(kind, Path(folder)))
        ways = (("Coterie", took.coterie), ("bare", took.bare), ("respawned", took.respawned))
        figures = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in ways)
        sys.stdout.write(f"  {kind}: {figures}\n")
        report.line(f"{kind}: more than bare", (took.coterie - took.bare) * 1000, 20, "ms")
        faster = took.respawned / took.coterie
        report.line(f"{kind}: respawned over Coterie, inverse", 1 / faster, 1 / LEAST_FASTER[kind])
        sys.stdout.write(f"  {kind}: {faster:.1f}x faster than respawned\n")


def search(report: Report) -> None:
    """searchCode on a real package."""
    from bench.search import measure_search

    with tempfile.TemporaryDirectory() as folder:
        took = measure_search(Path(folder))
    sys.stdout.write(f"searchCode on pip, {took.files} source files, medians\n")
    report.line("index all of it", took.index, 2, "s")
    report.line("one changed file indexed again", took.one_changed * 1000, 50, "ms")
    sys.stdout.write(f"  one question: {took.question * 1000:.0f} ms\n")


def page(report: Report) -> None:
    """The page in a real browser."""
    from bench.page.browser import CHROMIUM
    from bench.page.events import MESSAGES, MOST_ROWS, PER_SECOND, TABS, measure_page

    seconds, messages = (6, 1_000) if report.short else (60, MESSAGES)
    sys.stdout.write(f"The page: {PER_SECOND} events a second for {seconds} s in {TABS} tabs\n")
    if CHROMIUM is None:
        sys.stdout.write("  chromium is not installed: scripts/system-packages\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        late, opened, size = measure_page(Path(folder), seconds, messages)
    sys.stdout.write(
        f"  {late.shown:,} of {late.expected:,} seen, median {late.median:.0f} ms, "
        f"worst {late.worst:.0f} ms\n"
    )
    report.line("events that a tab did not show", late.expected - late.shown, 0)
    report.line("tabs that no longer follow the end of the conversation", late.behind, 0)
    report.line("commit to DOM, 95 of 100", late.p95, 100, "ms")
    sys.stdout.write(
        f"  {messages:,} messages: opened in {opened.opened:.0f} ms, "
        f"older ones there in {opened.scrolled:.0f} ms, back to {opened.reached:,}\n"
    )
    report.line(f"rows in the DOM with {messages:,} messages", opened.rows, MOST_ROWS)
    report.line("JavaScript of the first screen, gzip", size, 150, "KB")


def server(report: Report) -> None:
    """`coterie serve`."""
    from bench.server import PROJECTS, TURNS, measure

    sys.stdout.write(f"The server, followed by one browser, on {PROJECTS} projects\n")
    with tempfile.TemporaryDirectory() as folder:
        rest, turn = measure(Path(folder), 10 if report.short else 30)
    report.line("CPU when idle", rest.cpu, 1, "%")
    report.line("memory over the interpreter with coterie imported", rest.memory, 90, "MB")
    sys.stdout.write(
        f"  one of {TURNS} turns: by the command {turn.command:.1f} ms, "
        f"by the server {turn.server:.1f} ms of CPU\n"
    )
    report.line("CPU of a turn over the command's", turn.server / turn.command, 1.3, "x")


def simulation(report: Report) -> None:
    """A thousand machines on a virtual clock."""
    from bench.simulation import Scenario, simulate
    from bench.simulation.world import Costs

    workers, tasks = (100, 2_000) if report.short else (1_000, 100_000)
    sys.stdout.write(f"{tasks:,} tasks on {workers:,} machines, simulated: clocks differ by 5 %\n")
    outages = ((600.0, 0.3), (1_200.0, 10.0), (2_000.0, 90.0))
    scenario = Scenario(workers, tasks, costs=Costs(cores=8), outages=outages)
    found = simulate(scenario)
    faults = sum(found.faults.values())
    sys.stdout.write(
        f"  {found.seconds:,.0f} s, {found.per_second:.1f} tasks a second, {faults} faults, "
        f"{len(found.silent)} deaths declared; {found.busy:.2f} cores of the store busy\n"
    )
    for kind, count in sorted(found.asked.items()):
        spent = found.spent[kind] / found.seconds
        sys.stdout.write(f"  {kind:<10} {count / found.seconds:8.1f} a second {spent:6.3f} cores\n")
    report.line("tasks that did not end exactly once", tasks - found.ended + found.ended_twice, 0)
    report.line("times that a task had two agents", len(found.overlaps), 0)
    report.line("owners declared dead too late", found.too_late, 0)


PARTS = (
    chat_turns,
    postgres,
    workers,
    tickets,
    tool_calls,
    commands,
    search,
    walk,
    real_clis,
    server,
    page,
    simulation,
)


def main() -> int:
    """Print all figures, or those that are named; return 1 if any is over its bound."""
    names = {part.__name__: part for part in PARTS}
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*names, []], help="default: all")
    parser.add_argument("--short", action="store_true", help="shorter runs of the longest parts")
    options = parser.parse_args()
    gc.set_threshold(20_000)  # as `coterie` itself does
    report = Report(short=options.short)
    for name in options.parts or names:
        names[name](report)
    return 1 if report.over else 0


if __name__ == "__main__":
    sys.exit(main())
