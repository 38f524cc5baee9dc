"""`coterie agents`: the registry, which says what programs can be members of teams."""

from __future__ import annotations

from typing import Literal

import click

from coterie.app.agents import Agents, Registry, Scan, program
from coterie.cli.call import Call, command, group, pass_call
from coterie.cli.project import show_notices
from coterie.cli.text import one_line, table
from coterie.model.agent import AgentDefinition

Given = str | int | bool | None


@group("agents", "coterie agents add mine --ends-with result -- python3 agent.py")
@click.pass_context
def agents(context: click.Context) -> None:
    """The registry of this machine: which programs can be members.  Alone: list."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Call))


@command("list", "coterie agents list --json")
@pass_call
def list_(call: Call) -> None:
    """Every registered agent, and whether its program is there."""
    _list(call)


@command("scan", "coterie agents scan")
@pass_call
def scan(call: Call) -> None:
    """Look for agents on PATH and enter what is found; what you changed by hand is kept."""
    made = Agents().scan()
    show_notices(call, made.registry.notices)
    call.record("scan", fields_of_scan(made))
    call.line(said_of_scan(made))
    _list(call, made.registry)


@command("add", "coterie agents add mine --ends-with result -- python3 agent.py")
@click.argument("name")
@click.argument("program_", metavar="-- COMMAND [ARGS]…", nargs=-1, required=True)
@click.option("--ends-with", metavar="TYPE,…", help="A JSON line of this type ends a reply.")
@click.option("--ends-when", metavar="REGEX", help="A line that matches ends a reply.")
@click.option("--silence", type=int, metavar="MS", help="So long a silence ends a reply (2000).")
@click.option("--text-field", metavar="NAME", help="The field of the ending line with the reply.")
@click.option("--prompt-flag", metavar="FLAG", help="The flag that takes a member's role.")
@click.option("--model-flag", metavar="FLAG", help="The flag that takes a member's model.")
@click.option("--persistent", is_flag=True, help="The process stays and takes a prompt per turn.")
@click.option("--pty", is_flag=True, help="Run it under a pseudo-terminal.")
@click.option("--replace", is_flag=True, help="Put it in the place of one with this name.")
@pass_call
def add(call: Call, name: str, program_: tuple[str, ...], **options: Given) -> None:
    """Enter an agent by hand: any program that reads a prompt and prints a reply."""
    facts = _facts(options)
    pty, replace = options["pty"] is True, options["replace"] is True
    entry, registry = Agents().add(name, program_, facts, use_pty=pty, replacing=replace)
    call.record("agent", fields_of(entry))
    call.line(f"Added {name} to {registry.path}.")
    if program(entry.command) is None:
        call.note(f"! {entry.command} is not found on PATH; it is registered all the same.")


@command("migrate", "coterie agents migrate")
@pass_call
def migrate(call: Call) -> None:
    """Rewrite an old registry to the newest form; a copy is kept, dropped prompts are shown."""
    done = Agents().migrate()
    dropped = [vars(one) for one in done.dropped]
    fields = {"path": str(done.path), "changed": done.changed, "dropped": dropped}
    call.record("migration", fields | {"backup": str(done.backup) if done.backup else None})
    if not done.changed:
        call.line(f"{done.path} is as it should be; nothing was changed.")
        return
    call.line(f"Wrote {done.path}; the old one is kept as {done.backup}.")
    for one in done.dropped:
        call.line(f"  dropped from {one.agent}: {one.flag} {one_line(one.text)}")
    if done.dropped:
        call.line("A role's prompt belongs to a member: put it into the team file as `prompt`.")
    show_notices(call, done.notices)


for _one in (list_, scan, add, migrate):
    agents.add_command(_one)


# -- shown elsewhere too -----------------------------------------------------------------------


def said_of_scan(made: Scan) -> str:
    """What a scan found, in a sentence."""
    if not made.found:
        return f"Found no agent that Coterie knows by name. Registry: {made.registry.path}"
    found = ", ".join(one.facts.name for one in made.found)
    new = f"; new: {', '.join(made.added)}" if made.added else ""
    return f"Found {found}{new}. Registry: {made.registry.path}"


def fields_of_scan(made: Scan) -> dict[str, object]:
    """What a scan found, for machines."""
    return {
        "path": str(made.registry.path),
        "found": [one.facts.name for one in made.found],
        "added": list(made.added),
        "updated": list(made.updated),
        "missing": list(made.missing),
    }


def fields_of(agent: AgentDefinition) -> dict[str, object]:
    """An entry, for machines; the values of its environment are not shown."""
    shown: dict[str, object] = agent.model_dump(mode="json", exclude={"env"})
    return shown | {"env": sorted(agent.env), "found": Agents().place(agent)}


def _list(call: Call, registry: Registry | None = None) -> None:
    if registry is None:
        registry = Agents().registry()
        show_notices(call, registry.notices)
    for agent in registry.agents.values():
        call.record("agent", fields_of(agent))
    if not registry.agents:
        call.line("No agent is registered yet.   coterie agents scan")
        return
    rows = [_row(agent) for agent in registry.agents.values()]
    call.lines(table(rows, call.width))
    call.line("Which of them run now: coterie ps")


def _row(agent: AgentDefinition) -> tuple[str, str, str, str]:
    where = Agents().place(agent)
    state: Literal["ready", "not found"] = "ready" if where else "not found"
    return (f"  {agent.name}", agent.version or "-", state, where or agent.command)


def _facts(options: dict[str, Given]) -> dict[str, object]:
    """The options as capabilities under their names in the registry."""
    facts: dict[str, object] = {}
    if isinstance(types := options["ends_with"], str):
        facts["completionDetection"] = "jsonl"
        facts["completionTypes"] = [one.strip() for one in types.split(",") if one.strip()]
    if options["ends_when"] is not None:
        facts["completionDetection"] = "custom"
        facts["completionPattern"] = options["ends_when"]
    names = {
        "silence": "idleTimeoutMs",
        "text_field": "textField",
        "prompt_flag": "systemPromptFlag",
        "model_flag": "modelFlag",
    }
    facts |= {name: options[key] for key, name in names.items() if options[key] is not None}
    if options["persistent"]:
        facts["persistent"] = True
    return facts
