"""`store`: the database that several machines share."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.app import store as stores
from coterie.cli.main import Call, command, group, here, pass_call
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.app.projects import Project
    from coterie.app.store import StoreFacts


def use(url: str) -> None:
    """Name the store for this command."""
    stores.use_store(url)


def require(project: Project) -> None:
    """Raise StorageError where the store that was named is not this project's."""
    stores.require_store(project)


@group("store", "coterie store init postgresql://user@host/database")
@click.pass_context
def store(context: click.Context) -> None:
    """The database that several machines share, in PostgreSQL.  Alone: show.

    Without URL: the one of COTERIE_STORE, or of your settings (coterie config set store).
    """
    if context.invoked_subcommand is None:
        context.invoke(store.commands["show"])


@command("init", "coterie store init postgresql://user@host/database", store)
@click.argument("url", required=False)
@click.option("--lease", metavar="TIME", help="How long a silent machine keeps its tasks: 60s.")
@pass_call
def init(call: Call, url: str | None, lease: str | None) -> None:
    """Make the store of this project in a database that is there; one that is made stays."""
    made, facts = stores.init_store(stores.store_url(url), here(call), lease)
    call.record("store", {**asdict(facts), "made": made})
    call.line(f"Made the store in {facts.url}" if made else f"The store is there: {facts.url}")
    call.lines(_rows(facts))
    call.line(f"Use it:  coterie doctor --store {shlex.quote(facts.url)}")


@command("upgrade", "coterie store upgrade postgresql://user@host/database", store)
@click.argument("url", required=False)
@pass_call
def upgrade(call: Call, url: str | None) -> None:
    """Bring a store of an older Coterie up to date; make a backup before."""
    before, after = stores.upgrade_store(stores.store_url(url))
    call.record("upgrade", {"before": before, "after": after})
    same = f"The store is up to date: schema {after}."
    call.line(same if before == after else f"Upgraded the store from schema {before} to {after}.")


@command("continue", "coterie store continue postgresql://user@host/database", store)
@click.argument("url", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_call
def continue_(call: Call, url: str | None, yes: bool) -> None:
    """Go on with a store as it is, after a backup was put back or a replica lost something.

    First end every process of Coterie on every machine: what one of them still does is lost.
    """
    meant = stores.store_url(url)
    if not yes:
        if not call.attended:
            raise UsageError(_ALL_ENDED, "When they are: coterie store continue URL --yes")
        click.confirm(f"{_ALL_ENDED} Go on as it is?", default=False, abort=True)
    facts = stores.continue_store(meant, here(call))
    call.record("store", asdict(facts))
    call.line(f"The store goes on as it is: {facts.url}")
    call.lines(_rows(facts))


_ALL_ENDED = "Every process of Coterie must be ended, on every machine."


@command("show", "coterie store show", store)
@click.argument("url", required=False)
@pass_call
def show(call: Call, url: str | None) -> None:
    """What is known of a store: whose it is, its schema, its size; changes nothing."""
    facts = stores.describe_store(stores.store_url(url), here(call))
    call.record("store", asdict(facts))
    call.line(facts.url)
    call.lines(_rows(facts))


def _rows(facts: StoreFacts) -> list[str]:
    seen = "encrypted" if facts.encrypted else "not encrypted"
    return [
        f"  project   {facts.project}",
        f"  schema    {facts.schema}",
        f"  server    PostgreSQL {facts.server}, {seen}",
        f"  lease     a silent machine keeps its tasks for {facts.lease_seconds:g} s",
        f"  holds     {facts.tasks} tasks, {facts.machines} machines, {_size(facts.bytes)}",
    ]


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
