"""`coterie chat`: a team that talks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli import figures
from coterie.cli.call import Call, command, pass_call
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.model.task import Caps

LONGEST = 10_000_000
"""No message is longer than this many characters."""


class Span(click.ParamType[float]):
    """A time such as `30m`, in seconds."""

    name = "span"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = figures.seconds(str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write it like 90s, 30m or 1h30m.", param, ctx)
        return found


@command("chat", 'coterie chat -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@click.option("-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file.")
@click.option("--agents", metavar="A,B", help="No file needed: claude,codex or sec=claude:opus.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End after N turns.")
@click.option("--max-rounds", type=click.IntRange(1), metavar="N", help="Rounds without you (1).")
@click.option("--wait", type=Span(), metavar="30m", help="How long a question is waited for.")
@click.option("--rehearse", is_flag=True, help="Real CLIs on a stand-in for the model: no tokens.")
@click.option("--script", metavar="FILE", help="Rehearse with the replies of this file.")
@pass_call
def chat(
    call: Call,
    message: tuple[str, ...],
    team: str | None,
    agents: str | None,
    *,
    rehearse: bool,
    **more: Any,
) -> None:
    """Talk with a team.

    Without a message you type it on a terminal; elsewhere it is read from stdin.
    """
    if team is not None and agents is not None:
        raise UsageError("--team and --agents at once.", "Give one of them.")
    goal = _message(call, message)
    script = _script(more["script"])
    rehearse = rehearse or script is not None

    import anyio

    from coterie.cli.conversation import Start, begin
    from coterie.cli.opening import prepared

    project, chosen = prepared(call, team, agents)
    limit = _caps(call, more["max_turns"], more["max_rounds"])
    if rehearse:
        call.note("Rehearsal: the models are stand-ins. No tokens, no login; replies mean nothing.")
    start = Start(chosen.team, goal, limit, chosen.path, script or rehearse)
    patience = more["wait"] if more["wait"] is not None else default_patience(call)
    raise click.exceptions.Exit(anyio.run(begin, call, project, start, patience))


def _script(given: str | None) -> Path | None:
    """The file of a scripted rehearsal, checked before anything is made."""
    if given is None:
        return None
    from coterie.rehearsal.script import read_script

    path = Path(given).expanduser().absolute()  # the task may be resumed from elsewhere
    read_script(path)
    return path


@command("rehearse", 'coterie rehearse -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@click.option("-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file.")
@click.option("--agents", metavar="A,B", help="No file needed: claude,codex or sec=claude:opus.")
@click.option("--script", metavar="FILE", help="The replies; else the stand-in makes them up.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End after N turns.")
@click.option("--max-rounds", type=click.IntRange(1), metavar="N", help="Rounds without you (1).")
@click.option("--wait", type=Span(), metavar="30m", help="How long a question is waited for.")
@click.pass_context
def rehearse(context: click.Context, **given: Any) -> None:
    """Try a team with its real CLIs on a stand-in for the model: no tokens, no login."""
    context.invoke(chat, rehearse=True, **given)


def default_patience(call: Call) -> float | None:
    """For ever where a person sits; not at all where nobody could answer."""
    return None if call.live else 0.0


def _caps(call: Call, turns: float | None, rounds: float | None) -> Caps:
    """When to end: one round, unless told; `--max-turns` alone lifts the cap on rounds."""
    from coterie.model.task import Caps

    return Caps(
        max_turns=None if turns is None else int(turns),
        max_rounds=int(rounds) if rounds is not None else (1 if turns is None else None),
        floor="ask" if call.live else "end",
    )


def _message(call: Call, words: tuple[str, ...]) -> str | None:
    """What was said on the command line or piped in; None where it will be typed."""
    text = " ".join(words)
    if not words:
        if call.live:
            return None
        text = "" if sys.stdin.isatty() else sys.stdin.read(LONGEST + 1)
    if not text.strip():
        raise UsageError("There is no message.", 'coterie chat "what the team should do"')
    if len(text) > LONGEST:
        raise UsageError(f"The message has more than {LONGEST} characters.")
    return text.strip("\n")
