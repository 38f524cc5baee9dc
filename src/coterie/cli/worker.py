"""`worker` and `machines`: the same team on several computers."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli.main import Call, command, ensure_project, list_group, run_here
from coterie.cli.text import table

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.app.run import StartRequest
    from coterie.app.worker import WorkerEvent
    from coterie.model.machine import MachineView


@command("worker", "coterie worker --store postgresql://user@host/database --agents claude,codex")
@click.option(
    "--agents", metavar="A,B", help="The agents it runs; default: all that are ready here."
)
@click.option(
    "--seats",
    type=click.IntRange(1, 256),
    metavar="N",
    default=2,
    show_default=True,
    help="How many tasks it may run at once.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="This machine's name; default: the setting machine, otherwise its host name.",
)
@click.option(
    "--allow", type=click.Choice(["full"]), help="Accept members that never ask for permission."
)
@click.option("--once", is_flag=True, help="Exit when nothing is left that it can run.")
def worker(
    call: Call, agents: str | None, seats: int, name: str | None, allow: str | None, once: bool
) -> None:
    """Run tasks on offer in a store on this machine, until Ctrl-C.

    A task on offer is one that was started with --detach, or the turn of a ticket. It runs with the
    agents, logins and trusted teams of this machine. Ctrl-C gives its tasks back: other machines
    continue them.
    """
    import anyio

    from coterie.app.store import store_url
    from coterie.app.worker import WorkerOptions, work

    wanted = tuple(part.strip() for part in agents.split(",") if part.strip()) if agents else ()
    options = WorkerOptions(name, wanted, seats, allow == "full", once)
    store_url(call.store)
    project = ensure_project(call)

    async def run() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as group:

                async def until_signal() -> None:
                    async for _ in signals:
                        group.cancel_scope.cancel()

                group.start_soon(until_signal)
                await work(project, options, lambda event: _show_event(call, event))
                group.cancel_scope.cancel()

    anyio.run(run)


_TEXTS = {
    "ready": "{detail} is ready",
    "taken": "{task}  runs here",
    "refused": "{task}  not taken: {detail}",
    "over": "{task}  {detail}",
    "cut off": "! {detail} Starting over.",
    "unreachable": "! {detail} Retrying.",
}


def _show_event(call: Call, event: WorkerEvent) -> None:
    call.record("worker", asdict(event))
    call.line(_TEXTS[event.state].format_map(asdict(event)))


def offer_new(call: Call, start: StartRequest) -> None:
    """Create a task, and offer it to whichever machine can run it."""
    from coterie.app.machines import offer, shared_store

    async def offered(app: App) -> str:
        shared_store(app)
        task_id = await app.create(start)
        await offer(app, task_id)
        return task_id

    task_id = run_here(call, offered)
    call.record("task", {"id": task_id, "workflow": start.workflow, "status": "created"})
    call.line(f"{task_id} is on offer to your machines.")
    call.line(f"Follow it:  coterie log {task_id} --follow")


@list_group(
    "machines", "coterie machines", "The machines that share a store.", "coterie machines list"
)
def machines(call: Call) -> None:
    """Every machine, with its state, agents, seats and tasks."""
    from coterie.app.machines import machines as list_machines

    rows = run_here(call, list_machines)
    call.records("machine", map(asdict, rows))
    if not rows:
        call.line("No machines yet.   coterie worker --store URL")
    call.lines(table([_row(one) for one in rows], call.width))


@command("gone", "coterie machines gone gpu1", machines)
@click.argument("name")
def gone(call: Call, name: str) -> None:
    """Declare a machine dead: others take over its tasks at once.

    Only if you are sure: an agent that still runs there would run twice.
    """
    from coterie.app.machines import gone as declare

    count = run_here(call, lambda app: declare(app, name))
    call.record("gone", {"machine": name, "processes": count})
    call.line(f"{name} has been declared dead: others can take over its tasks.")


def _row(one: MachineView) -> tuple[str, str, str, str, str]:
    seats = f"{len(one.running)}/{one.seats} seats" if one.state == "alive" else ""
    return (f"  {one.name}", one.state, ", ".join(one.has), seats, " ".join(one.running))
