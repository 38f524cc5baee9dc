"""Where we are: the user's environment, the project around us, and all that Coterie has worked in.

Nothing else looks at the environment; everyone else is handed data.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config import files
from coterie.errors import ConfigError, CoterieError, StorageError, StorageReadOnly, UsageError
from coterie.model.workspace import shown

_PASSED = frozenset(
    {
        "COLORTERM",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TZ",
        "USER",
        # Behind a company's proxy nothing works without these.
        "ALL_PROXY",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "all_proxy",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    }
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
    """A path with `~` replaced, where that stands for somebody."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def passthrough(keys: Collection[str] = ()) -> dict[str, str]:
    """What of our environment a member's process may see: nothing of ours, and of keys only
    those that are named."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith("LC_") or name in keys
    }


def search_path() -> str:
    """Where programs are looked for."""
    return os.environ.get("PATH", os.defpath)


FOLDER = ".coterie"
ELSEWHERE = "cd into a project, or name one: -C DIR"

_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph-fuse",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)


@dataclass(frozen=True)
class Project:
    """The folder that is worked on."""

    root: Path

    @property
    def folder(self) -> Path:
        """Where everything of ours is kept."""
        return self.root / FOLDER

    @property
    def teams(self) -> Path:
        """Where the project's own teams are kept."""
        return self.folder / "teams"

    @property
    def database(self) -> Path:
        """The one file that holds every task."""
        return self.folder / "coterie.db"

    @property
    def exists(self) -> bool:
        """Whether Coterie has been at work here."""
        return self.folder.is_dir()


def find_project(chosen: str | Path | None = None, start: Path | None = None) -> Project:
    """The project that `-C DIR` names, else the one around the current folder."""
    if chosen is not None:
        root = expanded(chosen).resolve()
        if not root.is_dir():
            raise UsageError(f"{chosen} is no folder.", None, str(root))
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
        # The user's own ~/.coterie does not make a project of the folder around it.
        if (folder / FOLDER).is_dir() and (folder / FOLDER).resolve() != ours:
            return folder
    return next((folder for folder in parents if (folder / ".git").exists()), here)


def _forbidden() -> frozenset[Path]:
    home = user_home()
    return frozenset({Path("/"), *([home.resolve()] if home else [])})


def make_project(project: Project, mounts: str | None = None) -> bool:
    """Make `.coterie` ready to be written; True when it was not there before.

    `mounts` is the system's table of mounted file systems, for a test to put its own.
    """
    folder = project.folder
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(
            f"{folder} is no folder.", "Coterie keeps its own there: move it away.", str(folder)
        )
    _refuse_network(folder, mounts)
    made = not folder.exists()
    if made:
        with files.storage_errors(project.root):
            folder.mkdir(mode=0o700, exist_ok=True)
    elif not os.access(folder, os.W_OK | os.X_OK):
        advice = f"Make {folder} writable, or work elsewhere: -C DIR"
        raise StorageReadOnly(str(folder), "The folder cannot be written", advice)
    if not (folder / ".gitignore").exists():
        # So that nothing of ours is ever committed, without touching the project's own file.
        files.write_atomically(folder / ".gitignore", "*\n")
    return made


def _refuse_network(folder: Path, mounts: str | None) -> None:
    found = network_type(folder, _mounts() if mounts is None else mounts)
    if found is not None:
        raise StorageError(
            str(folder),
            f"Coterie's locks cannot be trusted on a network file system ({found})",
            "Work on a copy on a local disk: -C DIR",
        )


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(errors="replace")
    except OSError:  # not Linux
        return ""


def network_type(path: Path, mounts: str) -> str | None:
    """The type of the file system a path is on, if that is one of a network."""
    point, kind = Path("/"), ""
    for mounted, named in _mounted(mounts):
        if path.is_relative_to(mounted) and len(mounted.parts) >= len(point.parts):
            point, kind = mounted, named
    if kind == "9p" and point == Path("/"):
        return None  # the only disk of some sandboxes: nobody else is on it
    return kind if kind in _NETWORK else None


