"""Questions before a team starts: about members that were edited, and about instruction files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from coterie.app.teams import describe_change
from coterie.cli.text import one_line
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.teams import ChangedMember, Teams, TeamView
    from coterie.cli.main import Call


def ask_about_changed(call: Call, teams: Teams, view: TeamView) -> TeamView:
    """Ask about each member edited since its folder was made; return the resulting team."""
    for change in teams.changed_members(view):
        member, name = change.member.id, teams.free_name(view, change.member.id)
        call.line(f"{member}'s {describe_change(change)} changed.")
        call.lines(_differences(teams, view, change))
        choices = f"[u] update {member}, memory kept  [n] new member {name}  [k] keep the old"
        match click.prompt(choices, type=click.Choice("unk"), show_choices=False):
            case "u":
                teams.update_member(view.team, member)
            case "n":
                view = teams.replace_member(view, member, name)
            case _:
                teams.keep_member(view.team, member)
    return view


def _differences(teams: Teams, view: TeamView, change: ChangedMember) -> list[str]:
    member, lines = change.member, list[str]()
    if change.prompt is not None:
        lines += [f"  it was  {one_line(change.prompt)}"]
        lines += [f"  now     {one_line(member.system_instruction)}"]
    if change.folder is not None:
        now = teams.folder_of(view.team, member)
        lines += [f"  it was in  {shown(change.folder)}", f"  now        {shown(now)}"]
    return lines


def ask_about_material(call: Call, teams: Teams, files: tuple[str, ...]) -> None:
    """Ask once whether a folder's own instruction files may reach the models; without a terminal,
    print the commands that decide it."""
    root = teams.project.root
    notice = f"{shown(root)} contains {', '.join(files)}: its authors' instructions for agents."
    if not call.attended:
        place = shlex.quote(str(root))
        call.note(f"note: {notice} They are ignored.  To allow them: coterie team trust {place}")
        call.note(f"  To refuse them for good: coterie team trust {place} --no")
        return
    call.line(notice)
    teams.trust_material(click.confirm("Pass them to the models as text?", default=False))
