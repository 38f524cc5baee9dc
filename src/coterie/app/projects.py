"""Projects: the one around us, all that Coterie has been at work in, and settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coterie.config.files import Notice
from coterie.config.project import (
    Project,
    find_project,
    known_projects,
    make_project,
    remember_project,
)
from coterie.config.settings import (
    FILE_NAME,
    AllSettings,
    Setting,
    load_settings,
    set_value,
    unset_value,
    user_settings_path,
)
from coterie.errors import UsageError
from coterie.model import instant


def project_around(directory: Path | None) -> Project | None:
    """The project that is named, or around us; None in a home folder, which is no project."""
    try:
        return find_project(directory)
    except UsageError:
        if directory is not None:
            raise
        return None


@dataclass(frozen=True)
class MadeProject:
    """A project with its `.coterie`."""

    project: Project
    is_new: bool
    notices: tuple[Notice, ...]


def open_folder(project: Project) -> MadeProject:
    """Make the project's `.coterie` if it has none, and remember the project."""
    is_new = make_project(project)
    notice = remember_project(project, instant.now())
    return MadeProject(project, is_new, (notice,) if notice else ())


@dataclass(frozen=True)
class ProjectsAtWork:
    """Every project something was done in, this one first."""

    here: Project | None
    projects: tuple[Project, ...]
    notices: tuple[Notice, ...] = ()


def projects_at_work(directory: Path | None) -> ProjectsAtWork:
    """The known projects that have a database, the one around us first."""
    known = known_projects()
    here = project_around(directory)
    others = [one for one in known.projects if here is None or one.root != here.root]
    found = [here, *others] if here is not None else others
    at_work = tuple(one for one in found if one.database.exists())
    return ProjectsAtWork(here, at_work, known.notices)


# -- settings ----------------------------------------------------------------------------------


def settings_of(project: Project) -> AllSettings:
    """The settings that hold in a project, and who said so."""
    return load_settings(project.folder if project.exists else None)


def change_setting(
    project: Project, key: str, value: str | None, *, user: bool
) -> tuple[Setting, Path]:
    """Set one setting for the user or for the project, whose `.coterie` is there; None unsets it.

    Returns what holds now, and the file that was written.
    """
    path = user_settings_path() if user else project.folder / FILE_NAME
    if value is None:
        unset_value(path, key)
    else:
        set_value(path, key, value)
    return settings_of(project).get(key), path
