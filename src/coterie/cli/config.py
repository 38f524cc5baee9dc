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
from coterie.cli.main import Call, command, current_project, ensure_project, list_group
from coterie.cli.text import table, wrap
from coterie.errors import UsageError


@list_group(
    "config",
    "coterie config set quietAfter 5m",
    "Settings; the project's override yours.  Without a subcommand: list.",
    "coterie config list",
)
def config(call: Call) -> None:
    """Every setting, its value, and where it comes from."""
    settings = _all(call).list()
    for one in settings:
        call.record("setting", vars(one))
    call.lines(_table(settings, call.width))


@command("get", "coterie config get keeper", config)
@click.argument("key")
def get(call: Call, key: str) -> None:
    """The value of one setting."""
    setting = _all(call).get(key)
    call.record("setting", vars(setting))
    call.line(_shown(setting.value))


@command("set", "coterie config set quietAfter 5m --user", config)
@click.argument("key")
@click.argument("value", required=False)
@click.option("--user", is_flag=True, help="For all your projects, not just this one.")
@click.option("--unset", is_flag=True, help="Remove the value instead.")
def set_(call: Call, key: str, value: str | None, *, user: bool, unset: bool) -> None:
    """Change a setting, for this project or for all of yours."""
    if unset == (value is not None):
        raise UsageError("Give a value, or --unset.", f"coterie config set {key} VALUE")
    _all(call).get(key)  # refuse an unknown key before creating anything
    project = current_project(call) if user else ensure_project(call)
    agreed = agree_to_remote(project, value) if user and key == "travel" and value else None
    setting, path = change_setting(project, key, value, user=user)
    call.record("setting", vars(setting) | {"path": str(path)})
    call.line(f"{key} = {_shown(setting.value)}   ({setting.origin})")
    if agreed is not None:
        call.line(f"Branches of this project travel via {agreed}")


@command("schema", "coterie config schema team > team.schema.json", config)
@click.argument("name", metavar="team|registry|roles|scheduler|…")
def schema(call: Call, name: str) -> None:
    """The JSON Schema of a file, for your editor. Name it in the file as "$schema"."""
    from coterie.app.schemas import shipped

    json_schema = shipped(name)
    call.record("schema", {"name": name, "schema": json_schema})
    call.line(json.dumps(json_schema, indent=2))


def _all(call: Call) -> AllSettings:
    return settings_of(current_project(call))


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
