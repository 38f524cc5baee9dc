"""`coterie team`: list, make, add to, show, check and trust teams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.app.team_files import team_fields
from coterie.app.teams import PRESET_NAMES, Teams, TeamView
from coterie.cli import budgets
from coterie.cli.main import (
    Call,
    command,
    current_project,
    ensure_project,
    list_group,
    run_with_app,
    show_notices,
)
from coterie.cli.members import ask_about_material
from coterie.cli.text import Paint, about, counted, one_line, table, warned
from coterie.cli.work import confirm_trust, ready_team, show_powers
from coterie.errors import CoterieError, UsageError
from coterie.model.team import Member
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.by_hand import Spawn
    from coterie.app.project import App

_MODES = ("read", "ask", "accept-edits", "full")
_TEAM = click.option(
    "-t", "--team", "word", metavar="TEAM", help="The team; default: the project's default team."
)


@list_group(
    "team",
    "coterie team new review --preset review",
    "The teams of this project.  Without a subcommand: list.",
    "coterie team list",
)
def team(call: Call) -> None:
    """The teams of this project."""
    teams = Teams(current_project(call))
    names = teams.names()
    for name in names:
        try:
            view = teams.read(name)
        except CoterieError as error:
            call.problem(error)
            continue
        is_default = teams.is_default(name)
        call.record("team", team_fields(view, teams.project.root) | {"default": is_default})
        call.line(f"  {_summary(view, call.paint)}" + ("   [default]" if is_default else ""))
    if not names:
        call.line("There is no team here yet.   coterie init, or coterie team new NAME")


@command("new", "coterie team new review --preset review", team)
@click.argument("name")
@click.option("--preset", type=click.Choice(PRESET_NAMES), help="What kind of team (pair).")
@click.option("--agents", metavar="A,B", help="Who is in it: claude,codex or sec=claude:opus.")
@click.option("--default", "default", is_flag=True, help="Make this the default team.")
def new(call: Call, name: str, preset: str | None, agents: str | None, *, default: bool) -> None:
    """Create a team in the project, and the folders of its members."""
    teams = Teams(current_project(call))
    entries = teams.entries(preset, agents)
    ensure_project(call, teams.project)
    view = teams.write(name, entries, preset=preset, default=default)
    _show(call, teams, view)
    call.line(f"Edit:  {shown(view.loaded.path or teams.project.teams)}")


@command("add", "coterie team add rex2 --like rex --agent claude", team)
@click.argument("member")
@_TEAM
@click.option("--agent", metavar="NAME", help="The agent it runs on; none: a human.")
@click.option("--prompt", metavar="TEXT", help="Its prompt: who it is and what it does.")
@click.option("--role", metavar="TEXT", help="What it is for, in a few words.")
@click.option("--model", metavar="NAME", help="The model, as its agent calls it.")
@click.option("--permissions", type=click.Choice(_MODES), help="Its mode (ask).")
@click.option("--like", metavar="MEMBER", help="Copy another member's settings.")
@click.option("--worktree", is_flag=True, help="Give it a git worktree and a branch of its own.")
def add(
    call: Call,
    member: str,
    word: str | None,
    like: str | None,
    *,
    worktree: bool,
    **given: str | None,
) -> None:
    """Add a member to a team, with a folder of its own."""
    teams = Teams(current_project(call))
    entry = {"id": member, **{key: value for key, value in given.items() if value is not None}}
    if worktree:
        entry["work"] = "worktree"
    view = teams.add(word, entry, like)
    ensure_project(call, teams.project)
    _show(call, teams, view)


@command("show", "coterie team show pair --full", team)
@click.argument("word", metavar="[TEAM]", required=False)
@click.option("--full", is_flag=True, help="Every field under its full name, as a team file.")
def show(call: Call, word: str | None, *, full: bool) -> None:
    """A team and its members. --full prints an equivalent team file."""
    teams = Teams(current_project(call))
    view = teams.read(word)
    if full:
        fields, text = view.full()
        call.record("team", fields)
        call.line(text.rstrip())
        return
    _show(call, teams, view)
    if view.refused is not None:
        call.problem(view.refused)


@command("validate", "coterie team validate ./team.json", team)
@click.argument("words", metavar="[TEAM]…", nargs=-1)
def validate(call: Call, words: tuple[str, ...]) -> None:
    """Check team files, by name or path. Without TEAM: all of this project."""
    teams = Teams(current_project(call))
    wanted = words or teams.names()
    if not wanted:
        call.line("There is no team here yet.   coterie init")
    failed = 0
    for word in wanted:
        try:
            view = teams.read(word)
        except CoterieError as error:
            call.problem(error)
            failed = max(failed, error.exit_code)
            continue
        show_notices(call, view.loaded.notices)
        call.record("team", team_fields(view, teams.project.root) | {"valid": True})
        call.line(f"{word}: ok, {counted(len(view.team.members), 'member')}")
    if failed:
        raise click.exceptions.Exit(failed)


def _of_member(
    name: str, example: str
) -> Callable[[Callable[[Call, str, str | None], None]], click.Command]:
    """Create a command about a member of a team."""

    def decorate(body: Callable[[Call, str, str | None], None]) -> click.Command:
        return command(name, example, team)(click.argument("member")(_TEAM(body)))

    return decorate


@_of_member("update", "coterie team update ada")
def update(call: Call, member: str, word: str | None) -> None:
    """Apply a member's edited prompt or workingDir; its memory is kept."""
    _settle(call, member, word, updated=True)


