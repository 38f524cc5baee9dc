"""`coterie do`: one member, one job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from coterie.cli import work
from coterie.cli.call import Call, command, pass_call
from coterie.cli.work import Patience, work_options
from coterie.errors import NotFound, UsageError

if TYPE_CHECKING:
    from coterie.config.project import Project
    from coterie.config.team_file import LoadedTeam
    from coterie.model.team import Team


@command("do", 'coterie do --agent claude "make test_total fast"')
@click.argument("words", metavar="GOAL", nargs=-1)
@click.option("--as", "member", metavar="MEMBER", help="Who does it; else the team's first.")
@click.option("--agent", metavar="NAME", help="No team needed: claude or claude:opus.")
@click.option("-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file.")
@work_options
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
    goal = work.goal(call, words, 'coterie do "what should be done"')
    rehearsal = work.rehearsal(call, more["script"], wished=more["rehearse"])

    import anyio

    from coterie.cli.running import Start, begin
    from coterie.model.task import Caps

    project, chosen = _prepared(call, team, agent)
    alone = only(chosen.team, member)
    start = Start(alone, goal, Caps(), chosen.path, rehearsal, "solo")
    patience = Patience.of(call, more["wait"])
    raise click.exceptions.Exit(anyio.run(begin, call, project, start, patience))


def _prepared(call: Call, team: str | None, agent: str | None) -> tuple[Project, LoadedTeam]:
    from coterie.cli.opening import prepared

    if agent is not None and ("," in agent or "=" in agent):
        raise UsageError("--agent takes one agent.", "--agent claude, or --agent claude:opus")
    try:
        return prepared(call, team, agent)
    except UsageError as mistake:
        raise _in_our_words(mistake, agent) from None


def _in_our_words(mistake: UsageError, agent: str | None) -> UsageError:
    """A mistake that was found for a team of several, told of one member."""
    if agent is not None:
        return replace(mistake, message=mistake.message.replace("--agents:", "--agent:"))
    if isinstance(mistake, NotFound) and "--agents" in (mistake.advice or ""):
        return replace(mistake, advice="coterie init, or --agent claude")
    return mistake


def only(team: Team, name: str | None) -> Team:
    """The team with the one who does it: who was named, else the first with an agent."""
    if name is None:
        if not team.ai_members:
            raise UsageError(f"Team {team.name} has nobody with an agent.", "coterie team add")
        return team.only(team.ai_members[0])
    found = team.find(name) or team.member(name)
    if found.type == "human":
        raise UsageError(f"{found.id} is a human: nobody can make you do it.", "coterie team show")
    return team.only(found)
