"""`coterie demo`: a team at work, for real and for nothing."""

from __future__ import annotations

import click

from coterie.cli.call import Call, command, pass_call
from coterie.errors import UsageError


@command("demo", "coterie demo --agents codex,claude")
@click.option("--agents", metavar="A,B", help="Real CLIs in place of built-in agents; A manages.")
@click.option("--chat", is_flag=True, help="A conversation instead: three members review a file.")
@click.option("--keep", is_flag=True, help="With --chat: keep the folder.")
@pass_call
def demo(call: Call, *, agents: str | None, chat: bool, keep: bool) -> None:
    """A goal becomes tickets, tickets become checked work, in a small repository of its own.

    Real processes, a real database, real git; no login, no tokens, nothing of yours.
    """
    if agents is not None and chat:
        raise UsageError("--agents and --chat at once.", "Give one of them.")
    if not chat and agents is None and not _has_built_in():
        call.note('The built-in agent is not installed (pip install "coterie[builtin]"): a chat.')
        chat = True
    if chat:
        from coterie.cli.demo_chat import chat as talk

        raise click.exceptions.Exit(talk(call, keep=keep))
    from coterie.cli.demo_tickets import tickets

    raise click.exceptions.Exit(tickets(call, agents))


def _has_built_in() -> bool:
    from coterie.agents.builtin import FACTS
    from coterie.config.registry import is_included

    return is_included(FACTS)
