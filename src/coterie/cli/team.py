"""`coterie team`: list, make, add to, show, check and trust teams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.agents.known import KNOWN_AGENTS
from coterie.cli import budgets
from coterie.cli.call import Call, command, group, pass_call
from coterie.cli.opening import looked_at, read_team, show_powers
from coterie.cli.project import here, made, notices, opened
from coterie.cli.text import Paint, about, one_line, table, warned
from coterie.config.presets import PRESETS, ready, seated, workflow_of
from coterie.config.project import Project
from coterie.config.registry import load_registry
from coterie.config.settings import Settings, load_settings
from coterie.config.team_edit import (
    Entry,
    add_member,
    entry_of,
    full_form,
    new_team,
    rename_member,
    render,
)
from coterie.config.team_file import LoadedTeam
from coterie.config.teams import mark_default, seats, teams_of
from coterie.config.trust import trust as record_trust
from coterie.config.trust import trust_material
from coterie.errors import AgentMissing, CoterieError, UsageError
from coterie.model import instant
from coterie.model.paths import shown
from coterie.model.team import Member
from coterie.workspace.folder import (
    keep_saved_prompt,
    make_folder,
    save_prompt,
    save_prompt_if_new,
    with_saved_prompts,
)
from coterie.workspace.own_worktree import branching_point

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.app.run import ByHand


@group("team", "coterie team new review --preset review")
@click.pass_context
def team(context: click.Context) -> None:
    """The teams of this project.  Alone: list."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Call))


@command("list", "coterie team list")
@pass_call
def list_(call: Call) -> None:
    """The teams of this project."""
    _list(call)


@command("new", "coterie team new review --preset review")
@click.argument("name")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="What kind of team (pair).")
@click.option("--agents", metavar="A,B", help="Who is in it: claude,codex or sec=claude:opus.")
@click.option("--default", "default", is_flag=True, help="Mean this team when none is named.")
@pass_call
def new(call: Call, name: str, preset: str | None, agents: str | None, *, default: bool) -> None:
    """Write a new team into the project, and the folders of its members."""
    from coterie.agents.table import has_adapter

    registry = load_registry(KNOWN_AGENTS)
    if agents is not None and preset is None:
        entries: list[Entry] = [entry_of(seat) for seat in seats(agents)]
    else:
        named = [seat.agent for seat in seats(agents)] if agents else None
        wanted = ready(registry, has_adapter) if named is None else named
        if not wanted:
            raise UsageError("No agent is ready to be a member.", "coterie doctor")
        entries = seated(preset or "pair", wanted)
    project = made(call, here(call))
    loaded = new_team(project, name, entries, registry, workflow_of(preset))
    _settle_folders(project, loaded)
    if default:
        mark_default(project, name)
    _tell(call, loaded, project)
    call.line(f"Edit:  {shown(loaded.path or project.teams)}")


@command("add", "coterie team add rex2 --like rex --agent claude")
@click.argument("member")
@click.option("-t", "--team", "word", metavar="TEAM", help="The team; else the default one.")
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
    project = here(call)
    if worktree:
        branching_point(project.root)  # before anything is written
        given["work"] = "worktree"
    registry = load_registry(KNOWN_AGENTS)
    loaded, _ = read_team(project, word, registry, _settings(project))
    if loaded.path is None:
        raise UsageError("A team without a file cannot be added to.", "coterie team new NAME")
    entry = {"id": member, **{key: value for key, value in given.items() if value is not None}}
    changed = add_member(loaded.path, entry, registry, project, like)
    made(call, project)
    _settle_folders(project, changed, only=member)
    _tell(call, changed, project)


@command("show", "coterie team show pair --full")
@click.argument("word", metavar="[TEAM]", required=False)
@click.option("--full", is_flag=True, help="Every field under its long name, as a team file.")
@pass_call
def show(call: Call, word: str | None, *, full: bool) -> None:
    """A team and its members; --full prints a file that means the same."""
    project = here(call)
    loaded, refused = read_team(project, word, load_registry(KNOWN_AGENTS), _settings(project))
    if full:
        call.record("team", full_form(loaded.team.sealed()))
        call.line(render(full_form(loaded.team.sealed())).rstrip())
        return
    _tell(call, loaded, project)
    if refused is not None:
        call.problem(refused)


