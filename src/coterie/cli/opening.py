"""What comes before a task: the project, the registry, the team, and a look at what it may do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from coterie.agents.known import KNOWN_AGENTS
from coterie.cli.call import Call
from coterie.cli.project import here, made, notices
from coterie.cli.text import one_line, printable
from coterie.config.project import Project
from coterie.config.registry import Registry, load_registry
from coterie.config.settings import Settings, load_settings
from coterie.config.team_file import LoadedTeam, load_team
from coterie.config.teams import choose_team, reading_for, team_of_agents
from coterie.config.trust import (
    instruction_files,
    is_material_trusted,
    powers,
    trust,
    trust_material,
)
from coterie.errors import NotTrusted, UsageError
from coterie.model import instant
from coterie.model.team import Team
from coterie.workspace.folder import (
    changed_prompts,
    keep_saved_prompt,
    save_prompt,
    with_saved_prompts,
)


def prepared(call: Call, word: str | None, spec: str | None) -> tuple[Project, LoadedTeam]:
    """The project and the team that are meant.  Nothing is made before both are known."""
    project = here(call)
    registry = load_registry(KNOWN_AGENTS)
    notices(call, registry.notices)
    settings = load_settings(project.folder if project.exists else None).values
    if spec is not None:
        loaded = team_of_agents(spec, registry, settings)
    else:
        loaded = _allowed(call, project, word, registry, settings)
    notices(call, loaded.notices)
    loaded = replace(loaded, team=_settled(call, project, loaded))
    made(call, project)
    _material(call, project)
    return project, loaded


def read_team(
    project: Project, word: str | None, registry: Registry, settings: Settings
) -> tuple[LoadedTeam, NotTrusted | None]:
    """The team that is meant, read and checked, and why it may not be used yet, if so."""
    try:
        return choose_team(project, word, registry, settings), None
    except NotTrusted as refused:
        path = Path(refused.where or "")
        reading = reading_for(path, project, registry, settings)
        return load_team(path, reading), refused


def _allowed(
    call: Call, project: Project, word: str | None, registry: Registry, settings: Settings
) -> LoadedTeam:
    """The team, after the one look that its powers may need."""
    loaded, refused = read_team(project, word, registry, settings)
    if refused is not None:
        if not call.attended or not looked_at(call, loaded, project):
            raise refused
        trust(loaded, instant.now())
    return loaded


def _settled(call: Call, project: Project, loaded: LoadedTeam) -> Team:
    """The team as its members' folders know it; a prompt that was edited is asked about once."""
    name = loaded.team.name
    for change in changed_prompts(project.root, loaded.team):
        member = change.member
        if not call.attended:
            raise UsageError(
                f"{member.id}'s prompt changed since its folder was made.",
                f"coterie team update {member.id} -t {name}, or coterie team keep {member.id} "
                f"-t {name}, or coterie team rename {member.id} {member.id}2 -t {name}",
                str(loaded.path),
            )
        call.line(f"{member.id}'s prompt changed.")
        call.line(f"  it was  {one_line(change.saved)}")
        call.line(f"  now     {one_line(member.system_instruction)}")
        answer = click.prompt("[u] update, memory kept  [k] keep the old", type=click.Choice("uk"))
        (save_prompt if answer == "u" else keep_saved_prompt)(project.root, name, member)
    return with_saved_prompts(project.root, loaded.team)


def _material(call: Call, project: Project) -> None:
    """Ask once whether the instruction files that the project brings may reach the models."""
    files = instruction_files(KNOWN_AGENTS, project.root)
    if not files or is_material_trusted(project.root) or not call.attended:
        return
    call.line(f"{project.root} brings {', '.join(files)}: instructions for agents, by its authors.")
    if click.confirm("May they reach the models, as text?", default=False):
        trust_material(project.root, instant.now())


def looked_at(call: Call, loaded: LoadedTeam, project: Project) -> bool:
    """Show what a team file asks for; whether the person agrees.  No answer is no."""
    show_powers(call, loaded, project)
    return click.confirm("Use it, as it is now?", default=False)


def show_powers(call: Call, loaded: LoadedTeam, project: Project) -> None:
    """What a team file asks for that could do harm."""
    asked = powers(loaded, project)
    call.line(f"{loaded.path} asks for" + ("" if asked else " nothing that could do harm."))
    for power in asked:
        who = f"{power.member}: " if power.member else ""
        call.line(f"  {printable(who + power.what)}")
