"""Teams: list and create them, check their files as they are typed, and trust them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Path
from pydantic import Field

from coterie.app.project import App
from coterie.app.team_files import (
    MemberChoice,
    checked_team,
    digest_of,
    put_team,
    registering,
    settle_member,
    team_fields,
    team_source,
    trust_seen,
)
from coterie.app.teams import Teams, TeamView
from coterie.errors import CoterieError
from coterie.model.team import NAME_PATTERN, MemberType, Mode
from coterie.web.hub import TheProject
from coterie.web.problems import Problem, problem_of
from coterie.web.schema import RequestBody, Shown, ShownText

router: APIRouter = APIRouter(tags=["teams"])

_TEAM = "/projects/{project}/teams/{team}"
TeamName = Annotated[str, Path(pattern=NAME_PATTERN)]
MemberName = Annotated[str, Path(pattern=NAME_PATTERN)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
TeamText = Annotated[str, Field(max_length=500_000)]
Preset = Literal["pair", "review", "debate", "tickets"]


class SeatShown(Shown):
    """A member of a team."""

    id: str
    type: MemberType
    agent: str | None
    role: str
    mode: Mode | None
    budget: dict[str, Any]


class TeamShown(ShownText):
    """A team in a list; if its file has mistakes, only its name and what is wrong."""

    name: str
    default: bool
    workflow: str | None = None
    routing: str | None = None
    roles: Mapping[str, str] = Field(default_factory=dict[str, str])
    budget: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    path: str | None = None
    project: str
    """The project's folder."""
    members: Sequence[SeatShown] = ()
    refused: Problem | None = None
    """Why it may not be used yet: the user has not reviewed what its file asks for."""
    problem: Problem | None = None
    """What is wrong with its file."""


class PowerShown(ShownText):
    """Something potentially harmful that a team file asks for."""

    member: str
    kind: str
    what: str


class ChangedShown(ShownText):
    """A member whose prompt or folder was edited after its folder was created: old and new."""

    member: str
    prompt_was: str | None
    prompt_now: str
    folder_was: str | None
    folder_now: str
    new_name: str
    """The name it would get as a new member."""


class TeamDetailShown(TeamShown):
    """A team, its file, and what the user must decide about it."""

    text: str
    """The current text of its file."""
    digest: str
    """The file's digest: only the version that was read can be trusted or replaced."""
    full: dict[str, Any]
    """Every field under its long name, without secrets."""
    powers: list[PowerShown]
    changed: list[ChangedShown]
    notices: list[str]


@router.get("/projects/{project}/teams")
async def list_teams(app: TheProject) -> list[TeamShown]:
    """List the teams of a project."""

    def look() -> list[TeamShown]:
        teams = _teams(app)
        return [_shown(teams, name) for name in teams.names()]

    return await anyio.to_thread.run_sync(look)


class TeamGiven(RequestBody):
    """A new team: a preset applied to agents, or just the agents."""

    name: Name
    preset: Preset | None = None
    agents: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """`claude,sec=codex:gpt-5.5`; by default, those that are ready."""
    default: bool = False


@router.post("/projects/{project}/teams", status_code=201)
async def make_team(app: TheProject, given: TeamGiven) -> TeamShown:
    """Create a team in the project, with the folders of its members."""

    def make() -> TeamShown:
        teams = registering(_teams(app), given.agents)
        entries = teams.entries(given.preset, given.agents)
        teams.write(given.name, entries, preset=given.preset, default=given.default)
        return _shown(_teams(app), given.name)

    return await anyio.to_thread.run_sync(make)


@router.get(_TEAM)
async def show_team(app: TheProject, team: TeamName) -> TeamDetailShown:
    """Show a team and its file."""
    return await anyio.to_thread.run_sync(lambda: _detail(_teams(app), team))


class TeamTextGiven(RequestBody):
    """The text of a team file."""

    text: TeamText
    digest: Annotated[str, Field(max_length=200)]
    """The digest of the file that was edited; refused if the file has changed since."""


@router.put(_TEAM)
async def replace_team(app: TheProject, team: TeamName, given: TeamTextGiven) -> TeamDetailShown:
    """Replace a team's file; a text with mistakes is refused, and the old one stays."""

    def put() -> TeamDetailShown:
        put_team(_teams(app), team, given.text, given.digest)
        return _detail(_teams(app), team)

    return await anyio.to_thread.run_sync(put)


class TeamTypedGiven(RequestBody):
    """A team file as it is being typed."""

    text: TeamText


class CheckedShown(ShownText):
    """Whether a text is a valid team file."""

    valid: bool
    problem: Problem | None = None
    powers: Sequence[PowerShown] = ()
    members: Sequence[str] = ()


