"""`coterie run`: a goal becomes tickets, tickets become checked work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.agents.known import KNOWN_AGENTS
from coterie.cli import work
from coterie.cli.call import Call, command, pass_call
from coterie.cli.work import Patience, work_options
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.cli.running import Start
    from coterie.config.team_file import LoadedTeam

_GOAL = 'coterie run "what should be reached"'
TICKETS = "tickets"


@command("run", 'coterie run --agents mira=claude,wren=codex "add coupons to the checkout"')
@click.argument("words", metavar="GOAL", nargs=-1)
@click.option("-t", "--team", metavar="TEAM", help="A team by name, or the path of a team file.")
@click.option("--agents", metavar="A,B", help="No file needed: mira=claude,wren=codex; A manages.")
@click.option("--yes", is_flag=True, help="Approve the plan; never a tool.")
@click.option("--dry-run", is_flag=True, help="Say who would do what, where; start nothing.")
@work_options
@pass_call
def run(
    call: Call,
    words: tuple[str, ...],
    team: str | None,
    agents: str | None,
    **more: Any,
) -> None:
    """A goal becomes tickets, tickets become checked work.

    The team's workflow says how; a team that names none works on tickets: the first member (or
    the one whose role is manager) plans and reviews, the others do the work. Without a team named,
    .coterie/roles.json counts where there is one.
    """
    if team is not None and agents is not None:
        raise UsageError("--team and --agents at once.", "Give one of them.")
    goal = work.goal(call, words, _GOAL)
    if more["dry_run"]:
        _only_say(call, goal or "", (team, agents), more)
        return
    rehearsal = work.rehearsal(call, more["script"], wished=more["rehearse"])

    import anyio

    from coterie.cli.opening import prepared
    from coterie.cli.running import begin

    project, chosen = prepared(call, *_meant(call, team, agents))
    start = _start(call, chosen, goal, rehearsal, yes=more["yes"])
    patience = Patience.of(call, more["wait"])
    raise click.exceptions.Exit(anyio.run(begin, call, project, start, patience))


def _meant(call: Call, team: str | None, agents: str | None) -> tuple[str | None, str | None]:
    """The team that was named; else the project's roles, where it has a file of them."""
    if team is not None or agents is not None:
        return team, agents
    from coterie.cli.project import here
    from coterie.config.teams import roles_word

    return roles_word(here(call)), None


def _start(
    call: Call,
    chosen: LoadedTeam,
    goal: str | None,
    rehearsal: bool | Path,
    *,
    yes: bool,
) -> Start:
    from coterie.cli.do import only
    from coterie.cli.running import Start
    from coterie.model.task import Caps

    workflow = chosen.stated_workflow or TICKETS
    team = chosen.team
    if workflow == TICKETS:
        caps = Caps(yes=yes)
    elif workflow == "solo":
        team, caps = only(team, None), Caps()
    else:
        caps = Caps(yes=yes, floor="ask" if call.live else "end")
    return Start(team, goal, caps, chosen.path, rehearsal, workflow)


def _only_say(
    call: Call, goal: str, named: tuple[str | None, str | None], more: dict[str, Any]
) -> None:
    from coterie.cli import dry_run
    from coterie.cli.opening import read_team
    from coterie.cli.project import here
    from coterie.config.registry import load_registry
    from coterie.config.scheduler_file import load_scheduler
    from coterie.config.settings import load_settings
    from coterie.config.teams import team_of_agents

    project, registry = here(call), load_registry(KNOWN_AGENTS)
    settings = load_settings(project.folder if project.exists else None).values
    word, spec = _meant(call, *named)
    refused = None
    if spec is not None:
        loaded = team_of_agents(spec, registry, settings)
    else:
        loaded, refused = read_team(project, word, registry, settings)
    dry_run.told(
        call,
        dry_run.Intent(
            project,
            loaded,
            registry,
            loaded.stated_workflow or TICKETS,
            goal,
            load_scheduler(project),
            more["yes"],
            Path(more["script"]).expanduser() if more["script"] else more["rehearse"],
        ),
    )
    if refused is not None:
        raise refused
