"""Projects: the current one, all that Coterie has worked in, their settings and shared inbox."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from coterie.config import project as config
from coterie.config import settings
from coterie.config.files import Notice, locked
from coterie.config.foreign_folder import FolderEntry, folder_entries, look_at, set_aside
from coterie.config.identity import FOLDER, read_known, write_known
from coterie.config.project import (
    MadeProject,
    Project,
    enter_project,
    find_project,
    known_projects,
    make_project,
    named_store,
    require_ours,
)
from coterie.config.settings import AllSettings, Setting
from coterie.errors import AnswerRefused, CoterieError, NotFound, NotOurs, UsageError
from coterie.model.interaction import choose, refuse_unused_text
from coterie.model.record import QuestionView, RunningMember, TaskView
from coterie.model.team import YOU
from coterie.model.workspace import shown

if TYPE_CHECKING:
    # Opening a project imports everything; most commands only need to know which project it is.
    from coterie.app.project import Answered, App


T = TypeVar("T")
drop_relative_folders: Callable[[], None] = config.drop_relative_folders


def project_around(directory: Path | None) -> Project | None:
    """Return the named or current project; None in a home folder, which is not a project."""
    try:
        return find_project(directory)
    except UsageError:
        if directory is not None:
            raise
        return None


def has_history(project: Project) -> bool:
    """Whether tasks were run here, or may have been on another machine; also true if the logs show
    that there was a database which is now gone."""
    if project.database.exists() or named_store():
        return True
    if project.exists and settings.store_url(None, project.home):
        return True
    try:
        return (project.folder / "logs" / "head.json").stat().st_size > 0
    except OSError:
        return False


def open_folder(project: Project) -> MadeProject:
    """Make the project's `.coterie` if it has none; raises NotOurs for one of another origin."""
    return make_project(project)


def adopt_folder(folder: Path) -> Path:
    """Make a folder a project, with a `.coterie` if it has none; returns its root.  Blocks.

    Raises UsageError if it cannot be one, and NotOurs for a `.coterie` of another origin.
    """
    try:
        project = find_project(folder)
    except (OSError, ValueError):  # a name that no folder can have
        raise UsageError(f"{folder} is not a folder.") from None
    make_project(project)
    return project.root


def contents(project: Project) -> tuple[FolderEntry, ...]:
    """List what the project's `.coterie` holds, whoever made it, for a person to review."""
    return folder_entries(project.root)


def refused(project: Project) -> NotOurs | None:
    """Return why the project's `.coterie` may not be used; None if it may, or is absent."""
    try:
        _ = project.folder
    except NotOurs as error:
        return error
    return None


def adopt(project: Project) -> Notice | None:
    """Adopt a `.coterie` that came with its folder: from now on it is used.

    Raises NotOurs if it belongs to another user, or if links are involved: none is followed.
    """
    check = project.check_origin()
    if check.origin in ("other_user", "link"):
        require_ours(project, check)
    notice = None if check.origin in ("ours", "absent") else enter_project(project)
    require_ours(project, project.check_origin())
    return notice


def set_aside_unbelieved(project: Project) -> Path | None:
    """Move what may not be used of a `.coterie` to a name that nothing reads; None: nothing."""
    check = project.check_origin()
    if check.origin == "other_user":
        require_ours(project, check)
    return None if check.is_believed else set_aside(project.root, check)


def forget(folder: Path) -> None:
    """Remove a project that is gone from the user's list; raises UsageError if it still exists."""
    root, path = folder.expanduser().resolve(), Project(folder).projects
    if (root / FOLDER).exists():
        raise UsageError(
            f"{shown(root)} still exists, and is in use.", "coterie project", str(root)
        )
    with locked(path):
        known = read_known(path)
        if known.pop(str(root), None) is None:
            raise NotFound(f"{shown(root)} is not in the list of projects.", None, str(path))
        write_known(path, known)


@dataclass(frozen=True)
class ProjectsAtWork:
    """Every project in which tasks were run, the current one first."""

    here: Project | None
    projects: tuple[Project, ...]
    notices: tuple[Notice, ...] = ()


def projects_at_work(directory: Path | None) -> ProjectsAtWork:
    """Return the known projects that have a history, the current one first."""
    known = known_projects()
    here, notices = project_around(directory), known.notices
    others = [one for one in known.projects if here is None or one.root != here.root]
    if here is not None and (why := refused(here)):
        notices = (*notices, Notice(f"{why} It is skipped.", look_at(here.root)))
        here = None
    projects = [here, *others] if here is not None else others
    at_work = tuple(one for one in projects if has_history(one))
    return ProjectsAtWork(here, at_work, tuple(dict.fromkeys(notices)))


