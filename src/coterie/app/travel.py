"""How branches travel between machines: by the user's setting, and what the user agreed to.

A setting that names a remote refers to the address in the clone's configuration.  That may have
come with the folder or from an agent, so it counts only once the user has agreed to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coterie.config.project import Project, expanded, passthrough
from coterie.config.settings import load_settings
from coterie.config.teams import is_trusted, record_trust
from coterie.errors import UsageError
from coterie.model import instant
from coterie.model.flags import words
from coterie.model.remote import GitRemote, Travel, transport_of
from coterie.workspace.git import repository_of
from coterie.workspace.git_remote import remote_refs
from coterie.workspace.git_settings import repository_settings
from coterie.workspace.worktree import checkout_at, top_of

_TO_REMOTES = frozenset(
    words(
        "DBUS_SESSION_BUS_ADDRESS GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_SSL_CAINFO "
        "GIT_SSL_CAPATH GIT_SSL_CERT GIT_SSL_KEY SSH_AUTH_SOCK XDG_CONFIG_HOME XDG_RUNTIME_DIR"
    )
)
"""The variables by which the user's own git finds their keys, or what stores their passwords."""


@dataclass(frozen=True)
class ProjectRemote:
    """How the branches of a project travel.  Every call reads the files again."""

    project: Project

    def __call__(self) -> GitRemote | None:
        """Return the repository that they travel by; None: they travel in the store.

        Raises UsageError if there is no such remote, or the user has not agreed to it.
        """
        setting = load_settings(None, self.project.home).values.travel
        travel = Travel.parsed(setting)
        if travel.remote is not None:
            url = self._url_of(travel.remote)
            if not is_trusted(self._key(travel.remote, url), self.project.home):
                problem = f"Branches travel through {travel.remote}, but you have not agreed to"
                raise UsageError(
                    f"{problem} its address {url}.", _agree(setting), str(self.project.root)
                )
        elif travel.url is not None:
            url = str(expanded(travel.url)) if travel.url.startswith("~") else travel.url
        else:
            return None
        return GitRemote(url, passthrough(_TO_REMOTES))

    def agree(self, setting: str) -> str | None:
        """Agree to the current address of the remote that a setting names, and return it; None if
        it names none or there is no clone here.

        Raises UsageError if the clone has no such remote.
        """
        try:
            name = Travel.parsed(setting).remote
        except ValueError:
            return None  # reported when it is set
        if name is None or top_of(self.project.root) is None:
            return None
        url, root = self._url_of(name), str(self.project.root)
        record_trust(self._key(name, url), root, instant.now(), self.project.home)
        return url

    def _key(self, name: str, url: str) -> str:
        return f"remote:{self.project.root.resolve()}:{name}:{url}"

    def _url_of(self, name: str) -> str:
        """Return the address of a remote in the clone's own configuration, read as data."""
        known = _settings_of(self.project.root)
        url = known.get(f"remote.{name}.url")
        if url is None:
            there = ", ".join(sorted(_remotes(known))) or "none"
            problem = f"This clone has no remote {name}. There are: {there}."
            raise UsageError(problem, f"git remote add {name} URL", str(self.project.root))
        try:
            transport_of(url)
        except ValueError as wrong:
            problem = f"Branches travel through {name}, whose address {wrong}."
            way = "coterie config set travel git:ADDRESS --user"
            raise UsageError(problem, way, str(self.project.root)) from None
        return url


def reached_remote(project: Project) -> str | None:
    """Return the address of the remote that branches travel by, after reaching it; None: they
    travel in the store.  Raises UsageError and GitFailed.  Blocks."""
    remote, git = ProjectRemote(project)(), repository_of(project.root)
    if remote is None or git is None:
        return None
    remote_refs(git, remote)
    return remote.url


def _agree(setting: str) -> str:
    return f"To agree:  coterie config set travel {setting} --user"


def _settings_of(root: Path) -> dict[str, str]:
    top = top_of(root)
    place = checkout_at(top) if top is not None else None
    try:
        return repository_settings(place.common, place.git_dir) if place is not None else {}
    except ValueError as problem:
        raise UsageError(f"The remotes of this clone cannot be read: {problem}.") from None


def _remotes(known: dict[str, str]) -> list[str]:
    names = (key.removeprefix("remote.").removesuffix(".url") for key in known)
    return [name for name in names if f"remote.{name}.url" in known]
