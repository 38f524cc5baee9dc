"""`chat`, `do` and `run`: a team that talks, one member's job, a goal that becomes checked work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import click

from coterie.cli.main import Call, command, pass_call
from coterie.cli.text import Span
from coterie.errors import NotFound, UsageError

if TYPE_CHECKING:
    from coterie.app.project import Power
    from coterie.app.run import Rehearsal, StartRequest
    from coterie.app.teams import Teams, TeamView
    from coterie.model.task import Caps
    from coterie.model.team import Team

P = ParamSpec("P")

LONGEST = 10_000_000
"""No message is longer than this many characters."""


TEAM = click.option(
    "-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file."
)
_WAIT = click.option(
    "--wait", type=Span(), metavar="30m", help="How long a question is waited for."
)
AGENTS = click.option(
    "--agents", metavar="A,B", help="No file needed: claude,codex or sec=claude:opus."
)
_CAPS = (
    click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End after N turns."),
    click.option(
        "--max-rounds", type=click.IntRange(1), metavar="N", help="Rounds without you (1)."
    ),
)
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show exactly what would be started, and where; start nothing."
)
REHEARSAL = (
    _DRY_RUN,
    _WAIT,
    click.option(
        "--rehearse", is_flag=True, help="Real CLIs on a stand-in for the model: no tokens."
    ),
    click.option("--script", metavar="FILE", help="Rehearse with the replies of this file."),
    click.option(
        "--detach", is_flag=True, help="Only offer it to the machines that share a store."
    ),
)

Decorator = Callable[[Callable[P, None]], Callable[P, None]]


def options(*options: Callable[[Callable[P, None]], Callable[P, None]]) -> Decorator[P]:
    """Several options as one, in the order in which the help names them."""

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@command("chat", 'coterie chat -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@options(TEAM, AGENTS, *_CAPS, *REHEARSAL)
@pass_call
def chat(
    call: Call, message: tuple[str, ...], team: str | None, agents: str | None, **more: Any
) -> None:
    """Talk with a team.

    Without a message you type it on a terminal; elsewhere it is read from stdin.
    """
    goal = goal_of(call, message, 'coterie chat "what the team should do"')
    from coterie.app import start

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        caps = _caps(call, view.team, more["max_turns"], more["max_rounds"])
        return start.chat(view, goal, caps, rehearsal)

    carry_out(call, lambda teams: teams.choose(team, agents), make, more)


@command("rehearse", 'coterie rehearse -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@options(TEAM, AGENTS)
@click.option("--script", metavar="FILE", help="The replies; else the stand-in makes them up.")
@options(*_CAPS, _DRY_RUN, _WAIT)
@click.pass_context
def rehearse(context: click.Context, **given: Any) -> None:
    """Try a team with its real CLIs on a stand-in for the model: no tokens, no login."""
    context.invoke(chat, rehearse=True, **given)


def _caps(call: Call, team: Team, turns: int | None, rounds: int | None) -> Caps:
    """When to end: one round, unless told; `--max-turns` alone lifts the cap on rounds."""
    from coterie.model.task import Caps

    floor = "ask" if call.live else "end"
    if turns is None and rounds is None:
        return Caps.of(team, floor=floor)
    return Caps(max_turns=turns, max_rounds=rounds, floor=floor)


@command("do", 'coterie do --agent claude "make test_total fast"')
@click.argument("words", metavar="[GOAL]", nargs=-1)
@click.option("--as", "member", metavar="MEMBER", help="Who does it; else the team's first.")
@click.option("--agent", metavar="NAME", help="No team needed: claude or claude:opus.")
@options(TEAM, *REHEARSAL)
@pass_call
def do(
    call: Call,
    words: tuple[str, ...],
    member: str | None,
    agent: str | None,
    team: str | None,
    **more: Any,
) -> None:
    """One agent, one job: it works until it is done, and asks before it changes anything.

    Without a goal you type it on a terminal; elsewhere it is read from stdin.
    """
    if agent is not None and (member is not None or team is not None):
        raise UsageError("--agent needs no team.", "Give --agent, or -t and --as.")
    goal = goal_of(call, words, 'coterie do "what should be done"')
    if agent is not None and ("," in agent or "=" in agent):
        raise UsageError("--agent takes one agent.", "--agent claude, or --agent claude:opus")
    from coterie.app import start

    def choose(teams: Teams) -> TeamView:
        try:
            return teams.choose(team, agent)
        except UsageError as mistake:
            raise _of_one_member(mistake, agent) from None

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        return start.solo(view, goal, member, rehearsal)

    carry_out(call, choose, make, more)


def _of_one_member(mistake: UsageError, agent: str | None) -> UsageError:
    """A mistake that was found for a team of several, in the words of `do`."""
    if agent is not None:
        return replace(mistake, message=mistake.message.replace("--agents:", "--agent:"))
    if isinstance(mistake, NotFound) and "--agents" in (mistake.advice or ""):
        return replace(mistake, advice="coterie init, or --agent claude")
    return mistake


def _complete_workflow(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    from coterie.app.run import workflow_names

    return [name for name in workflow_names() if name.startswith(incomplete)]


@command("run", 'coterie run --agents mira=claude,wren=codex "add coupons to the checkout"')
@click.argument("words", metavar="[GOAL]", nargs=-1)
@options(TEAM)
@click.option("--agents", metavar="A,B", help="No file needed: mira=claude,wren=codex; A manages.")
@click.option(
    "--workflow",
    metavar="NAME",
    shell_complete=_complete_workflow,
    help="How: tickets, chat, solo or one you installed; else the team's.",
)
@click.option("--yes", is_flag=True, help="Approve the plan and the final report; never a tool.")
@options(*REHEARSAL)
@pass_call
def run(
    call: Call, words: tuple[str, ...], team: str | None, agents: str | None, **more: Any
) -> None:
    """A goal becomes tickets, tickets become checked work.

    The workflow says how; where none is named, a team works on tickets: the first member (or the
    one whose role is manager) plans and reviews, the others do the work. Without a team named,
    .coterie/roles.json counts where there is one.
    """
    goal = goal_of(call, words, 'coterie run "what should be reached"')
    from coterie.app import start

    def choose(teams: Teams) -> TeamView:
        view = teams.choose(team, agents, or_roles=True)
        start.workflow_of(view, more["workflow"])  # known before anything is made
        return view

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        from coterie.model.task import Caps

        caps = Caps.of(view.team, yes=more["yes"], floor="ask" if call.live else "end")
        return start.run(view, goal, caps, rehearsal, more["workflow"])

    carry_out(call, choose, make, more)


def carry_out(
    call: Call,
    choose: Callable[[Teams], TeamView],
    make: Callable[[TeamView, Rehearsal], StartRequest],
    more: dict[str, Any],
) -> None:
    """Start what is asked for, or show what would be."""
    if more["dry_run"]:
        return _dry_run(call, choose, make, more)
    if more.get("detach"):  # known before anything is made
        from coterie.app.store import store_url

        store_url(call.store)
    rehearsal = _rehearsal(call, more)
    start = make(_prepared(call, choose, rehearsal), rehearsal)
    if more.get("detach"):
        from coterie.cli.worker import offer_new

        return offer_new(call, start)
    return _begin(call, start, more["wait"])


def _dry_run(
    call: Call,
    choose: Callable[[Teams], TeamView],
    make: Callable[[TeamView, Rehearsal], StartRequest],
    more: dict[str, Any],
) -> None:
    """Show what would be started, and stop there."""
    import anyio

    from coterie.app import dry_run as app
    from coterie.app.start import rehearsal_of
    from coterie.app.teams import Teams
    from coterie.cli import dry_run
    from coterie.cli.main import here, show_notices

    rehearsal = rehearsal_of(more["script"], wanted=more["rehearse"])
    teams = Teams(here(call), rehearsal=rehearsal is not False)
    view = choose(teams)
    show_notices(call, (*teams.registry.notices, *view.loaded.notices))
    kept = teams.kept(view)
    dry_run.show(call, anyio.run(app.dry_run, teams, kept, make(kept, rehearsal)))
    teams.usable(view)  # says what would be asked first


def goal_of(call: Call, words: tuple[str, ...], example: str) -> str | None:
    """What was said on the command line or piped in; None where it will be typed."""
    text = " ".join(words)
    if not words:
        if call.live:
            return None
        text = "" if sys.stdin.isatty() else sys.stdin.read(LONGEST + 1)
    if not text.strip():
        raise UsageError("There is no message.", example)
    if len(text) > LONGEST:
        raise UsageError(f"The message has more than {LONGEST} characters.")
    return text.strip("\n")


def _rehearsal(call: Call, more: dict[str, Any]) -> Rehearsal:
    """Whether models are stood in for, and by which file; checked before anything is made."""
    if not more["rehearse"] and more["script"] is None:
        return False
    from coterie.app.start import rehearsal_of

    rehearsal = rehearsal_of(more["script"], wanted=more["rehearse"])
    call.note("Rehearsal: the models are stand-ins. No tokens, no login; replies mean nothing.")
    return rehearsal


_STOOD_IN = {
    "unknown": "there is no stand-in for its model, so it is not run: a stand-in takes its place",
    "missing": "it is not installed: a stand-in takes its place",
}


def _note_stand_ins(call: Call, teams: Teams, view: TeamView) -> None:
    """Say which agents are not run at all."""
    from coterie.app.rehearsals import stood_in_for

    for agent, why in stood_in_for(view.team, teams.registry).items():
        call.note(f"  {agent}  {_STOOD_IN[why]}.")


def _begin(call: Call, start: StartRequest, wait: float | None) -> NoReturn:
    import anyio

    from coterie.cli.main import here
    from coterie.cli.running import Patience, start_task

    patience = Patience.of(call, wait)
    raise click.exceptions.Exit(anyio.run(start_task, call, here(call), start, patience))


def _prepared(
    call: Call, choose: Callable[[Teams], TeamView], rehearsal: Rehearsal = False
) -> TeamView:
    """The team that is meant, as it may work here.  Nothing is made before it is known."""
    from coterie.app.teams import Teams
    from coterie.cli.main import here, made, show_notices

    teams = Teams(here(call), rehearsal=rehearsal is not False)
    show_notices(call, teams.registry.notices)
    view = choose(teams)
    if rehearsal is not False:
        _note_stand_ins(call, teams, view)
    view = settled(call, teams, view)
    made(call, teams.project)
    if files := teams.unread_material():
        from coterie.cli.members import ask_about_material

        ask_about_material(call, teams, files)
    return view


def settled(call: Call, teams: Teams, view: TeamView) -> TeamView:
    """A team as it may work here: allowed, and known who its members are; a person is asked."""
    from coterie.cli.main import show_notices

    if view.refused is not None and call.attended and agrees(call, teams, view):
        view = teams.trust(view)
    show_notices(call, view.loaded.notices)
    if view.refused is None and call.attended and teams.changed_members(view):
        from coterie.cli.members import ask_about_changed

        view = ask_about_changed(call, teams, view)
    return teams.usable(view)


def agrees(call: Call, teams: Teams, view: TeamView) -> bool:
    """Show what a team file asks for; whether the person agrees.  No answer is no."""
    show_powers(call, teams, view)
    return click.confirm("Use it, as it is now?", default=False)


def show_powers(call: Call, teams: Teams, view: TeamView) -> None:
    """What a team file asks for that could do harm."""
    powers = teams.powers(view)
    asks = "" if powers else " nothing that could do harm."
    call.line(f"{view.loaded.path} asks for{asks}")
    show_asked(call, powers)


def show_asked(call: Call, powers: tuple[Power, ...]) -> None:
    """Each of the powers on a line."""
    from coterie.cli.text import printable

    for power in powers:
        who = f"{power.member}: " if power.member else ""
        call.line(f"  {printable(who + power.what)}")