def project_list_fingerprint(roots: Sequence[Path], home: Path | None = None) -> object:
    """Return a value that changes when projects may have been added or begun.  Blocks."""
    path = Project(Path(), home).projects
    listed = path.stat().st_mtime_ns if path.exists() else 0
    return listed, [has_history(Project(root, home)) for root in roots]


def settings_of(project: Project) -> AllSettings:
    """Return the settings that apply in a project, and where each comes from."""
    return settings.load_settings(project.folder if project.exists else None)


def change_setting(
    project: Project, key: str, value: str | None, *, user: bool
) -> tuple[Setting, Path]:
    """Set one setting for the user or the project, whose `.coterie` must exist; None unsets it.

    Returns the setting that applies now, and the file that was written.
    """
    path = settings.user_settings_path() if user else project.folder / settings.FILE_NAME
    origin = "user" if user else "project"
    if value is None:
        settings.unset_value(path, key, origin)
    else:
        settings.set_value(path, key, value, origin)
    return settings_of(project).get(key), path


def agree_to_remote(project: Project, travel: str) -> str | None:
    """Agree that this project's branches travel by the remote that a value of the setting `travel`
    names; returns its address, None if it names none or there is no clone here.

    Raises UsageError if the clone has no such remote, or one that cannot be used.
    """
    from coterie.app.travel import ProjectRemote

    return ProjectRemote(project).agree(travel)


async def project_of(task_id: str, here: Project | None) -> Project | None:
    """Return the other project that has a task with exactly this id; UsageError if several have."""
    from coterie.app.project import App

    matches: list[Project] = []
    for project in known_projects().projects:
        if (here is not None and project.root == here.root) or not has_history(project):
            continue
        with suppress(CoterieError):  # the inbox reports what is wrong with it
            async with App.open(project.root, project.home) as app:
                matches += [project] if await app.find_task(task_id) == task_id else []
    if len(matches) > 1:
        places = ", ".join(shown(project.root) for project in matches)
        raise UsageError(f"{task_id} is a task in {places}.", "Name the project: -C DIR")
    return matches[0] if matches else None


@dataclass(frozen=True)
class OpenQuestions:
    """The open questions of every known project, oldest first."""

    questions: tuple[QuestionView, ...]
    failures: tuple[CoterieError, ...]
    """The errors of projects that could not be opened; they do not hide the others."""
    tasks: tuple[TaskView, ...] = ()
    """The tasks of the current project, if requested."""


@dataclass(frozen=True)
class MembersAtWork:
    """Which members are at work in every known project, and on what."""

    members: tuple[RunningMember, ...]
    failures: tuple[CoterieError, ...]


async def members_at_work(projects: ProjectsAtWork) -> MembersAtWork:
    """Return the members of running tasks and what each is doing, then those of parked tasks that
    wait for a limit."""

    async def look(app: App) -> list[RunningMember]:
        return [*await app.running(), *await app.parked()]

    by_project, failures = await _in_each(projects, look)
    return MembersAtWork(tuple(one for members in by_project for one in members), failures)


@dataclass(frozen=True)
class AllStopped:
    """What was stopped, and where."""

    stopped: tuple[tuple[Path, TaskView], ...]
    failures: tuple[CoterieError, ...]


async def stop_all(projects: ProjectsAtWork) -> AllStopped:
    """Park every running task; one that cannot be parked does not keep the others running."""
    failures: list[CoterieError] = []

    async def stop(app: App) -> list[tuple[Path, TaskView]]:
        stopped: list[tuple[Path, TaskView]] = []
        for view in [one for one in await app.tasks() if one.is_run]:
            try:
                if await app.stop(view.id):
                    stopped.append((app.root, view))
            except CoterieError as error:
                failures.append(error)
        return stopped

    by_project, unopened = await _in_each(projects, stop)
    return AllStopped(tuple(one for some in by_project for one in some), (*failures, *unopened))


async def _in_each(
    projects: ProjectsAtWork, body: Callable[[App], Awaitable[T]]
) -> tuple[list[T], tuple[CoterieError, ...]]:
    """Apply `body` to each open project; one that cannot be opened does not hide the others."""
    from coterie.app.project import App

    results: list[T] = []
    failures: list[CoterieError] = []
    for project in projects.projects:
        try:
            async with App.open(project.root, project.home) as app:
                results.append(await body(app))
        except CoterieError as error:
            failures.append(error)
    return results, tuple(failures)