@_of_member("keep", "coterie team keep ada")
def keep(call: Call, member: str, word: str | None) -> None:
    """Keep a member as it was, and ignore its edited prompt or workingDir."""
    _settle(call, member, word, updated=False)


def _settle(call: Call, member: str, word: str | None, *, updated: bool) -> None:
    teams = Teams(current_project(call))
    team = teams.read(word).team
    (teams.update_member if updated else teams.keep_member)(team, member)
    identity = "updated" if updated else "kept"
    call.record("member", {"member": member, "team": team.name, "identity": identity})
    now = "now follows its team file" if updated else "stays as it was"
    call.line(f"{member} {now}.")


@command("rename", "coterie team rename ada ada2", team)
@click.argument("member")
@click.argument("name")
@_TEAM
def rename(call: Call, member: str, name: str, word: str | None) -> None:
    """Rename a member, which makes it a new one. The folder of the old one is kept."""
    teams = Teams(current_project(call))
    _show(call, teams, teams.rename(word, member, name))


@_of_member("open", "coterie team open ada")
def open_(call: Call, member: str, word: str | None) -> None:
    """Start a member's own CLI. It runs in the member's folder, with its home and environment."""
    from coterie.app.by_hand import by_hand, open_by_hand

    teams = Teams(current_project(call))
    view = teams.read(word)
    place = view.team.members.index(view.team.member(member))
    team = ready_team(call, teams, view).team
    project = ensure_project(call, teams.project)
    if files := teams.unread_material():
        ask_about_material(call, teams, files)

    async def body(app: App) -> tuple[Spawn, Path | None]:
        # By its position: the user may have chosen to make it a new member.
        return by_hand(app.members(team), team.members[place])

    spawn, role = run_with_app(project, body)
    call.note(f"{spawn.member}: {spawn.command} in {spawn.cwd}")
    if role is not None:
        call.note(f"  It starts without its role, which is in {shown(role)}")
    open_by_hand(spawn)


