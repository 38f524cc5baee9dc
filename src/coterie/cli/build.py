"""`build`: take a goal through the phases of a pipeline to a single commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.cli.main import Call, command, current_project
from coterie.cli.work import AGENTS, REHEARSAL, TEAM, goal_of, options, start_or_dry_run
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.app.run import Rehearsal, StartRequest
    from coterie.app.teams import TeamView


@command("build", 'coterie build --agents claude,codex "add coupons to the checkout"')
@click.argument("words", metavar="[GOAL]", nargs=-1)
@options(TEAM, AGENTS)
@click.option("--graph", metavar="NAME", help="The phase graph: standard, small, or a file.")
@click.option("--eval", "evals", metavar="CMD", multiple=True, help="A test command; repeatable.")
@click.option("--yes", is_flag=True, help="Approve the plan, and stop before the commit.")
@click.option("--accept", metavar="MESSAGE", help="Commit with this message if every gate passed.")
@options(*REHEARSAL)
def build(
    call: Call, words: tuple[str, ...], team: str | None, agents: str | None, **more: Any
) -> None:
    """Take a goal through phases: plan, review, code, review, test, accept.

    On a terminal you choose after each phase what comes next. Elsewhere you are asked about the
    plan and about the commit; with --yes it stops before the commit, and the exit code says whether
    every gate passed.
    """
    goal = goal_of(call, words, 'coterie build "what should be built"')
    from coterie.app import start
    from coterie.app.graphs import pipeline_settings

    if more["detach"] and more["accept"] is not None:
        text = "--accept commits on the machine that runs the build; with --detach that is another."
        raise UsageError(text, "coterie accept ID, later, on the machine where you want the commit")
    attended = call.live and not more["yes"] and not more["detach"]
    settings = pipeline_settings(
        current_project(call), more["graph"], more["accept"], more["evals"], attended=attended
    )

    def make(view: TeamView, rehearsal: Rehearsal) -> StartRequest:
        from coterie.model.task import Caps

        return start.build(view, goal, Caps(yes=more["yes"]), rehearsal, settings)

    start_or_dry_run(call, lambda teams: teams.choose(team, agents), make, more)
