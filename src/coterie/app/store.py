"""The store that several machines share: made and upgraded by commands, never by connecting."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from coterie.config import settings
from coterie.config.project import Project
from coterie.errors import UsageError
from coterie.workspace.git import Git
from coterie.workspace.worktree import top_of

if TYPE_CHECKING:
    from coterie.stores.postgres.schema import StoreFacts, StoreProject

_NAME_ONE = """\
Name it:  coterie store show postgresql://user@host/database
or once for all your projects:  coterie config set store URL --user"""


def store_url(given: str | None) -> str:
    """The store that is meant; raises UsageError where none is named anywhere."""
    url = settings.store_url(given)
    if url is None:
        raise UsageError("No store is named: tasks are kept in each project's folder.", _NAME_ONE)
    return url


def init_store(url: str, project: Project) -> tuple[bool, StoreFacts]:
    """Make a store for this project; whether it was made now, and what is known of it.  Blocks."""
    schema, whose = _schema(), identity(project)
    return schema.init(url, whose), schema.describe(url, whose)


def upgrade_store(url: str) -> tuple[int, int]:
    """Bring a store up to date; the number of its schema before and after.  Blocks."""
    return _schema().upgrade(url)


def describe_store(url: str, project: Project) -> StoreFacts:
    """What is known of a store; raises StorageError where this project cannot use it.  Blocks."""
    return _schema().describe(url, identity(project))


def identity(project: Project) -> StoreProject:
    """What tells this project from others, in whatever folder of whatever machine.  Blocks."""
    return _schema().StoreProject(project.root.name, _first_commit(project.root))


def _first_commit(root: Path) -> str:
    top = top_of(root)
    git = Git(top) if top else None
    if git is None or git.head() is None:
        return ""
    if (git.common_dir / "shallow").exists():
        said = "The first commit of this project is not here: its clone is shallow."
        raise UsageError(said, "git fetch --unshallow", str(root))
    # Along first parents there is one, whatever was merged in later.
    return git.run("rev-list", "--first-parent", "--max-parents=0", "HEAD").strip()


def _schema() -> ModuleType:
    try:
        from coterie.stores.postgres import schema
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "coterie":
            raise
        said = "A store in PostgreSQL needs packages that are not installed."
        raise UsageError(said, 'pip install "coterie[postgres]"') from None
    return schema
