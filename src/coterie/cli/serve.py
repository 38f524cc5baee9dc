"""`serve`: the team in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.main import Call, command, pass_call, show_notices
from coterie.errors import UsageError
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.web.serve import Orphan, RunningServer

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@command("serve", "coterie serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), help="8420, or the next that is free.")
@click.option("--cert", "certificate", type=_FILE, help="A certificate, for other machines.")
@click.option("--key", type=_FILE, help="Its key.")
@click.option("--insecure", is_flag=True, help="Let other machines in without a certificate.")
@click.option("--resume", is_flag=True, help="Go on with tasks whose process died.")
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--api-only", is_flag=True, help="The HTTP API without the page.")
@pass_call
def serve(call: Call, *, opens: bool, **options: Any) -> None:
    """The team in a browser, and an HTTP API; only this machine can reach it."""
    from coterie.app.projects import projects_at_work

    # A project that is left out is on no screen: here alone one learns of it.
    show_notices(call, projects_at_work(call.directory).notices)
    run_server(call, opens=opens, directory=call.directory, **options)


def require_page() -> None:
    """Raise UsageError where there is no page to serve, or nothing to serve it with."""
    _server().page_folder()


def _server() -> ModuleType:
    try:
        from coterie.web import serve as server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "coterie":
            raise
        said = "coterie serve needs the page's packages."
        raise UsageError(said, 'pip install "coterie[web]"') from None
    return server


def run_server(call: Call, *, opens: bool, **asked: Any) -> None:
    """Serve until a signal comes."""
    server = _server()
    import anyio

    def announce(serving: RunningServer) -> None:
        _announce(call, serving, opens)

    def offer(orphans: Sequence[Orphan]) -> None:
        _offer(call, orphans)

    anyio.run(server.serve, server.ServeRequest(**asked), announce, offer)


def _announce(call: Call, serving: RunningServer, opens: bool) -> None:
    import sys

    fields = {"address": serving.address, "url": serving.link, "token": serving.token}
    call.record("serve", {**fields, "token_file": str(serving.token_file)})
    # A log that others may read must not hold the token.
    place = serving.link if sys.stdout.isatty() else serving.address
    call.line(f"Coterie is at {place}   (stop: Ctrl-C)")
    if not sys.stdout.isatty():
        call.line(f"Its token is in {serving.token_file}")
    if opens:
        click.launch(serving.link)
    sys.stdout.flush()


def _offer(call: Call, orphans: Sequence[Orphan]) -> None:
    for one in orphans:
        fields = {"project": one.project, "root": str(one.root), "task": one.task}
        call.record("orphan", fields)
    if not call.json:
        names = ", ".join(f"{one.task} in {shown(one.root)}" for one in orphans)
        call.note(f"Cut off when their process died: {names}.")
        call.note("  Go on with them on the page, or with all:  coterie serve --resume")
