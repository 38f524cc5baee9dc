"""`coterie team`: list, make, add to, show, check and trust teams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.app.team_files import team_fields
from coterie.app.teams import PRESET_NAMES, Teams, TeamView
from coterie.cli import budgets
from coterie.cli.main import Call, command, here, list_group, made, opened, pass_call, show_notices
from coterie.cli.members import ask_about_material
from coterie.cli.text import Paint, about, counted, one_line, table, warned
from coterie.cli.work import agrees, settled, show_powers
from coterie.errors import CoterieError, UsageError
from coterie.model.team import Member
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.by_hand import ByHand
    from coterie.app.project import App

_TEAM = click.option("-t", "--team", "word", metavar="TEAM", help="The team; else the default one.")


team: click.Group = list_group(
    "team", "coterie team new review --preset review", "The teams of this project.  Alone: list."
)


@command("list", "coterie team list", team)
@pass_call
def list_(call: Call) -> None:
    """The teams of this project."""
    teams = Teams(here(call))
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
@click.option("--default", "default", is_flag=True, help="Mean this team when none is named.")
@pass_call
def new(call: Call, name: str, preset: str | None, agents: str | None, *, default: bool) -> None:
    """Write a new team into the project, and the folders of its members."""
    teams = Teams(here(call))
    entries = teams.entries(preset, agents)
    made(call, teams.project)
    view = teams.write(name, entries, preset=preset, default=default)
    _show(call, teams, view)
    call.line(f"Edit:  {shown(view.loaded.path or teams.project.teams)}")


@command("add", "coterie team add rex2 --like rex --agent claude", team)
@click.argument("member")
@_TEAM
@click.option("--agent", metavar="NAME", help="The agent it runs on; none: a human.")
@click.option("--prompt", metavar="TEXT", help="Who it is and what it does.")
@click.option("--role", metavar="TEXT", help="What it is for, in a few words.")
@click.option("--model", metavar="NAME", help="The model, as its agent calls it.")
@click.option("--permissions", type=click.Choice(["read", "ask", "accept-edits", "full"]))
@click.option("--like", metavar="MEMBER", help="Copy what another member has.")
@click.option("--worktree", is_flag=True, help="Give it a git worktree and a branch of its own.")
@pass_call
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
    teams = Teams(here(call))
    entry = {"id": member, **{key: value for key, value in given.items() if value is not None}}
    if worktree:
        entry["work"] = "worktree"
    view = teams.add(word, entry, like)
    made(call, teams.project)
    _show(call, teams, view)


@command("show", "coterie team show pair --full", team)
@click.argument("word", metavar="[TEAM]", required=False)
@click.option("--full", is_flag=True, help="Every field under its long name, as a team file.")
@pass_call
def show(call: Call, word: str | None, *, full: bool) -> None:
    """A team and its members; --full prints a file that means the same."""
    teams = Teams(here(call))
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
@pass_call
def validate(call: Call, words: tuple[str, ...]) -> None:
    """Check team files, by name or path; alone: all of this project."""
    teams = Teams(here(call))
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


@command("update", "coterie team update ada", team)
@click.argument("member")
@_TEAM
@pass_call
def update(call: Call, member: str, word: str | None) -> None:
    """Let a member be who its edited prompt says; its memory is kept."""
    _settle(call, member, word, updated=True)


@command("keep", "coterie team keep ada", team)
@click.argument("member")
@_TEAM
@pass_call
def keep(call: Call, member: str, word: str | None) -> None:
    """Let a member stay who it was, whatever its edited prompt says."""
    _settle(call, member, word, updated=False)


def _settle(call: Call, member: str, word: str | None, *, updated: bool) -> None:
    teams = Teams(here(call))
    team = teams.read(word).team
    (teams.update_member if updated else teams.keep_member)(team, member)
    identity = "updated" if updated else "kept"
    call.record("member", {"member": member, "team": team.name, "identity": identity})
    now = "is now who its team file says" if updated else "stays who it was"
    call.line(f"{member} {now}.")


@command("rename", "coterie team rename ada ada2", team)
@click.argument("member")
@click.argument("name")
@_TEAM
@pass_call
def rename(call: Call, member: str, name: str, word: str | None) -> None:
    """Make a member a new one, with a folder of its own; the old folder is kept."""
    teams = Teams(here(call))
    _show(call, teams, teams.rename(word, member, name))


@command("open", "coterie team open ada", team)
@click.argument("member")
@_TEAM
@pass_call
def open_(call: Call, member: str, word: str | None) -> None:
    """Start a member's CLI itself, in its folder, with its home and environment."""
    from coterie.app.by_hand import by_hand, open_by_hand

    teams = Teams(here(call))
    view = teams.read(word)
    place = view.team.members.index(view.team.member(member))
    team = settled(call, teams, view).team
    project = made(call, teams.project)
    if files := teams.unread_material():
        ask_about_material(call, teams, files)

    async def body(app: App) -> ByHand:
        # By its place: the answer may have been to make it a new member.
        return by_hand(app.members(team), team.members[place])

    started = opened(project, body)
    call.note(f"{started.member}: {started.words[0]} in {started.cwd}")
    if not started.is_told:
        role = started.folder / started.instruction
        call.note(f"  It has no way to be told its role at the start: that stands in {shown(role)}")
    open_by_hand(started)


