"""`worker` and `machines`: the same team on several computers."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli.main import Call, command, here, list_group, made, opened, pass_call
from coterie.cli.text import table

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.app.run import StartRequest
    from coterie.app.worker import WorkerEvent
    from coterie.model.machine import MachineView


@command("worker", "coterie worker --store postgresql://user@host/database --agents claude,codex")
@click.option("--agents", metavar="A,B", help="Those it runs; else all that are ready here.")
@click.option("--seats", type=click.IntRange(1, 256), default=2, show_default=True)
@click.option("--name", metavar="NAME", help="What this machine is called; else its host name.")
@click.option("--allow", type=click.Choice(["full"]), help="Take members that never ask.")
@click.option("--once", is_flag=True, help="End when nothing is left that it could run.")
@pass_call
def worker(
    call: Call, agents: str | None, seats: int, name: str | None, allow: str | None, once: bool
) -> None:
    """Have this machine run what is on offer in a store, until Ctrl-C.

    A task on offer is one that was started with --detach, or the turn of a ticket. It runs here
    with the agents, logins and trusted teams of this machine. Ctrl-C lets go of all of it: other
    machines go on with it.
    """
    import anyio

    from coterie.app.store import store_url
    from coterie.app.worker import WorkerOptions, work

    wanted = tuple(part.strip() for part in agents.split(",") if part.strip()) if agents else ()
    options = WorkerOptions(name, wanted, seats, allow == "full", once)
    store_url(call.store)
    project = made(call, here(call))

    async def run() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as group:

                async def until_signal() -> None:
                    async for _ in signals:
                        group.cancel_scope.cancel()

                group.start_soon(until_signal)
                await work(project, options, lambda event: _tell(call, event))
                group.cancel_scope.cancel()

    anyio.run(run)


_SAID = {
    "ready": "{detail} is ready",
    "taken": "{task}  runs here",
    "refused": "{task}  not taken: {detail}",
    "over": "{task}  {detail}",
    "cut off": "! {detail} It begins anew.",
    "unreachable": "! {detail} It is tried again.",
}


def _tell(call: Call, event: WorkerEvent) -> None:
    call.record("worker", asdict(event))
    call.line(_SAID[event.state].format_map(asdict(event)))


def offer_new(call: Call, start: StartRequest) -> None:
    """Start a task for whichever machine can run it."""
    from coterie.app.machines import offer, shared_store

    async def offered(app: App) -> str:
        shared_store(app)
        task_id = await app.create(start)
        await offer(app, task_id)
        return task_id

    task_id = opened(here(call), offered)
    call.record("task", {"id": task_id, "workflow": start.workflow, "status": "created"})
    call.line(f"{task_id} is on offer to your machines.")
    call.line(f"Follow it:  coterie log {task_id} --follow")


machines: click.Group = list_group(
    "machines", "coterie machines", "The machines that share a store."
)


@command("list", "coterie machines list", machines)
@pass_call
def list_machines(call: Call) -> None:
    """Each with its state, agents, seats and tasks."""
    from coterie.app.machines import machines as found

    rows = opened(here(call), found)
    call.records("machine", map(asdict, rows))
    if not rows:
        call.line("No machine yet.   coterie worker --store URL")
    call.lines(table([_row(one) for one in rows], call.width))


@command("gone", "coterie machines gone gpu1", machines)
@click.argument("name")
@pass_call
def gone(call: Call, name: str) -> None:
    """Say that a machine is dead: others take its tasks over at once.

    Only when you know it: an agent that still runs there would run twice.
    """
    from coterie.app.machines import gone as declare

    count = opened(here(call), lambda app: declare(app, name))
    call.record("gone", {"machine": name, "processes": count})
    call.line(f"{name} is said to be dead: its tasks can be taken over.")


def _row(one: MachineView) -> tuple[str, str, str, str, str]:
    seats = f"{len(one.running)}/{one.seats} seats" if one.state == "alive" else ""
    return (f"  {one.name}", one.state, ", ".join(one.has), seats, " ".join(one.running))
