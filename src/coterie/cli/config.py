"""`coterie config`: settings of the user and of the project."""

from __future__ import annotations

import json

import click

from coterie.app.projects import (
    AllSettings,
    Setting,
    agree_to_remote,
    change_setting,
    settings_of,
)
from coterie.cli.main import Call, command, here, list_group, made, pass_call
from coterie.cli.text import table, wrap
from coterie.errors import UsageError

config: click.Group = list_group(
    "config",
    "coterie config set quietAfter 5m",
    "Settings; the project's count for more than yours.  Alone: list.",
)


@command("list", "coterie config list", config)
@pass_call
def list_(call: Call) -> None:
    """Every setting, its value, and who said so."""
    settings = _all(call).list()
    for one in settings:
        call.record("setting", vars(one))
    call.lines(_table(settings, call.width))


@command("get", "coterie config get keeper", config)
@click.argument("key")
@pass_call
def get(call: Call, key: str) -> None:
    """One setting."""
    found = _all(call).get(key)
    call.record("setting", vars(found))
    call.line(_shown(found.value))


@command("set", "coterie config set quietAfter 5m --user", config)
@click.argument("key")
@click.argument("value", required=False)
@click.option("--user", is_flag=True, help="For all your projects, not for this one.")
@click.option("--unset", is_flag=True, help="Back to what holds without it.")
@pass_call
def set_(call: Call, key: str, value: str | None, *, user: bool, unset: bool) -> None:
    """Set one setting, for this project or for all of yours."""
    if unset == (value is not None):
        raise UsageError("Give a value, or --unset.", f"coterie config set {key} VALUE")
    _all(call).get(key)  # an unknown key is refused before anything is made
    project = here(call) if user else made(call, here(call))
    agreed = agree_to_remote(project, value) if user and key == "travel" and value else None
    found, path = change_setting(project, key, value, user=user)
    call.record("setting", vars(found) | {"path": str(path)})
    call.line(f"{key} = {_shown(found.value)}   ({found.origin})")
    if agreed is not None:
        call.line(f"Branches of this project go by {agreed}")


@command("schema", "coterie config schema team > team.schema.json", config)
@click.argument("name", metavar="team|registry|roles|scheduler|…")
@pass_call
def schema(call: Call, name: str) -> None:
    """The JSON Schema of a file, for your editor: name it in the file as "$schema"."""
    from coterie.app.schemas import shipped

    found = shipped(name)
    call.record("schema", {"name": name, "schema": found})
    call.line(json.dumps(found, indent=2))


def _all(call: Call) -> AllSettings:
    return settings_of(here(call))


def _table(settings: tuple[Setting, ...], width: int) -> list[str]:
    rows = [(f"  {one.key}", _shown(one.value), one.origin, one.description) for one in settings]
    if width >= 100:
        return table(rows, width)
    lines: list[str] = []
    for one, line in zip(settings, table([row[:3] for row in rows], width), strict=True):
        lines += [line, *(f"      {part}" for part in wrap(one.description, width - 6))]
    return lines


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
