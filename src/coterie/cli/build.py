"""`build`: a goal goes through the phases of a pipeline to one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.cli.main import Call, command, here, pass_call
from coterie.cli.work import AGENTS, REHEARSAL, TEAM, carry_out, goal_of, options
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.app.run import Rehearsal, StartRequest
    from coterie.app.teams import TeamView


@command("build", 'coterie build --agents claude,codex "add coupons to the checkout"')
@click.argument("words", metavar="[GOAL]", nargs=-1)
@options(TEAM, AGENTS)
@click.option("--graph", metavar="NAME", help="The phases: standard, small, or a file.")
@click.option("--eval", "evals", metavar="CMD", multiple=True, help="A test command; repeatable.")
@click.option("--yes", is_flag=True, help="Approve the plan, and stop before the commit.")
@click.option("--accept", metavar="MESSAGE", help="Commit with it, where every gate passed.")
@options(*REHEARSAL)
@pass_call
def build(
    call: Call, words: tuple[str, ...], team: str | None, agents: str | None, **more: Any
) -> None:
    """A goal goes through phases: plan, review, code, review, test, accept.

    On a terminal you say after each phase what comes next. Elsewhere you are asked about the plan
    and about the commit; with --yes it stops before the commit, and the exit code says whether
    every gate passed.
    """
    goal = goal_of(call, words, 'coterie build "what should be built"')
    from coterie.app import start
    from coterie.app.graphs import pipeline_settings

    if more["detach"] and more["accept"] is not None:
        said = "--accept commits where a build runs; with --detach that is another machine."
        raise UsageError(said, "coterie accept ID, later, wherever the commit is to be")
    attended = call.live and not more["yes"] and not more["detach"]
    settings = pipeline_settings(
        here(call), more["graph"], more["accept"], more["evals"], attended=attended
    )

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        from coterie.model.task import Caps

        return start.build(view, goal, Caps(yes=more["yes"]), rehearsal, settings)

    carry_out(call, lambda teams: teams.choose(team, agents), make, more)