@router.post(f"{_TEAM}/check")
async def check_team(app: TheProject, team: TeamName, given: TeamTypedGiven) -> CheckedShown:
    """Check a team file as it is typed; nothing is written."""

    def check() -> CheckedShown:
        teams = _teams(app)
        try:
            view = checked_team(teams, team, given.text)
        except CoterieError as error:
            return CheckedShown(valid=False, problem=problem_of(error))
        names = [member.id for member in view.team.in_order]
        return CheckedShown(valid=True, powers=_powers(teams, view), members=names)

    return await anyio.to_thread.run_sync(check)


class MemberChoiceGiven(RequestBody):
    """What to do about a member that was edited."""

    choice: MemberChoice
    """Change it to what its entry says, keeping its memory; leave it as it was; or make it a new
    member."""


@router.post(f"{_TEAM}/members/{{member}}")
async def choose_for_member(
    app: TheProject, team: TeamName, member: MemberName, given: MemberChoiceGiven
) -> TeamDetailShown:
    """Decide what to do about a member whose prompt or folder was edited."""

    def settle() -> TeamDetailShown:
        settle_member(_teams(app), team, member, given.choice)
        return _detail(_teams(app), team)

    return await anyio.to_thread.run_sync(settle)


class TrustShown(ShownText):
    """What a team asks for that could do harm, and whether it was allowed."""

    digest: str
    powers: list[PowerShown]
    refused: Problem | None
    material: list[str]
    """The project's own instruction files for agents that the user has not decided on."""


@router.get(f"{_TEAM}/trust")
async def show_trust(app: TheProject, team: TeamName) -> TrustShown:
    """Show what a team asks for."""
    return await anyio.to_thread.run_sync(lambda: _trust(_teams(app), team))


class TrustGiven(RequestBody):
    """What to allow."""

    digest: Annotated[str, Field(max_length=200)] | None = None
    """The digest of the team file that was reviewed."""
    material: bool | None = None
    """Whether the project's own instruction files may reach the models, as text."""


@router.post(f"{_TEAM}/trust")
async def trust_team(app: TheProject, team: TeamName, given: TrustGiven) -> TrustShown:
    """Allow exactly the content that was reviewed."""

    def trust() -> TrustShown:
        teams = _teams(app)
        if given.digest is not None:
            trust_seen(teams, team, given.digest)
        if given.material is not None:
            teams.trust_material(given.material)
        return _trust(_teams(app), team)

    return await anyio.to_thread.run_sync(trust)


def _teams(app: App) -> Teams:
    return Teams(app.project, app.home)


def _shown(teams: Teams, name: str) -> TeamShown:
    try:
        view = teams.read(name)
    except CoterieError as error:
        return TeamShown.model_validate(_wrong(teams, name, error))
    return TeamShown.model_validate(_fields(teams, view, name))


def _wrong(teams: Teams, name: str, error: CoterieError) -> dict[str, object]:
    """Return the fields of a team whose file has mistakes."""
    return {
        "name": name,
        "default": teams.is_default(name),
        "project": str(teams.project.root),
        "problem": problem_of(error),
    }


def _fields(teams: Teams, view: TeamView, name: str) -> dict[str, object]:
    refused = problem_of(view.refused) if view.refused else None
    return {
        **team_fields(view, teams.project.root),
        "default": teams.is_default(name),
        "refused": refused,
    }


def _powers(teams: Teams, view: TeamView) -> list[PowerShown]:
    return [PowerShown.model_validate(vars(power)) for power in teams.powers(view)]


def _detail(teams: Teams, name: str) -> TeamDetailShown:
    path, text = team_source(teams, name)
    source = {"text": text, "digest": digest_of(text)}
    try:
        view = teams.read(name)
    except CoterieError as error:  # the text can still be corrected
        empty: dict[str, object] = {"full": {}, "powers": [], "changed": [], "notices": []}
        wrong = _wrong(teams, name, error)
        return TeamDetailShown.model_validate({**wrong, "path": str(path), **source, **empty})
    changed = [
        {
            "member": change.member.id,
            "prompt_was": change.prompt,
            "prompt_now": change.member.system_instruction,
            "folder_was": str(change.folder) if change.folder else None,
            "folder_now": str(teams.folder_of(view.team, change.member)),
            "new_name": teams.free_name(view, change.member.id),
        }
        for change in teams.changed_members(view)
    ]
    more = {
        **source,
        "full": view.full()[0],
        "powers": _powers(teams, view),
        "changed": changed,
        "notices": [notice.message for notice in view.loaded.notices],
    }
    return TeamDetailShown.model_validate({**_fields(teams, view, name), **more})


def _trust(teams: Teams, name: str) -> TrustShown:
    digest = digest_of(team_source(teams, name)[1])  # first: of nothing newer than what is shown
    view = teams.read(name)
    return TrustShown(
        digest=digest,
        powers=_powers(teams, view),
        refused=problem_of(view.refused) if view.refused else None,
        material=list(teams.unread_material()),
    )
