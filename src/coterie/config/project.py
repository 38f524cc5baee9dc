"""Where we are: the user's environment, the current project, and every project Coterie worked in.

No other module reads the environment; they are passed data instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from coterie.config import files
from coterie.config.foreign_folder import look_at, refusal
from coterie.config.identity import (
    FOLDER,
    IGNORE_ALL,
    IGNORE_FILE,
    MANY_PROJECTS,
    PROJECTS_FILE,
    KnownProject,
    OriginCheck,
    check_origin,
    give_identities,
    give_identity,
    gone,
    read_known,
    without_old_place,
    write_known,
)
from coterie.errors import ConfigError, CoterieError, StorageError, StorageReadOnly, UsageError
from coterie.model.flags import words
from coterie.model.workspace import shown
from coterie.workspace.beneath import write_file

_PASSED = frozenset(
    words(
        "COLORTERM LANG LANGUAGE LOGNAME PATH SHELL TERM TZ USER "
        # Behind a company's proxy nothing works without these.
        "ALL_PROXY HTTP_PROXY HTTPS_PROXY NO_PROXY all_proxy http_proxy https_proxy no_proxy "
        "CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE"
    )
)


def coterie_home() -> Path:
    """The user's own folder, `~/.coterie` unless COTERIE_HOME moves it."""
    moved = os.environ.get("COTERIE_HOME")
    try:
        return Path(moved).expanduser().absolute() if moved else Path.home() / ".coterie"
    except RuntimeError:
        raise UsageError(
            "Your home folder cannot be found.", "Set HOME, or COTERIE_HOME to a folder of yours."
        ) from None


def user_home() -> Path | None:
    """The user's home folder, where there is one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def expanded(path: str | Path) -> Path:
    """A path with `~` expanded, if that is possible."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def passthrough(keys: Collection[str] = ()) -> dict[str, str]:
    """The part of our environment that a member's process may see; of API keys, only `keys`."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith("LC_") or name in keys
    }


def environment() -> dict[str, str]:
    """The whole environment, for a program of the user's own."""
    return dict(os.environ)


_STORE = "COTERIE_STORE"
"""The variable that names a store; members never see it, as it may hold a password."""
_given_store: ContextVar[str | None] = ContextVar("store", default=None)
SETTINGS_FILE = "settings.json"


def named_store() -> str | None:
    """The store named for this command, by an option or the environment."""
    return _given_store.get() or os.environ.get(_STORE) or None


def may_name_store(home: Path | None) -> bool:
    """Whether a store could be named: for this command, or in the user's settings file."""
    return named_store() is not None or ((home or coterie_home()) / SETTINGS_FILE).exists()


def give_store(url: str) -> None:
    """Name the store for the rest of this command."""
    _given_store.set(url)


def search_path() -> str:
    """Where programs are looked for."""
    return os.environ.get("PATH", os.defpath)


def drop_relative_folders() -> None:
    """Leave out of PATH what depends on the current folder: programs there came with it."""
    kept = filter(os.path.isabs, search_path().split(os.pathsep))
    os.environ["PATH"] = os.pathsep.join(kept) or os.defpath


ELSEWHERE = "cd into a project, or name one: -C DIR"

_NETWORK = frozenset(
    words(
        "9p afs beegfs ceph cifs fuse.ceph-fuse fuse.gcsfuse fuse.glusterfs "
        "fuse.rclone fuse.s3fs fuse.sshfs glusterfs lustre ncpfs nfs nfs4 smb3 smbfs"
    )
)


