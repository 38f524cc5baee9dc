"""The agents of this machine: the registry, what is installed and what will work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import anyio

from coterie.agents.builtin import FACTS as BUILT_IN
from coterie.agents.table import KNOWN_AGENTS, broken_packages
from coterie.app.agent_health import AgentHealth, health_of, version_of
from coterie.app.project import App
from coterie.app.projects import has_history
from coterie.config import registry_edit
from coterie.config.files import Notice
from coterie.config.project import Project, find_project
from coterie.config.registry import (
    Registry,
    is_included,
    load_registry,
    registry_path,
    unused,
)
from coterie.config.registry_edit import Scan, add_agent, by_hand, find_program
from coterie.config.settings import load_settings, store_url
from coterie.errors import CoterieError, StorageDamaged
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from coterie.model.incident import PendingNotification
from coterie.model.question_text import counted
from coterie.model.workspace import shown
from coterie.process.bubblewrap import problem as bubblewrap_problem
from coterie.process.child import can_be_private


@dataclass(frozen=True)
class Agents:
    """The agents of a user.  Blocks."""

    home: Path | None = None
    """Used instead of the user's `~/.coterie`."""

    def registry(self) -> Registry:
        """Load the registry; raises ConfigError if its file is invalid."""
        return load_registry(KNOWN_AGENTS, registry_path(self.home))

    def scan(self) -> Scan:
        """Look for known agents on PATH and register them; manual changes are kept."""
        return registry_edit.scan(KNOWN_AGENTS, version_of, instant.now(), registry_path(self.home))

    def add(
        self,
        name: str,
        command: Sequence[str],
        facts: Mapping[str, object],
        *,
        use_pty: bool = False,
        replacing: bool = False,
    ) -> tuple[AgentDefinition, Registry]:
        """Register an agent by hand; `facts` are capabilities by their names in the registry."""
        entry = by_hand(KNOWN_AGENTS, name, command, instant.now(), facts, use_pty=use_pty)
        path = registry_path(self.home)
        return entry, add_agent(KNOWN_AGENTS, entry, path, replacing=replacing)

    def unused_words(self, agent: AgentDefinition) -> list[Notice]:
        """Return notices about arguments of an entry that are never passed on."""
        words = agent.base_args
        return list(unused(KNOWN_AGENTS, agent, agent.name, "baseArgs", words))

    def migrate(self) -> registry_edit.Migration:
        """Upgrade an old registry to the newest format; a copy is kept."""
        return registry_edit.migrate(KNOWN_AGENTS, registry_path(self.home))

    def place(self, agent: AgentDefinition) -> str | None:
        """Return the path of an agent's program; None if it is not installed."""
        return registry_edit.agent_location(KNOWN_AGENTS, agent)

    def installed(self, versions: Mapping[str, str | None]) -> list[AgentDefinition]:
        """Return the known and registered agents that are installed, each with its program's path.

        `versions` holds the versions that the programs reported, by agent name.
        """
        now = instant.now()
        agents = {known.name: known.definition(known.name, None, now) for known in KNOWN_AGENTS.all}
        with suppress(CoterieError):  # the doctor's checks report what is wrong with it
            agents |= self.registry().agents
        there = ((agent, registry_edit.program_of(agent)) for agent in agents.values())
        return [
            agent.model_copy(update={"command": path, "version": versions.get(agent.name)})
            for agent, path in there
            if path
        ]


def missing_built_in_agent() -> str | None:
    """Return how to install the built-in agent; None if it is installed."""
    return None if is_included(BUILT_IN) else BUILT_IN.install