@command("validate", "coterie team validate ./team.json")
@click.argument("words", metavar="[TEAM]…", nargs=-1)
@pass_call
def validate(call: Call, words: tuple[str, ...]) -> None:
    """Check team files, by name or path; alone: all of this project."""
    project = here(call)
    registry = load_registry(KNOWN_AGENTS)
    wanted = words or tuple(place.name for place in teams_of(project))
    if not wanted:
        call.line("There is no team here yet.   coterie init")
    failed = 0
    for word in wanted:
        try:
            loaded, _ = read_team(project, word, registry, _settings(project))
        except CoterieError as error:
            call.problem(error)
            failed = max(failed, error.exit_code)
            continue
        call.record("team", _fields(loaded, project) | {"valid": True})
        call.line(f"{word}: ok, {len(loaded.team.members)} members")
    if failed:
        raise click.exceptions.Exit(failed)


@command("update", "coterie team update ada")
@click.argument("member")
@click.option("-t", "--team", "word", metavar="TEAM", help="The team; else the default one.")
@pass_call
def update(call: Call, member: str, word: str | None) -> None:
    """Let a member be who its edited prompt says; its memory is kept."""
    project = here(call)
    loaded, _ = read_team(project, word, load_registry(KNOWN_AGENTS), _settings(project))
    save_prompt(project.root, loaded.team.name, loaded.team.member(member))
    call.record("member", {"member": member, "team": loaded.team.name, "identity": "updated"})
    call.line(f"{member} is now who its team file says.")


@command("keep", "coterie team keep ada")
@click.argument("member")
@click.option("-t", "--team", "word", metavar="TEAM", help="The team; else the default one.")
@pass_call
def keep_(call: Call, member: str, word: str | None) -> None:
    """Let a member stay who it was, whatever its edited prompt says."""
    project = here(call)
    loaded, _ = read_team(project, word, load_registry(KNOWN_AGENTS), _settings(project))
    keep_saved_prompt(project.root, loaded.team.name, loaded.team.member(member))
    call.record("member", {"member": member, "team": loaded.team.name, "identity": "kept"})
    call.line(f"{member} stays who it was.")


@command("rename", "coterie team rename ada ada2")
@click.argument("member")
@click.argument("name")
@click.option("-t", "--team", "word", metavar="TEAM", help="The team; else the default one.")
@pass_call
def rename(call: Call, member: str, name: str, word: str | None) -> None:
    """Make a member a new one, with a folder of its own; the old folder is kept."""
    project = here(call)
    registry = load_registry(KNOWN_AGENTS)
    loaded, _ = read_team(project, word, registry, _settings(project))
    if loaded.path is None:
        raise UsageError("A team without a file cannot be changed.", "coterie team new NAME")
    changed = rename_member(loaded.path, member, name, registry, project)
    _settle_folders(project, changed)
    _tell(call, changed, project)


@command("open", "coterie team open ada")
@click.argument("member")
@click.option("-t", "--team", "word", metavar="TEAM", help="The team; else the default one.")
@pass_call
def open_(call: Call, member: str, word: str | None) -> None:
    """Start a member's CLI itself, in its folder, with its home and environment."""
    from coterie.process.programs import exec_program

    project = here(call)
    loaded, refused = read_team(project, word, load_registry(KNOWN_AGENTS), _settings(project))
    if refused is not None:
        raise refused
    team = with_saved_prompts(project.root, loaded.team)

    async def body(app: App) -> ByHand:
        return app.by_hand(team, team.member(member))

    started = opened(made(call, project), body)
    call.note(f"{member}: {started.words[0]} in {started.cwd}")
    try:
        exec_program(started.words, started.cwd, started.env)
    except OSError as error:
        raise AgentMissing(member, str(started.cwd), started.words[0], str(error)) from None