@dataclass(frozen=True)
class Project:
    """The project folder being worked on."""

    root: Path
    home: Path | None = field(default=None, compare=False)
    """Replaces the user's `~/.coterie`; a project listed in either of them is ours."""

    @property
    def place(self) -> Path:
        """Where `.coterie` is or will be, whoever made it: for naming it, never for opening it."""
        return self.root / FOLDER

    @property
    def projects(self) -> Path:
        """The user's list of projects."""
        return (self.home or coterie_home()) / PROJECTS_FILE

    @property
    def folder(self) -> Path:
        """Where everything of ours is stored, if it exists.

        Guards access to all of it: raises NotOurs unless Coterie made it here for this user.
        Once accepted it stays so for the life of the process, unless its origin is checked again.
        """
        if (self.root, self.home) not in _BELIEVED:
            require_ours(self, self.check_origin())
        return self.place

    @property
    def teams(self) -> Path:
        """Where the project's own teams are stored."""
        return self.folder / "teams"

    @property
    def database(self) -> Path:
        """The one file that holds every task."""
        return self.folder / "coterie.db"

    @property
    def exists(self) -> bool:
        """Whether Coterie has worked here before."""
        return self.folder.is_dir()

    def check_origin(self) -> OriginCheck:
        """Check again where its `.coterie` comes from."""
        try:
            check = check_origin(self.root, self.projects)
            if self.home is not None and check.origin in ("foreign", "moved"):
                check = check_origin(self.root, coterie_home() / PROJECTS_FILE)
        except OSError as error:
            raise StorageError(str(self.place), f"It cannot be read: {error.strerror}") from None
        if check.origin == "foreign" and self.root in _UNLISTED:
            check = OriginCheck("ours")
        remember = _BELIEVED.add if check.origin == "ours" else _BELIEVED.discard
        remember((self.root, self.home))
        return check


_BELIEVED: set[tuple[Path, Path | None]] = set()
"""Projects found to be ours, each as its root and home."""
_UNLISTED: set[Path] = set()
"""Projects that this process made but could not add to the list."""


def require_ours(project: Project, check: OriginCheck) -> None:
    """Raise NotOurs, with the command for each choice, unless a `.coterie` is ours or absent."""
    if not check.is_believed:
        raise refusal(project.root, check)


def find_project(chosen: str | Path | None = None, start: Path | None = None) -> Project:
    """The project that `-C DIR` names, else the one around the current folder."""
    if chosen is not None:
        root = expanded(chosen).resolve()
        if not root.is_dir():
            raise UsageError(f"{chosen} is not a folder.", None, str(root))
    else:
        root = _around((start or _here()).resolve())
    if root in _forbidden():
        named = "/" if root == Path("/") else "your home folder"
        raise UsageError(f"A project cannot be {named}.", ELSEWHERE, str(root))
    return Project(root)


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("The current folder is gone.", ELSEWHERE) from None


def _around(here: Path) -> Path:
    forbidden = _forbidden()
    ours = coterie_home().resolve()
    parents = [folder for folder in (here, *here.parents) if folder not in forbidden]
    for folder in parents:
        # The user's own ~/.coterie does not turn the folder around it into a project.
        if (folder / FOLDER).is_dir() and (folder / FOLDER).resolve() != ours:
            return folder
    return next((folder for folder in parents if (folder / ".git").exists()), here)


def _forbidden() -> frozenset[Path]:
    home = user_home()
    return frozenset({Path("/"), *([home.resolve()] if home else [])})


@dataclass(frozen=True)
class MadeProject:
    """A project whose `.coterie` is ready to be written."""

    is_new: bool
    """Whether it did not exist before."""
    notice: files.Notice | None = None


def make_project(project: Project, mounts: str | None = None) -> MadeProject:
    """Prepare `.coterie` for writing, with its identity; raises NotOurs if it is not ours.

    If the user's list cannot be written, that is a notice, not a failure.
    `mounts` replaces the system's table of mounted file systems in tests.
    """
    check = project.check_origin()
    require_ours(project, check)
    folder = project.place
    _refuse_network(folder, mounts)
    is_new = not folder.is_dir()
    if not is_new and not os.access(folder, os.W_OK | os.X_OK):
        advice = f"Make {folder} writable, or work elsewhere: -C DIR"
        raise StorageReadOnly(str(folder), "The folder cannot be written", advice)
    notice = None if check.origin == "ours" else enter_project(project)
    if not os.path.lexists(folder / IGNORE_FILE):
        with files.storage_errors(folder):
            write_file(folder, (IGNORE_FILE,), IGNORE_ALL)
    return MadeProject(is_new, notice)