def _mounted(mounts: str) -> Iterator[tuple[Path, str]]:
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) >= 3:
            yield Path(re.sub(r"\\([0-7]{3})", _unescaped, words[1])), words[2]


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found.group(1), 8))


# -- did it come with the repository? ----------------------------------------------------------


def is_tracked(project: Project) -> bool:
    """Whether a `.coterie` is under version control, so that others may have written it."""
    try:
        index = _git_folder(project.root) / "index"
        return f"{FOLDER}/".encode() in index.read_bytes()
    except OSError:
        return False


def _git_folder(root: Path) -> Path:
    parents = (folder for folder in (root, *root.parents) if (folder / ".git").exists())
    top = next(parents, root)
    marker = top / ".git"
    if not marker.is_file():
        return marker
    # A worktree or a submodule: a file that says where its folder is.
    said = marker.read_text(errors="replace")
    return top / said.removeprefix("gitdir:").strip()


PROJECTS_FILE = "projects.json"
MANY_PROJECTS = 500
"""From here on, folders that are gone are forgotten when another is added."""


@dataclass(frozen=True)
class KnownProjects:
    """Projects that still exist, and what was worth saying."""

    projects: tuple[Project, ...]
    notices: tuple[files.Notice, ...] = ()


def known_projects(home: Path | None = None) -> KnownProjects:
    """Every project that is still there; a damaged list is set aside, not fatal."""
    path = (home or coterie_home()) / PROJECTS_FILE
    try:
        entries, notices = _read_known(path), ()
    except ConfigError as error:
        entries, notices = {}, (_recovered(path, error),)
    there = tuple(Project(Path(root)) for root in entries if _is_project(root))
    return KnownProjects(there, notices)


def remember_project(project: Project, now: str, home: Path | None = None) -> files.Notice | None:
    """Enter a project into the list.  That it cannot be is worth a word, not a failure."""
    path = (home or coterie_home()) / PROJECTS_FILE
    root = str(project.root)
    try:
        if root in _read_known(path):
            return None
    except ConfigError:
        pass  # looked at again, and set aside, under the lock
    try:
        return _enter(path, root, now)
    except CoterieError as error:
        return files.Notice(
            f"This project is not in the list of known projects: {error}", error.hint
        )


def _enter(path: Path, root: str, now: str) -> files.Notice | None:
    notice = None
    with files.locked(path):
        try:
            entries = _read_known(path)
        except ConfigError as error:
            entries, notice = {}, _put_aside(path, error)
        if len(entries) >= MANY_PROJECTS:
            entries = {known: at for known, at in entries.items() if _is_project(known)}
        entries[root] = now
        projects = [{"path": known, "addedAt": at} for known, at in entries.items()]
        files.write_atomically(path, json.dumps({"projects": projects}, indent=2) + "\n")
    return notice


def _recovered(path: Path, error: ConfigError) -> files.Notice:
    try:
        with files.locked(path):
            _read_known(path)  # another process may have mended it meanwhile
    except ConfigError:
        with files.locked(path):
            return _put_aside(path, error)
    except CoterieError:
        pass
    return files.Notice(str(error))


def _put_aside(path: Path, error: ConfigError) -> files.Notice:
    try:
        aside = files.set_aside(path)
    except CoterieError:
        return files.Notice(str(error))
    return files.Notice(f"{error} It was set aside as {shown(aside)}; projects are listed anew.")


def _read_known(path: Path) -> dict[str, str]:
    """Roots and when they were added, in that order."""
    if not path.exists():
        return {}
    data = files.read_document(path).data
    listed = cast("dict[str, object]", data).get("projects") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise ConfigError(f"{shown(path)} is no list of projects.", None, str(path))
    found: dict[str, str] = {}
    for entry in cast("list[object]", listed):
        known = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        root = known.get("path")
        if isinstance(root, str) and root.startswith("/") and "\0" not in root:
            found[root] = str(known.get("addedAt", ""))
    return found


def _is_project(root: str) -> bool:
    try:
        return (Path(root) / FOLDER).is_dir()
    except OSError:
        return False
