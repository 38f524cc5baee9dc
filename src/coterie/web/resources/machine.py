"""The agents of this machine, what the doctor finds, and settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import anyio.to_thread
from fastapi import APIRouter
from pydantic import Field

from coterie.app.agent_health import AgentState, health_of
from coterie.app.agents import Agents, Doctor
from coterie.app.projects import change_setting, settings_of
from coterie.web.hub import TheProject
from coterie.web.schema import RequestBody, Shown, ShownText

router: APIRouter = APIRouter(tags=["machine"])


class AgentShown(ShownText):
    """A registered agent, and whether it is ready to work."""

    name: str
    version: str | None
    state: AgentState
    ready: bool
    hint: str
    command: str
    found: str | None
    """The path of its program."""


@router.get("/projects/{project}/agents")
async def list_agents(app: TheProject) -> list[AgentShown]:
    """List the registry: the programs that can be members."""

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
    """An agent that is registered or known by name, and whether it is ready to work."""

    name: str
    version: str | None
    state: AgentState
    ready: bool
    hint: str


class HealthCheckShown(ShownText):
    """One check of the doctor."""

    name: str
    ok: bool
    detail: str
    hint: str


class DoctorShown(Shown):
    """What is installed and what will work."""

    agents: list[HealthShown]
    checks: list[HealthCheckShown]
    ready: int
    """How many agents are ready."""


@router.get("/projects/{project}/doctor")
async def doctor(app: TheProject) -> DoctorShown:
    """What is installed and what will work; changes nothing."""

    def look() -> DoctorShown:
        findings = Doctor(app.root)
        return DoctorShown.model_validate(
            {
                "agents": [asdict(one) for one in findings.agents],
                "checks": [asdict(one) for one in findings.checks],
                "ready": sum(one.ready for one in findings.agents),
            }
        )

    return await anyio.to_thread.run_sync(look)


class SettingShown(Shown):
    """The current value of one setting."""

    key: str
    value: str | int | bool | None
    origin: Literal["default", "user", "project"]
    description: str


@router.get("/projects/{project}/settings")
async def list_settings(app: TheProject) -> list[SettingShown]:
    """List every setting with its value and where that comes from."""

    def look() -> list[SettingShown]:
        settings = settings_of(app.project)
        return [SettingShown.model_validate(vars(one)) for one in settings.list()]

    return await anyio.to_thread.run_sync(look)


class SettingGiven(RequestBody):
    """A setting's new value."""

    key: Annotated[str, Field(pattern="^[a-zA-Z]{1,40}$")]
    value: Annotated[str, Field(max_length=2000)] | None
    """As it would be typed; null to unset it."""
    user: bool = False
    """Set it for all projects of the user instead of this one."""


@router.patch("/projects/{project}/settings")
async def set_setting(app: TheProject, given: SettingGiven) -> SettingShown:
    """Change one setting, for this project or for all of the user's."""

    def change() -> SettingShown:
        settings_of(app.project).get(given.key)  # an unknown key is refused before anything is made
        done, _ = change_setting(app.project, given.key, given.value, user=given.user)
        return SettingShown.model_validate(vars(done))

    return await anyio.to_thread.run_sync(change)
