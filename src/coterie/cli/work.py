"""`chat`, `do` and `run`: a team that talks, one member's job, a goal that becomes checked work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import click

from coterie.cli.main import Call, command
from coterie.cli.text import Span
from coterie.errors import UsageError
from coterie.model.visible import visible_line

if TYPE_CHECKING:
    from coterie.app.project import Power
    from coterie.app.run import Rehearsal, StartRequest
    from coterie.app.teams import Teams, TeamView

    Choose = Callable[[Teams], TeamView]
    Make = Callable[[TeamView, Rehearsal], StartRequest]

P = ParamSpec("P")

LONGEST = 10_000_000
"""The most characters that a message may have."""


TEAM = click.option(
    "-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file."
)
_WAIT = click.option("--wait", type=Span(), metavar="30m", help="How long to wait for an answer.")
AGENTS = click.option(
    "--agents", metavar="A,B", help="Instead of a team: claude,codex or sec=claude:opus."
)
_CAPS = (
    click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End after N turns."),
    click.option(
        "--max-rounds",
        type=click.IntRange(1),
        metavar="N",
        help="End after N rounds without you (1).",
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
    click.option("--script", metavar="FILE", help="Rehearse with the replies in this file."),
    click.option(
        "--detach", is_flag=True, help="Only offer it to the machines that share the store."
    ),
)

Decorator = Callable[[Callable[P, None]], Callable[P, None]]


def options(*options: Callable[[Callable[P, None]], Callable[P, None]]) -> Decorator[P]:
    """Combine several options into one, in the order in which the help lists them."""

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@command("chat", 'coterie chat -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@options(TEAM, AGENTS, *_CAPS, *REHEARSAL)
def chat(
    call: Call, message: tuple[str, ...], team: str | None, agents: str | None, **more: Any
) -> None:
    """Talk with a team.

    Without a message: you type it on a terminal, else it is read from stdin.
    """
    goal = goal_of(call, message, 'coterie chat "what the team should do"')
    from coterie.app import start

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        from coterie.model.task import Caps

        given = {name: more[name] for name in ("max_turns", "max_rounds")}
        caps = Caps.of(view.team, floor="ask" if call.live else "end", **given)
        return start.chat(view, goal, caps, rehearsal)

    start_or_dry_run(call, lambda teams: teams.choose(team, agents), make, more)


@command("rehearse", 'coterie rehearse -t pair "why is test_total slow?"')
@click.argument("message", nargs=-1)
@options(TEAM, AGENTS)
@click.option("--script", metavar="FILE", help="The replies; default: the stand-in makes them up.")
@options(*_CAPS, _DRY_RUN, _WAIT)
def rehearse(call: Call, **given: Any) -> None:
    """Try a team with its real CLIs on a stand-in for the model: no tokens, no login."""
    click.get_current_context().invoke(chat, rehearse=True, **given)


@command("do", 'coterie do --agent claude "make test_total fast"')
@click.argument("words", metavar="[GOAL]", nargs=-1)
@click.option(
    "--as", "member", metavar="MEMBER", help="Who does it; default: the team's first member."
)
@click.option("--agent", metavar="NAME", help="Instead of a team: claude or claude:opus.")
@options(TEAM, *REHEARSAL)
def do(
    call: Call,
    words: tuple[str, ...],
    member: str | None,
    agent: str | None,
    team: str | None,
    **more: Any,
) -> None:
    """One agent, one job: it works until it is done, and asks before it changes anything.

    Without a goal: you type it on a terminal, else it is read from stdin.
    """
    if agent is not None and (member is not None or team is not None):
        raise UsageError(
            "--agent cannot be combined with -t or --as.", "Give --agent, or -t and --as."
        )
    goal = goal_of(call, words, 'coterie do "what should be done"')
    if agent is not None and ("," in agent or "=" in agent):
        raise UsageError("--agent takes one agent.", "--agent claude, or --agent claude:opus")
    from coterie.app import start

    def choose(teams: Teams) -> TeamView:
        return teams.choose(team, agent, one_agent=True)

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        return start.solo(view, goal, member, rehearsal)

    start_or_dry_run(call, choose, make, more)


def _complete_workflow(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    from coterie.app.run import workflow_names

    return [name for name in workflow_names() if name.startswith(incomplete)]


@command("run", 'coterie run --agents mira=claude,wren=codex "add coupons to the checkout"')
@click.argument("words", metavar="[GOAL]", nargs=-1)
@options(TEAM)
@click.option(
    "--agents",
    metavar="A,B",
    help="Instead of a team: mira=claude,wren=codex; the first one manages.",
)
@click.option(
    "--workflow",
    metavar="NAME",
    shell_complete=_complete_workflow,
    help="tickets, chat, solo or one you installed; default: the team's.",
)
@click.option("--yes", is_flag=True, help="Approve the plan and the final report; never a tool.")
@options(*REHEARSAL)
def run(
    call: Call, words: tuple[str, ...], team: str | None, agents: str | None, **more: Any
) -> None:
    """Turn a goal into tickets, and tickets into checked work.

    The workflow says how. By default a team works on tickets: the first member (or the one whose
    role is manager) plans and reviews, the others do the work. Without a team, .coterie/roles.json
    is used if it exists.
    """
    goal = goal_of(call, words, 'coterie run "what should be achieved"')
    from coterie.app import start

    def choose(teams: Teams) -> TeamView:
        view = teams.choose(team, agents, or_roles=True)
        start.workflow_of(view, more["workflow"])  # fails before anything is created
        return view

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        from coterie.model.task import Caps

        caps = Caps.of(view.team, yes=more["yes"], floor="ask" if call.live else "end")
        return start.run(view, goal, caps, rehearsal, more["workflow"])

    start_or_dry_run(call, choose, make, more)


def start_or_dry_run(call: Call, choose: Choose, make: Make, more: dict[str, Any]) -> None:
    """Start what is asked for, or show what would be started."""
    if more["dry_run"]:
        return _dry_run(call, choose, make, more)
    if more.get("detach"):  # fail before anything is created
        from coterie.app.store import store_url

        store_url(call.store)
    rehearsal = _rehearsal(call, more)
    start = make(_prepare_team(call, choose, rehearsal), rehearsal)
    if more.get("detach"):
        from coterie.cli.worker import offer_new

        return offer_new(call, start)
    return _begin(call, start, more["wait"])


def _dry_run(call: Call, choose: Choose, make: Make, more: dict[str, Any]) -> None:
    """Show what would be started, and stop there."""
    import anyio

    from coterie.app import dry_run as app
    from coterie.app.start import rehearsal_of
    from coterie.app.teams import Teams
    from coterie.cli import dry_run
    from coterie.cli.main import current_project, show_notices

    rehearsal = rehearsal_of(more["script"], wanted=more["rehearse"])
    teams = Teams(current_project(call), rehearsal=rehearsal is not False)
    view = choose(teams)
    show_notices(call, (*teams.registry.notices, *view.loaded.notices))
    saved = teams.with_saved_identities(view)
    dry_run.show(call, anyio.run(app.dry_run, teams, make(saved, rehearsal)))
    teams.require_usable(view)  # raises for what the user would be asked first


def goal_of(call: Call, words: tuple[str, ...], example: str) -> str | None:
    """Return what was given on the command line or piped in; None if it will be typed."""
    text = " ".join(words)
    if not words:
        if call.live:
            return None
        text = "" if sys.stdin.isatty() else sys.stdin.read(LONGEST + 1)
    if not text.strip():
        raise UsageError("No message given.", example)
    if len(text) > LONGEST:
        raise UsageError(f"The message has more than {LONGEST} characters.")
    return text.strip("\n")


def _rehearsal(call: Call, more: dict[str, Any]) -> Rehearsal:
    """Return whether to rehearse, and with which script; checked before anything is created."""
    if not more["rehearse"] and more["script"] is None:
        return False
    from coterie.app.start import rehearsal_of

    rehearsal = rehearsal_of(more["script"], wanted=more["rehearse"])
    call.note("Rehearsal: the models are stand-ins. No tokens, no login; the replies mean nothing.")
    return rehearsal


_STAND_IN_REASONS = {
    "unknown": "there is no stand-in for its model: a stand-in agent replaces it",
    "missing": "it is not installed: a stand-in agent replaces it",
}


def _note_stand_ins(call: Call, teams: Teams, view: TeamView) -> None:
    """Say which agents are not run, but replaced by a stand-in."""
    from coterie.app.rehearsals import agents_to_replace

    for agent, why in agents_to_replace(view.team, teams.registry).items():
        call.note(f"  {agent}  {_STAND_IN_REASONS[why]}.")


def _begin(call: Call, start: StartRequest, wait: float | None) -> NoReturn:
    import anyio

    from coterie.cli.main import current_project
    from coterie.cli.running import WaitOptions, start_task

    waiting = WaitOptions.of(call, wait)
    raise click.exceptions.Exit(anyio.run(start_task, call, current_project(call), start, waiting))


def _prepare_team(call: Call, choose: Choose, rehearsal: Rehearsal = False) -> TeamView:
    """Return the chosen team, ready to work here. Nothing is created before it is known."""
    from coterie.app.teams import Teams
    from coterie.cli.main import current_project, ensure_project, show_notices

    teams = Teams(current_project(call), rehearsal=rehearsal is not False)
    show_notices(call, teams.registry.notices)
    view = choose(teams)
    if rehearsal is not False:
        _note_stand_ins(call, teams, view)
    view = ready_team(call, teams, view)
    ensure_project(call, teams.project)
    if files := teams.unread_material():
        from coterie.cli.members import ask_about_material

        ask_about_material(call, teams, files)
    return view


def ready_team(call: Call, teams: Teams, view: TeamView) -> TeamView:
    """Return a team that may work here: trusted, its edited members settled; may ask the user."""
    from coterie.cli.main import show_notices

    if view.refused is not None and call.attended and confirm_trust(call, teams, view):
        view = teams.trust(view)
    show_notices(call, view.loaded.notices)
    if view.refused is None and call.attended and teams.changed_members(view):
        from coterie.cli.members import ask_about_changed

        view = ask_about_changed(call, teams, view)
    return teams.require_usable(view)


def confirm_trust(call: Call, teams: Teams, view: TeamView) -> bool:
    """Show what a team file asks for; return whether the user agrees. No answer means no."""
    show_powers(call, teams, view)
    return click.confirm("Use it as it is now?", default=False)


def show_powers(call: Call, teams: Teams, view: TeamView) -> None:
    """Show what a team file asks for that could do harm."""
    powers = teams.powers(view)
    asks = "" if powers else " nothing that could do harm."
    call.line(f"{view.loaded.path} asks for{asks}")
    show_asked(call, powers)


def show_asked(call: Call, powers: tuple[Power, ...]) -> None:
    """Print each of the powers on a line."""
    for power in powers:
        who = f"{power.member}: " if power.member else ""
        call.line(f"  {visible_line(who + power.what)}")
