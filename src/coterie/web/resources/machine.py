"""The agents of this machine, what the doctor finds, and settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import anyio.to_thread
from fastapi import APIRouter
from pydantic import Field

from coterie.app.agent_health import AgentState, health_of
from coterie.app.agents import Agents, Doctor
from coterie.app.projects import Project, change_setting, settings_of
from coterie.web.hub import TheProject
from coterie.web.schema import RequestBody, Shown, ShownText

router: APIRouter = APIRouter(tags=["machine"])


class AgentShown(ShownText):
    """A registered agent, and whether it can work."""

    name: str
    version: str | None
    state: AgentState
    ready: bool
    hint: str
    command: str
    found: str | None
    """Where its program is."""


@router.get("/projects/{project}/agents")
async def list_agents(app: TheProject) -> list[AgentShown]:
    """The registry: which programs can be members."""

    def look() -> list[AgentShown]:
        agents = Agents(app.home)
        return [
            AgentShown.model_validate(
                {**asdict(health_of(one)), "command": one.command, "found": agents.place(one)}
            )
            for one in agents.registry().agents.values()
        ]

    return await anyio.to_thread.run_sync(look)


class HealthShown(ShownText):
    """An agent that is registered or known by name, and whether it can work."""

    name: str
    version: str | None
    state: AgentState
    ready: bool
    hint: str


class HealthCheckShown(ShownText):
    """One thing that has to be in order."""

    name: str
    ok: bool
    detail: str
    hint: str


class DoctorShown(Shown):
    """What is installed and what will work."""

    agents: list[HealthShown]
    checks: list[HealthCheckShown]
    ready: int
    """How many agents are."""


@router.get("/projects/{project}/doctor")
async def doctor(app: TheProject) -> DoctorShown:
    """What is installed and what will work; changes nothing."""

    def look() -> DoctorShown:
        found = Doctor(app.root)
        return DoctorShown.model_validate(
            {
                "agents": [asdict(one) for one in found.agents],
                "checks": [asdict(one) for one in found.checks],
                "ready": sum(one.ready for one in found.agents),
            }
        )

    return await anyio.to_thread.run_sync(look)


class SettingShown(Shown):
    """One setting as it stands."""

    key: str
    value: str | int | bool | None
    origin: Literal["default", "user", "project"]
    description: str


@router.get("/projects/{project}/settings")
async def list_settings(app: TheProject) -> list[SettingShown]:
    """Every setting, its value, and who said so."""

    def look() -> list[SettingShown]:
        found = settings_of(Project(app.root, app.home))
        return [SettingShown.model_validate(vars(one)) for one in found.list()]

    return await anyio.to_thread.run_sync(look)


class SettingGiven(RequestBody):
    """A setting's new value."""

    key: Annotated[str, Field(pattern="^[a-zA-Z]{1,40}$")]
    value: Annotated[str, Field(max_length=2000)] | None
    """As it would be typed; null: back to what holds without it."""
    user: bool = False
    """For all projects of the user, and not for this one."""


@router.patch("/projects/{project}/settings")
async def set_setting(app: TheProject, given: SettingGiven) -> SettingShown:
    """Set one setting, for this project or for all of the user's."""

    def change() -> SettingShown:
        project = Project(app.root, app.home)
        settings_of(project).get(given.key)  # an unknown key is refused before anything is made
        done, _ = change_setting(project, given.key, given.value, user=given.user)
        return SettingShown.model_validate(vars(done))

    return await anyio.to_thread.run_sync(change)