@command("trust", "coterie team trust ./team.json")
@click.argument("word", metavar="PATH")
@click.option("--yes", is_flag=True, help="You have looked at it already: do not ask.")
@pass_call
def trust(call: Call, word: str, *, yes: bool) -> None:
    """Look at what a team file from elsewhere asks for, and allow exactly this content.

    PATH may be the project's folder: then its CLAUDE.md, AGENTS.md and GEMINI.md may reach the
    models, as text.
    """
    project = here(call)
    if Path(word).resolve() == project.root:
        trust_material(project.root, instant.now())
        call.record("trust", {"path": str(project.root), "digest": None})
        call.line(f"Its instruction files may reach the models: {project.root}")
        return
    loaded, refused = read_team(project, word, load_registry(KNOWN_AGENTS), _settings(project))
    if refused is None:
        call.line(f"{word} needs no trust: it asks for nothing, or it is yours.")
    elif call.attended and not yes:
        if not looked_at(call, loaded, project):
            raise refused
    else:
        show_powers(call, loaded, project)
    record_trust(loaded, instant.now())
    call.record("trust", {"path": str(loaded.path), "digest": loaded.digest})
    call.line(f"Trusted, as it is now: {shown(loaded.path or project.root)}")


for _one in (list_, new, add, show, validate, update, keep_, rename, open_, trust):
    team.add_command(_one)


def _settle_folders(project: Project, loaded: LoadedTeam, only: str | None = None) -> None:
    """Make the members' folders; a folder that is new remembers who lives there."""
    team = loaded.team
    for member in team.members:
        if only in (None, member.id):
            make_folder(project.root, team.name, member)
            save_prompt_if_new(project.root, team.name, member)


# -- showing -----------------------------------------------------------------------------------


def _settings(project: Project) -> Settings:
    return load_settings(project.folder if project.exists else None).values


def _list(call: Call) -> None:
    project = here(call)
    registry = load_registry(KNOWN_AGENTS)
    default = _settings(project).default_team
    places = teams_of(project)
    for place in places:
        try:
            loaded, _ = read_team(project, place.name, registry, _settings(project))
        except CoterieError as error:
            call.problem(error)
            continue
        is_default = place.name == default or len(places) == 1
        call.record("team", _fields(loaded, project) | {"default": is_default})
        call.line(f"  {summary(loaded, call.paint)}" + ("   [default]" if is_default else ""))
    if not places:
        call.line("There is no team here yet.   coterie init, or coterie team new NAME")


def summary(loaded: LoadedTeam, paint: Paint) -> str:
    """A team on one line."""
    members = ", ".join(
        f"{one.id} ({warned(about(one), paint)})" if one.agent else one.id
        for one in loaded.team.in_order
    )
    return f"{loaded.team.name:<8} {members}"


def _tell(call: Call, loaded: LoadedTeam, project: Project) -> None:
    notices(call, loaded.notices)
    call.record("team", _fields(loaded, project))
    call.line(f"{loaded.team.name}   {shown(loaded.path) if loaded.path else ''}")
    if limits := budgets.limits(loaded.team.budget):
        call.line(f"  budget {limits}")
    rows = [_row(member) for member in loaded.team.in_order]
    call.lines(table(rows, call.width, painted=lambda cell: warned(cell, call.paint)))


def _row(member: Member) -> tuple[str, str, str]:
    limits = budgets.limits(member.budget)
    says = [f"[{limits}]" if limits else "", member.role or member.system_instruction]
    return (
        f"  {member.id}",
        about(member) if member.agent else "human",
        one_line(" ".join(says)),
    )


def _fields(loaded: LoadedTeam, project: Project) -> dict[str, object]:
    team = loaded.team
    return {
        "name": team.name,
        "workflow": team.workflow,
        "budget": team.budget.model_dump(mode="json", exclude_none=True),
        "path": str(loaded.path) if loaded.path else None,
        "project": str(project.root),
        "members": [
            {
                "id": one.id,
                "type": one.type,
                "agent": one.agent,
                "role": one.role,
                "mode": one.permissions.mode if one.agent else None,
                "budget": one.budget.model_dump(mode="json", exclude_none=True),
            }
            for one in team.in_order
        ],
    }