@dataclass(frozen=True)
class HealthCheck:
    """The outcome of one check of the doctor."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True)
class Doctor:
    """Checks what is installed and what will work; changes nothing.  Blocks."""

    directory: Path | None = None
    """The project's folder; None: the project around the current directory."""
    store: str | None = None
    """The URL of a store to check; None: the one from COTERIE_STORE or the settings, if any."""

    @cached_property
    def agents(self) -> tuple[AgentHealth, ...]:
        """The health of every registered or known agent."""
        now = instant.now()
        agents = {known.name: known.definition(known.name, None, now) for known in KNOWN_AGENTS.all}
        if isinstance(self._registry, Registry):
            agents |= self._registry.agents
        return tuple(health_of(one, ask_version=True) for one in agents.values())

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices about the registry."""
        registry = self._registry
        return registry.notices if isinstance(registry, Registry) else ()

    @cached_property
    def checks(self) -> tuple[HealthCheck, ...]:
        """The checks of the registry, project, database, keeper, sandbox, git, notifications,
        store and transport of branches; and of each broken package."""
        own = (self._check_registry(), *self._check_project(), self._check_keeper())
        broken = (_failed("package", problem) for problem in broken_packages())
        others = (*self._check_notify(), *self._check_store())
        return (*own, *broken, anyio.run(_check_sandbox), _check_git(), *others)

    @cached_property
    def _registry(self) -> Registry | CoterieError:
        try:
            return load_registry(KNOWN_AGENTS)
        except CoterieError as error:
            return error

    def _check_registry(self) -> HealthCheck:
        registry = self._registry
        if isinstance(registry, CoterieError):
            return _failed("registry", registry)
        there = registry.path.exists()
        count = counted(len(registry.agents), "agent") if there else "not created yet"
        hint = "" if there else "coterie init"
        return HealthCheck("registry", True, f"{shown(registry.path)}: {count}", hint)

    def _check_project(self) -> list[HealthCheck]:
        try:
            project = find_project(self.directory)
            place = project.folder if project.exists else project.root
        except CoterieError as error:
            return [_failed("project", error)]
        checks = [HealthCheck("project", True, f"{project.root}: writable")]
        if not os.access(place, os.W_OK | os.X_OK):
            problem = f"{place} cannot be written"
            checks = [HealthCheck("project", False, problem, "use another folder: -C DIR")]
        if not has_history(project):
            return [*checks, HealthCheck("database", True, "not created yet")]
        try:
            count = anyio.run(_count, project)
        except CoterieError as error:
            return [*checks, _failed("database", error)]
        detail = f"{shown(project.database)}: {counted(count, 'task')}"
        return [*checks, HealthCheck("database", True, detail)]

    def _check_keeper(self) -> HealthCheck:
        try:
            project = find_project(self.directory)
            folder = project.folder if project.check_origin().is_believed else None
            keeper = load_settings(folder).values.keeper
        except CoterieError as error:
            return _failed("settings", error)
        problem = anyio.run(bubblewrap_problem) if keeper == "bubblewrap" else None
        if problem is not None:
            hint = "coterie config set keeper auto"
            return HealthCheck("keeper", False, f"{keeper}: {problem}", hint)
        private = keeper == "bubblewrap" or (keeper == "auto" and anyio.run(can_be_private))
        seen = "agents cannot read each other's keys" if private else _KEYS_READABLE
        return HealthCheck("keeper", True, f"{keeper}: ends whole process trees; {seen}")

    def _check_store(self) -> list[HealthCheck]:
        """Check whether the shared store can be used; nothing if none is configured."""
        from coterie.app import store

        try:
            url = store_url(self.store)
            if url is None:
                return []
            project = find_project(self.directory)
            facts = store.describe_store(url, project)
        except CoterieError as error:
            return [HealthCheck("store", False, str(error), error.hint or "")]
        if facts.loses_commits:
            problem = f"{facts.url} may lose what it has confirmed: synchronous_commit is off"
            return [HealthCheck("store", False, problem, "set synchronous_commit = on there")]
        detail = f"PostgreSQL {facts.server}, schema {facts.schema}, {facts.tasks} tasks"
        return [HealthCheck("store", True, f"{detail}: {facts.url}"), *_check_travel(project)]

    def _check_notify(self) -> list[HealthCheck]:
        """Check whether notifications reach the user; nothing if none are configured."""
        try:
            values = load_settings(None).values
            if values.notify is None:
                return []
            project = find_project(self.directory)
            failed = anyio.run(_failed_notifications, project) if has_history(project) else []
        except CoterieError:  # reported by another check
            return []
        from coterie.app.notify import Target

        name, words = Target(values).name, values.notify_command
        if words and find_program(words[0]) is None:
            return [HealthCheck("notify", False, f"program not found: {name}", _SET_NOTIFY)]
        if failed:
            last = failed[-1]
            when = instant.in_utc(last.at)
            problem = f"{name} could not be notified of {last.incident} ({when}): {last.problem}"
            return [HealthCheck("notify", False, problem, _SET_NOTIFY)]
        return [
            HealthCheck("notify", True, f"{name} is notified when a question waits or a task ends")
        ]


_SET_NOTIFY = "coterie config set notify COMMAND --user"
_UNCONFINED = "commands that you allow run unconfined"
_KEYS_READABLE = "agents can read each other's keys"


async def _check_sandbox() -> HealthCheck:
    """Check what confines allowed commands, and those that run unasked because they only read."""
    from coterie.tools import read_only_sandbox, sandbox

    best = await sandbox.best()
    if await read_only_sandbox.works():
        return HealthCheck(
            "sandbox", True, f"{best.kind}: commands that only read run unasked, read-only"
        )
    detail = "you are asked about most commands that only read" if best.confines else _UNCONFINED
    return HealthCheck("sandbox", True, f"{best.kind}: {detail}", "install bubblewrap")


def _failed(name: str, error: CoterieError) -> HealthCheck:
    return HealthCheck(name, False, str(error), (error.hint or "").partition("\n")[0])


def _check_travel(project: Project) -> list[HealthCheck]:
    """Check whether the remote that branches travel by is reachable; nothing if it is the store."""
    from coterie.app.travel import reached_remote

    try:
        url = reached_remote(project)
    except CoterieError as error:
        return [HealthCheck("travel", False, str(error), error.hint or "")]
    if url is None:
        return []
    return [HealthCheck("travel", True, f"branches travel through {url}")]


def _check_git() -> HealthCheck:
    where = find_program("git")
    return HealthCheck("git", True, where or "not installed (not needed for chats)")


async def _failed_notifications(project: Project) -> list[PendingNotification]:
    async with App.open(project.root, project.home) as app:
        return await app.storage.notifications.failed()


async def _count(project: Project) -> int:
    async with App.open(project.root, project.home) as app:
        for problem in await app.storage.problems():
            raise StorageDamaged(str(app.root), problem)
        return len(await app.tasks())