async def waiting(projects: ProjectsAtWork, *, with_tasks: bool = False) -> OpenQuestions:
    """Return the questions that wait for an answer.  With `with_tasks`, also the current project's
    tasks; it is then an error if that project cannot be opened."""
    from coterie.app.project import App

    questions: list[QuestionView] = []
    failures: list[CoterieError] = []
    tasks: list[TaskView] = []
    for project in projects.projects:
        wanted = with_tasks and project == projects.here
        try:
            async with App.open(project.root, project.home) as app:
                questions += await app.questions()
                tasks += await app.tasks() if wanted else ()
        except CoterieError as error:
            if wanted:
                raise
            failures.append(error)
    questions.sort(key=lambda view: view.asked_at)
    return OpenQuestions(tuple(questions), tuple(failures), tuple(tasks))


@dataclass(frozen=True)
class AnswerOutcome:
    """A question that was answered, and the outcome."""

    view: QuestionView
    answered: Answered
    rules: Path | None
    """The file that holds the rule which this answer made, if it made one."""


class Inbox:
    """The questions of this project and all others; each project is opened at most once."""

    def __init__(self, projects: ProjectsAtWork, stack: AsyncExitStack) -> None:
        self._projects = projects
        self._stack = stack
        self._apps: dict[Path, App] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, projects: ProjectsAtWork) -> AsyncGenerator[Inbox]:
        """Open an inbox; each project is opened when first needed and closed with the block."""
        async with AsyncExitStack() as stack:
            yield cls(projects, stack)

    async def _app(self, project: Project) -> App:
        from coterie.app.project import App

        app = self._apps.get(project.root)
        if app is None:
            app = await self._stack.enter_async_context(App.open(project.root, project.home))
            self._apps[project.root] = app
        return app

    async def find(self, name: str) -> QuestionView:
        """Return the question a person means: in this project, else in the only other that has it.

        Questions that this project has already closed count too: a late answer must be refused,
        not taken as the answer to a question with the same number elsewhere.
        """
        here = self._projects.here
        views: list[QuestionView] = []
        for project in self._projects.projects:
            if views and here is not None and project.root != here.root == views[0].project:
                break
            app = await self._app(project)
            views += _named(name, await app.questions(only_open=False))
        if not views:
            raise NotFound(f'No question "{name}" in any project.', "coterie inbox")
        views = [view for view in views if view.state == "open"] or views
        if len(views) > 1:
            places = ", ".join(
                f"{view.interaction.interaction_id} in {shown(view.project)}" for view in views
            )
            raise UsageError(f'"{name}" could be {places}.', "Name the project: -C DIR")
        return views[0]

    async def answer(self, name: str, choice: str | None, text: str | None) -> AnswerOutcome:
        """Answer a question; if AnswerRefused is raised, it stays open."""
        view = await self.find(name)
        app = await self._app(Project(view.project))
        return await answer_question(app, view, choice, text)


async def answer_question(
    app: App, view: QuestionView, choice: str | None, text: str | None
) -> AnswerOutcome:
    """Answer a question of a project; if AnswerRefused is raised, it stays open."""
    from coterie.config.teams import rules_path

    question = view.interaction
    if question.kind == "Input":
        if choice is not None and text is not None:
            raise AnswerRefused(
                f"{question.interaction_id} takes only text. It stays open.",
                f"coterie answer {question.interaction_id} --say {shlex.quote(text)}",
            )
        choice, text = None, text or choice
    elif choice is not None and view.state == "open":
        chosen = choose(question, choice)
        option = next(option for option in question.options if option.id == chosen)
        refuse_unused_text(question, option, text)
    answered = await app.answer(question.interaction_id, choice=choice, text=text, author=YOU)
    has_rule = answered.rule is not None
    rules = rules_path(app.project, answered.team) if has_rule else None
    return AnswerOutcome(view, answered, rules)


def _named(name: str, views: list[QuestionView]) -> list[QuestionView]:
    name = name.lower()
    waiting = [view for view in views if view.state == "open"]
    if name == "last":
        return waiting[-1:]
    exact = [view for view in views if view.interaction.interaction_id == name]
    return exact or [view for view in waiting if view.interaction.interaction_id.startswith(name)]
