"""`coterie project`: whose `.coterie` this is, and what to do with one that is not ours."""

from __future__ import annotations

from pathlib import Path

import click

from coterie.app.projects import (
    FolderEntry,
    Project,
    adopt,
    contents,
    find_project,
    forget,
    refused,
    set_aside_unbelieved,
)
from coterie.cli.main import Call, command, group, show_notices
from coterie.cli.text import counted, printable
from coterie.errors import NotOurs

_SHOWN = 20
"""How many names are shown; `--json` lists all."""


@group("project", "coterie project")
@click.pass_context
def project(context: click.Context) -> None:
    """Whose .coterie this is, and what it contains.

    One that your Coterie did not create here is not trusted: it may have come with a clone or an
    archive, and could allow agents anything. Adopt it if you know what is in it, or set it aside.
    """
    if context.invoked_subcommand is None:
        _show(context.ensure_object(Call))


def _show(call: Call) -> None:
    here = find_project(call.directory)
    why, entries = refused(here), contents(here)
    kind = why.origin if why else "ours" if here.exists else "absent"
    fields = {"path": str(here.root), "origin": kind, "problem": str(why) if why else None}
    call.record("project", fields)
    call.records("held_file", map(vars, entries))
    if why is None:
        call.line(f"{here.place} is yours." if here.exists else f"{here.root} has no .coterie.")
        return
    call.line(printable(str(why)))
    _show_holdings(call, here)
    call.line(printable(why.hint or ""))


@command("adopt", "coterie project adopt", project)
def adopt_(call: Call) -> None:
    """Adopt a .coterie that came with its folder. From now on it is yours."""
    _adopt(call, find_project(call.directory))


@command("set-aside", "coterie project set-aside", project)
def set_aside(call: Call) -> None:
    """Rename a .coterie that came with its folder. Nothing reads it then."""
    _set_aside(call, find_project(call.directory))


@command("forget", "coterie project forget ~/old/place", project)
@click.argument("folder", type=click.Path(path_type=Path))
def forget_(call: Call, folder: Path) -> None:
    """Remove a project whose folder is gone from your list. No inbox mentions it then."""
    forget(folder)
    call.record("project", {"path": str(folder), "origin": "absent", "problem": None})
    call.line(f"Forgotten: {printable(str(folder))}")


def settle(call: Call, target: Project, why: NotOurs) -> None:
    """Ask the user what to do with an untrusted `.coterie`; raise `why` if it is left as it is."""
    if not call.attended or why.origin == "other_user":
        raise why
    call.line(printable(str(why)))
    _show_holdings(call, target)
    may_adopt = why.origin != "link"
    offered = "[a] adopt it  [s] set it aside  [l] leave it"
    offered = offered if may_adopt else offered.partition("  ")[2]
    answer = click.prompt(offered, type=click.Choice("asl" if may_adopt else "sl"), default="l")
    if answer == "l":
        raise why
    (_adopt if answer == "a" else _set_aside)(call, target)


def _adopt(call: Call, target: Project) -> None:
    notice = adopt(target)
    show_notices(call, [notice] if notice else [])
    call.record("project", {"path": str(target.root), "origin": "ours", "problem": None})
    call.line(f"{printable(str(target.place))} is now yours.")


def _set_aside(call: Call, target: Project) -> None:
    new_path = set_aside_unbelieved(target)
    call.record("set_aside", {"path": str(target.root), "as": str(new_path) if new_path else None})
    if new_path is None:
        call.line("Nothing to set aside.")
    else:
        call.line(f"Set aside as {printable(str(new_path))}: nothing reads it there.")


def _show_holdings(call: Call, target: Project) -> None:
    files = [one for one in contents(target) if one.kind != "folder"]
    lines = [f"  {_shown(one)}" for one in files[:_SHOWN]]
    if (more := len(files) - _SHOWN) > 0:
        lines.append(f"  and at least {counted(more, 'more file')}")
    call.lines(["It contains:", *lines] if lines else ["It contains no files."])


def _shown(entry: FolderEntry) -> str:
    leads = f" -> {entry.target}" if entry.target is not None else ""
    return printable(f"{entry.name or '.coterie'}{leads}").replace("\n", " ")
