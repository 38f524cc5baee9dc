"""`serve`: the team in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.main import Call, command, show_notices
from coterie.errors import with_extra
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.web.serve import Access, Orphan

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@command("serve", "coterie serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to listen on; default: 8420, or the next free one.",
)
@click.option(
    "--cert", "certificate", type=_FILE, help="The TLS certificate, to let other machines in."
)
@click.option("--key", type=_FILE, help="The key of the certificate.")
@click.option("--insecure", is_flag=True, help="Let other machines in without a certificate.")
@click.option("--resume", is_flag=True, help="Resume tasks whose process died.")
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--api-only", is_flag=True, help="The HTTP API without the page.")
def serve(call: Call, *, opens: bool, **options: Any) -> None:
    """Your team in a browser, and an HTTP API; by default only this machine can reach it."""
    from coterie.app.projects import projects_at_work

    # A project that is left out appears on no screen: this is the only place that says so.
    show_notices(call, projects_at_work(call.directory).notices)
    run_server(call, opens=opens, directory=call.directory, **options)


def require_page() -> None:
    """Raise UsageError if there is no page to serve, or nothing to serve it with."""
    _server().page_folder()


def _server() -> ModuleType:
    with with_extra("web", "coterie serve needs the page's packages."):
        from coterie.web import serve as server
    return server


def run_server(call: Call, *, opens: bool, **options: Any) -> None:
    """Serve until a signal arrives."""
    server = _server()
    import anyio

    def announce(access: Access, path: str) -> None:
        _announce(call, access, access.link(path), opens)

    def offer(orphans: Sequence[Orphan]) -> None:
        _offer(call, orphans)

    anyio.run(server.serve, server.ServeRequest(**options), announce, offer)


def _announce(call: Call, access: Access, link: str, opens: bool) -> None:
    import sys

    token, token_file = access.sessions.token, str(access.sessions.token_file)
    fields = {"address": access.address, "url": link, "token": token, "token_file": token_file}
    call.record("serve", fields)
    # A log that others may read must not contain the token.
    place = link if sys.stdout.isatty() else access.address
    call.line(f"Coterie is at {place}   (stop: Ctrl-C)")
    if not sys.stdout.isatty():
        call.line(f"Its token is in {token_file}")
    if opens:
        click.launch(link)
    sys.stdout.flush()


def _offer(call: Call, orphans: Sequence[Orphan]) -> None:
    for one in orphans:
        fields = {"project": one.project, "root": str(one.root), "task": one.task}
        call.record("orphan", fields)
    if not call.json:
        names = ", ".join(f"{one.task} in {shown(one.root)}" for one in orphans)
        call.note(f"Interrupted when their process died: {names}.")
        call.note("  Resume them on the page, or all at once:  coterie serve --resume")
