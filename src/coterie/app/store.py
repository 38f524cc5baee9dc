"""The store that several machines share: created and upgraded by commands, never by connecting."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.config import settings
from coterie.config.project import Project, coterie_home, give_store, named_store
from coterie.engine.channels import SurvivorReaper
from coterie.errors import ForeignStore, UsageError, with_extra
from coterie.model.journal import Fence
from coterie.model.lease_clock import LeaseTimes
from coterie.model.task import running_task
from coterie.ports import Blobs, Dispatch, FindRemote, Sharing, Storage
from coterie.process.processes import PidScope
from coterie.workspace.git import Git
from coterie.workspace.worktree import top_of

if TYPE_CHECKING:
    from coterie.engine.leased import LeasedOwners
    from coterie.stores.postgres.known_head import KnownHead
    from coterie.stores.postgres.schema import StoreFacts, StoreProject

_NAME_ONE = """\
Name it:  --store postgresql://user@host/database
or once for all your projects:  coterie config set store URL --user"""


def store_url(given: str | None) -> str:
    """Return the URL of the store to use; raises UsageError if none is named anywhere."""
    url = settings.store_url(given)
    if url is None:
        raise UsageError(
            "No shared store is configured: tasks are kept in each project's folder.", _NAME_ONE
        )
    return url


def init_store(url: str, project: Project, lease: str | None = None) -> tuple[bool, StoreFacts]:
    """Create a store for this project; returns whether it is new, and the facts about it.  Blocks.

    `lease` is how long a silent machine keeps its tasks, such as `60s`.
    """
    schema, whose = _schema(), identity(project)
    ttl = LeaseTimes.ttl if lease is None else settings.milliseconds(lease) / 1000
    if ttl < SHORTEST_LEASE:
        raise UsageError(f"A lease of {lease} is too short: the minimum is {SHORTEST_LEASE:.0f}s.")
    return schema.init(url, whose, ttl), schema.describe(url, whose, known_head(project))


def upgrade_store(url: str) -> tuple[int, int]:
    """Upgrade a store; returns the number of its schema before and after.  Blocks."""
    return _schema().upgrade(url)


def describe_store(url: str, project: Project) -> StoreFacts:
    """Return the facts about a store; raises StorageError if the project cannot use it.  Blocks."""
    return _schema().describe(url, identity(project), known_head(project))


def continue_store(url: str, project: Project) -> StoreFacts:
    """Continue with a store as it is, although it is known to have held more.  Blocks."""
    schema, whose = _schema(), identity(project)
    schema.begin_history(url, whose)
    return schema.describe(url, whose)


def known_head(project: Project) -> KnownHead:
    """Return how far this machine knows the history of a store to go."""
    from coterie.stores.postgres.known_head import KnownHead

    return KnownHead(project.home or coterie_home())


SHORTEST_LEASE = 5.0
"""The shortest lease in seconds: renewing one takes a while on a busy machine."""


@dataclass(frozen=True)
class SharedStore:
    """An open store that several machines share."""

    url: str
    storage: Storage
    owners: LeasedOwners
    dispatch: Dispatch
    blobs: Blobs
    find_remote: FindRemote
    """Finds the repository that branches travel by."""

    @property
    def machine(self) -> str:
        """The name of this machine in the store."""
        return self.owners.name

    def sharing(self, fence: Fence) -> Sharing:
        """Return what the holder of a task's lease, or a mere reader, exchanges with others."""
        from coterie.engine.handing_out import TaskSharing

        session = running_task(fence.task_id)
        return TaskSharing(self.blobs, fence, session, self.machine, self.find_remote)

    async def close(self) -> None:
        """Close the connections of owners and queue; the storage is closed by its user."""
        self.owners.rows.close()
        await self.dispatch.close()


def use_store(url: str) -> None:
    """Name the store for the rest of this command."""
    give_store(url)


def require_store(project: Project) -> None:
    """Raise StorageError if a store was named for this command and is not the project's.

    Blocks.
    """
    url = named_store()
    if url is not None:
        _schema().check(url, identity(project), known_head(project))


def version() -> str:
    """Return the version of Coterie that is installed here."""
    return importlib.metadata.version("coterie")


def machine_name(home: Path | None = None) -> str:
    """Return the name of this machine in a store."""
    return settings.load_settings(None, home).values.machine or platform.node() or "unnamed"


async def open_shared(
    project: Project, machine: PidScope, name: str | None = None
) -> SharedStore | None:
    """Open the named store; None if none is named, or it belongs to another project.

    Raises StorageError if it cannot be used.
    """
    from coterie.app.takeover import UserTakeover
    from coterie.app.travel import ProjectRemote
    from coterie.engine.leased import LeasedOwners

    in_thread = anyio.to_thread.run_sync
    url = await in_thread(settings.store_url, None, project.home)
    if url is None:
        return None
    schema = _schema()
    from coterie.stores.postgres.blobs import PostgresBlobs
    from coterie.stores.postgres.dispatch import PostgresDispatch
    from coterie.stores.postgres.owners import PostgresOwnerRows
    from coterie.stores.postgres.storage import PostgresStorage
    from coterie.stores.postgres.store_url import StoreUrl

    known = known_head(project)
    try:
        ttl = await in_thread(lambda: schema.check(url, identity(project), known))
    except ForeignStore:
        return None
    name = name or await in_thread(machine_name, project.home)
    store = StoreUrl.of(url)
    dispatch = PostgresDispatch(store)
    # An owner need not wait longer than its lease for an unreachable store.
    storage = await PostgresStorage.open(url, connect_timeout=ttl, known=known)

    async def give_back(owner: str) -> None:
        await dispatch.sweep()

    owners = LeasedOwners(
        PostgresOwnerRows(store, known),
        storage.leases,
        SurvivorReaper(),
        machine,
        (project.home or coterie_home()) / "owners",
        name,
        times=LeaseTimes.of(ttl),
        version=await in_thread(version),
        takeover=UserTakeover(project, storage),
        on_death=give_back,
    )
    blobs = PostgresBlobs(store)
    return SharedStore(url, storage, owners, dispatch, blobs, ProjectRemote(project))


def identity(project: Project) -> StoreProject:
    """Return what identifies this project in any folder on any machine.  Blocks."""
    return _schema().StoreProject(project.root.name, _first_commit(project.root))


def _first_commit(root: Path) -> str:
    top = top_of(root)
    git = Git(top) if top else None
    if git is None or git.head() is None:
        return ""
    if (git.common_dir / "shallow").exists():
        problem = "The first commit of this project is missing: its clone is shallow."
        raise UsageError(problem, "git fetch --unshallow", str(root))
    # Following first parents leads to a single root, whatever was merged in later.
    return git.run("rev-list", "--first-parent", "--max-parents=0", "HEAD").strip()


def _schema() -> ModuleType:
    with with_extra("postgres", "A store in PostgreSQL needs packages that are not installed."):
        from coterie.stores.postgres import schema
    return schema