@command("trust", "coterie team trust ./team.json", team)
@click.argument("word", metavar="PATH")
@click.option("--yes", is_flag=True, help="Do not ask: you have reviewed it already.")
@click.option("--no", is_flag=True, help="For the project's folder: refuse, and do not ask again.")
def trust(call: Call, word: str, *, yes: bool, no: bool) -> None:
    """Review what a team file from elsewhere asks for, and trust it.

    The trust ends when the content changes. PATH may be the project's folder: then its CLAUDE.md,
    AGENTS.md and GEMINI.md are passed to the models as text.
    """
    teams = Teams(current_project(call))
    root = teams.project.root
    if Path(word).resolve() == root:
        teams.trust_material(not no)
        call.record("trust", {"path": str(root), "digest": None, "trusted": not no})
        call.line(f"Its instruction files are {'not ' if no else ''}passed to the models: {root}")
        return
    if no:
        raise UsageError(
            "--no is for the project's folder.", "A team file that you do not trust is not used."
        )
    view = teams.read(word)
    if view.refused is None:
        call.line(f"{word} does not need to be trusted: it asks for nothing, or it is yours.")
    elif not call.attended or yes:
        show_powers(call, teams, view)
    elif not confirm_trust(call, teams, view):
        raise view.refused
    teams.trust(view)
    path = view.loaded.path
    call.record("trust", {"path": str(path), "digest": view.loaded.digest})
    call.line(f"Trusted, as it is now: {shown(path or root)}")


@command("prompts", "coterie team prompts review second_opinion", team)
@click.argument("roles", metavar="[ROLE]…", nargs=-1)
def prompts(call: Call, roles: tuple[str, ...]) -> None:
    """Copy the prompts of `coterie build`'s roles into the project.

    Without ROLE: all. They are yours to edit from then on. An existing one is left as it is; delete
    it to use Coterie's again.
    """
    teams = Teams(current_project(call))
    ensure_project(call, teams.project)
    done = teams.copy_prompts(roles)
    for prompt, is_new in done:
        fields = {"role": prompt.role, "path": str(prompt.path), "written": is_new}
        call.record("prompt", fields)
        call.line(f"{'wrote' if is_new else 'kept '}  {shown(prompt.path)}")
    call.line("Edit them as you like: they are used from the next run on.")


@command("roles", "coterie team roles pair", team)
@click.argument("word", metavar="[TEAM]", required=False)
def roles(call: Call, word: str | None) -> None:
    """Which member fills which role of `coterie build`. Also shows whose prompt it has."""
    teams = Teams(current_project(call))
    view = teams.read(word)
    rows: list[tuple[str, str, str]] = []
    for prompt, member in teams.filled_roles(view.team):
        stated = prompt.role in view.team.roles
        fields = {"role": prompt.role, "member": member.id, "agent": member.agent}
        path = str(prompt.path) if prompt.origin == "project" else None
        call.record("role", fields | {"stated": stated, "prompt": prompt.origin, "path": path})
        whose = f"yours: {shown(prompt.path)}" if path else "ours"
        rows.append((f"  {prompt.role}", f"{member.id} ({member.agent})", f"prompt {whose}"))
    call.lines(table(rows, call.width))
    call.line('Change the members:  "roles": {"review": "ID"} in the team file')
    call.line("Change the prompts:  coterie team prompts")


def _summary(view: TeamView, paint: Paint) -> str:
    """A team on one line."""
    members = ", ".join(
        f"{member.id} ({warned(about(member), member.permissions.mode, paint)})"
        if member.agent
        else member.id
        for member in view.team.in_order
    )
    return f"{view.team.name:<8} {members}"


def _show(call: Call, teams: Teams, view: TeamView) -> None:
    show_notices(call, view.loaded.notices)
    call.record("team", team_fields(view, teams.project.root))
    call.line(f"{view.team.name}   {shown(view.loaded.path) if view.loaded.path else ''}")
    if limits := budgets.limits(view.team.budget):
        call.line(f"  budget {limits}")
    members = list(view.team.in_order)

    def painted(cell: str, row: int, column: int) -> str:
        is_about = column == 1 and members[row].agent
        return warned(cell, members[row].permissions.mode, call.paint) if is_about else cell

    call.lines(table([_row(member) for member in members], call.width, painted=painted))


def _row(member: Member) -> tuple[str, str, str]:
    limits = budgets.limits(member.budget)
    says = [f"[{limits}]" if limits else "", member.role or member.system_instruction]
    return (f"  {member.id}", about(member) if member.agent else "human", one_line(" ".join(says)))
