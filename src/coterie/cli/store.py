"""`store`: the database that several machines share."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.app import store as stores
from coterie.cli.main import Call, command, current_project, group
from coterie.cli.text import counted
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.app.projects import Project
    from coterie.app.store import StoreFacts


def use(url: str) -> None:
    """Name the store for this command."""
    stores.use_store(url)


def require(project: Project) -> None:
    """Raise StorageError if the named store is not this project's."""
    stores.require_store(project)


@group("store", "coterie store init postgresql://user@host/database")
@click.pass_context
def store(context: click.Context) -> None:
    """The PostgreSQL database that several machines share.  Without a subcommand: show.

    Without URL: that of COTERIE_STORE, or of your settings (coterie config set store).
    """
    if context.invoked_subcommand is None:
        context.invoke(store.commands["show"])


@command("init", "coterie store init postgresql://user@host/database", store)
@click.argument("url", required=False)
@click.option("--lease", metavar="TIME", help="How long a silent machine keeps its tasks (60s).")
def init(call: Call, url: str | None, lease: str | None) -> None:
    """Create this project's store in an existing database. A store that exists is kept."""
    created, facts = stores.init_store(stores.store_url(url), current_project(call), lease)
    call.record("store", {**asdict(facts), "made": created})
    call.line(f"Created the store in {facts.url}" if created else f"The store exists: {facts.url}")
    call.lines(_rows(facts))
    call.line(f"Use it:  coterie doctor --store {shlex.quote(facts.url)}")


@command("upgrade", "coterie store upgrade postgresql://user@host/database", store)
@click.argument("url", required=False)
def upgrade(call: Call, url: str | None) -> None:
    """Bring a store of an older Coterie up to date. Make a backup first."""
    before, after = stores.upgrade_store(stores.store_url(url))
    call.record("upgrade", {"before": before, "after": after})
    same = f"The store is up to date: schema {after}."
    call.line(same if before == after else f"Upgraded the store from schema {before} to {after}.")


@command("continue", "coterie store continue postgresql://user@host/database", store)
@click.argument("url", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
def continue_(call: Call, url: str | None, yes: bool) -> None:
    """Accept a store as it is, after a restore or a loss of data.

    First stop every Coterie process on every machine: whatever they still do is lost.
    """
    meant = stores.store_url(url)
    if not yes:
        if not call.attended:
            raise UsageError(_ALL_STOPPED, "When they are: coterie store continue URL --yes")
        click.confirm(f"{_ALL_STOPPED} Accept the store as it is?", default=False, abort=True)
    facts = stores.continue_store(meant, current_project(call))
    call.record("store", asdict(facts))
    call.line(f"Accepted the store as it is: {facts.url}")
    call.lines(_rows(facts))


_ALL_STOPPED = "Every Coterie process must be stopped, on every machine."


@command("show", "coterie store show", store)
@click.argument("url", required=False)
def show(call: Call, url: str | None) -> None:
    """All about a store: its project, schema and size. Changes nothing."""
    facts = stores.describe_store(stores.store_url(url), current_project(call))
    call.record("store", asdict(facts))
    call.line(facts.url)
    call.lines(_rows(facts))


def _rows(facts: StoreFacts) -> list[str]:
    seen = "encrypted" if facts.encrypted else "not encrypted"
    tasks, machines = counted(facts.tasks, "task"), counted(facts.machines, "machine")
    return [
        f"  project   {facts.project}",
        f"  schema    {facts.schema}",
        f"  server    PostgreSQL {facts.server}, {seen}",
        f"  lease     a silent machine keeps its tasks for {facts.lease_seconds:g} s",
        f"  holds     {tasks}, {machines}, {_size(facts.bytes)}",
    ]


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
