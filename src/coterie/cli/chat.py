"""`coterie chat`: a team that talks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.cli import work
from coterie.cli.call import Call, command, pass_call
from coterie.cli.work import Patience, work_options
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.model.task import Caps


@command("chat", 'coterie chat -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@click.option("-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file.")
@click.option("--agents", metavar="A,B", help="No file needed: claude,codex or sec=claude:opus.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End after N turns.")
@click.option("--max-rounds", type=click.IntRange(1), metavar="N", help="Rounds without you (1).")
@work_options
@pass_call
def chat(
    call: Call,
    message: tuple[str, ...],
    team: str | None,
    agents: str | None,
    **more: Any,
) -> None:
    """Talk with a team.

    Without a message you type it on a terminal; elsewhere it is read from stdin.
    """
    if team is not None and agents is not None:
        raise UsageError("--team and --agents at once.", "Give one of them.")
    goal = work.goal(call, message, 'coterie chat "what the team should do"')
    rehearsal = work.rehearsal(call, more["script"], wished=more["rehearse"])

    import anyio

    from coterie.cli.opening import prepared
    from coterie.cli.running import Start, begin

    project, chosen = prepared(call, team, agents)
    limit = _caps(call, more["max_turns"], more["max_rounds"])
    start = Start(chosen.team, goal, limit, chosen.path, rehearsal)
    patience = Patience.of(call, more["wait"])
    raise click.exceptions.Exit(anyio.run(begin, call, project, start, patience))


@command("rehearse", 'coterie rehearse -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@click.option("-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file.")
@click.option("--agents", metavar="A,B", help="No file needed: claude,codex or sec=claude:opus.")
@click.option("--script", metavar="FILE", help="The replies; else the stand-in makes them up.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End after N turns.")
@click.option("--max-rounds", type=click.IntRange(1), metavar="N", help="Rounds without you (1).")
@click.option("--wait", type=work.Span(), metavar="30m", help="How long a question is waited for.")
@click.pass_context
def rehearse(context: click.Context, **given: Any) -> None:
    """Try a team with its real CLIs on a stand-in for the model: no tokens, no login."""
    context.invoke(chat, rehearse=True, **given)


def _caps(call: Call, turns: float | None, rounds: float | None) -> Caps:
    """When to end: one round, unless told; `--max-turns` alone lifts the cap on rounds."""
    from coterie.model.task import Caps

    return Caps(
        max_turns=None if turns is None else int(turns),
        max_rounds=int(rounds) if rounds is not None else (1 if turns is None else None),
        floor="ask" if call.live else "end",
    )