def enter_project(project: Project) -> files.Notice | None:
    """Give a `.coterie` an identity of its own, and add it to the user's list of projects.

    The caller has checked it.  If the list cannot be written, only this process believes it.
    """
    path = project.projects
    try:
        with files.locked(path):
            try:
                known, notice = read_known(path), None
            except ConfigError as error:
                known, notice = {}, _set_aside(path, error)
            if project.check_origin().origin == "ours":  # another process was faster
                return notice
            if len(known) >= MANY_PROJECTS:
                known = {root: one for root, one in known.items() if _is_project(root)}
            known = without_old_place(give_identities(known, path), project.root)
            with files.storage_errors(project.root):
                entry = give_identity(project.root, known)
            write_known(path, {**known, entry.path: entry})
            project.check_origin()
    except StorageError as error:
        if error.where is not None and Path(error.where).is_relative_to(project.root):
            raise
        with files.storage_errors(project.root):
            give_identity(project.root, {})
        _UNLISTED.add(project.root)
        project.check_origin()
        problem = f"This project is not in the list of known projects: {error}"
        return files.Notice(problem, error.hint)
    return notice


def _refuse_network(folder: Path, mounts: str | None) -> None:
    network = network_type(folder, _mounts() if mounts is None else mounts)
    if network is not None:
        raise StorageError(
            str(folder),
            f"Coterie's locks cannot be trusted on a network file system ({network})",
            "Work on a copy on a local disk: -C DIR",
        )


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(errors="replace")
    except OSError:  # not Linux
        return ""


def network_type(path: Path, mounts: str) -> str | None:
    """The type of the file system a path is on, if it is a network file system."""
    point, kind = Path("/"), ""
    for mounted, named in _mounted(mounts):
        if path.is_relative_to(mounted) and len(mounted.parts) >= len(point.parts):
            point, kind = mounted, named
    if kind == "9p" and point == Path("/"):
        return None  # the only disk of some sandboxes, shared with nobody
    return kind if kind in _NETWORK else None


def _mounted(mounts: str) -> Iterator[tuple[Path, str]]:
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) >= 3:
            yield Path(re.sub(r"\\([0-7]{3})", _unescaped, words[1])), words[2]


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match.group(1), 8))


# -- known projects ----------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownProjects:
    """Projects that still exist, and notices about the list."""

    projects: tuple[Project, ...]
    notices: tuple[files.Notice, ...] = ()


def known_projects() -> KnownProjects:
    """Every project that still exists and is ours; a damaged list is set aside, not fatal."""
    path = coterie_home() / PROJECTS_FILE
    try:
        entries, notices = read_known(path), list[files.Notice]()
    except ConfigError as error:
        entries, notices = _recovered(path, error)
    notices += gone(entries)
    there: list[Project] = []
    for project in (Project(Path(root)) for root in entries if _is_project(root)):
        try:
            require_ours(project, project.check_origin())
        except CoterieError as error:
            notices.append(files.Notice(f"{error} It is skipped.", look_at(project.root)))
        else:
            there.append(project)
    return KnownProjects(tuple(there), tuple(notices))


def _recovered(
    path: Path, error: ConfigError
) -> tuple[dict[str, KnownProject], list[files.Notice]]:
    """The list if another process has repaired it meanwhile; otherwise it is set aside."""
    try:
        with files.locked(path):
            try:
                return read_known(path), []
            except ConfigError:
                return {}, [_set_aside(path, error)]
    except CoterieError:
        return {}, [files.Notice(str(error))]


def _set_aside(path: Path, error: ConfigError) -> files.Notice:
    try:
        new_name = shown(files.set_aside(path))
    except CoterieError:
        return files.Notice(str(error))
    return files.Notice(f"{error} It was renamed to {new_name}; a new project list was started.")


def _is_project(root: str) -> bool:
    try:
        return (Path(root) / FOLDER).is_dir()
    except OSError:
        return False