@command("trust", "coterie team trust ./team.json", team)
@click.argument("word", metavar="PATH")
@click.option("--yes", is_flag=True, help="You have looked at it already: do not ask.")
@click.option("--no", is_flag=True, help="Of the project's folder: they may not; do not ask again.")
@pass_call
def trust(call: Call, word: str, *, yes: bool, no: bool) -> None:
    """Look at what a team file from elsewhere asks for, and allow exactly this content.

    PATH may be the project's folder: then its CLAUDE.md, AGENTS.md and GEMINI.md may reach the
    models, as text.
    """
    teams = Teams(here(call))
    root = teams.project.root
    if Path(word).resolve() == root:
        teams.trust_material(not no)
        call.record("trust", {"path": str(root), "digest": None, "trusted": not no})
        call.line(f"Its instruction files {'do not' if no else 'may'} reach the models: {root}")
        return
    if no:
        raise UsageError(
            "--no is for the project's folder.", "A team file that you do not trust is not used."
        )
    view = teams.read(word)
    if view.refused is None:
        call.line(f"{word} needs no trust: it asks for nothing, or it is yours.")
    elif not call.attended or yes:
        show_powers(call, teams, view)
    elif not agrees(call, teams, view):
        raise view.refused
    teams.trust(view)
    path = view.loaded.path
    call.record("trust", {"path": str(path), "digest": view.loaded.digest})
    call.line(f"Trusted, as it is now: {shown(path or root)}")


@command("prompts", "coterie team prompts review second_opinion", team)
@click.argument("roles", metavar="[ROLE]…", nargs=-1)
@pass_call
def prompts(call: Call, roles: tuple[str, ...]) -> None:
    """Copy the prompts of `coterie build`'s roles to the project, to be edited; alone: all.

    They are yours from then on. One that is there already is left as it is; delete it to use
    Coterie's again.
    """
    teams = Teams(here(call))
    made(call, teams.project)
    done = teams.copy_prompts(roles)
    for prompt, is_new in done:
        fields = {"role": prompt.role, "path": str(prompt.path), "written": is_new}
        call.record("prompt", fields)
        call.line(f"{'wrote' if is_new else 'kept '}  {shown(prompt.path)}")
    call.line("Edit them as you like: they are used from the next run on.")


@command("roles", "coterie team roles pair", team)
@click.argument("word", metavar="[TEAM]", required=False)
@pass_call
def roles(call: Call, word: str | None) -> None:
    """Who of a team fills which role of `coterie build`, and whose prompt it has."""
    teams = Teams(here(call))
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
    call.line('Change who:  "roles": {"review": "ID"} in the team file')
    call.line("Change what they are told:  coterie team prompts")


def _summary(view: TeamView, paint: Paint) -> str:
    """A team on one line."""
    members = ", ".join(
        f"{member.id} ({warned(about(member), paint)})" if member.agent else member.id
        for member in view.team.in_order
    )
    return f"{view.team.name:<8} {members}"


def _show(call: Call, teams: Teams, view: TeamView) -> None:
    show_notices(call, view.loaded.notices)
    call.record("team", team_fields(view, teams.project.root))
    call.line(f"{view.team.name}   {shown(view.loaded.path) if view.loaded.path else ''}")
    if limits := budgets.limits(view.team.budget):
        call.line(f"  budget {limits}")
    rows = [_row(member) for member in view.team.in_order]
    call.lines(table(rows, call.width, painted=lambda cell: warned(cell, call.paint)))


def _row(member: Member) -> tuple[str, str, str]:
    limits = budgets.limits(member.budget)
    says = [f"[{limits}]" if limits else "", member.role or member.system_instruction]
    return (f"  {member.id}", about(member) if member.agent else "human", one_line(" ".join(says)))
