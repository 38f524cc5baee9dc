"""One inbox for every project: what waits for an answer, and answering it."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.app.project import Answered, App
from coterie.app.projects import ProjectsAtWork
from coterie.config.project import Project
from coterie.config.teams import rules_path
from coterie.errors import AnswerRefused, CoterieError, NotFound, UsageError
from coterie.model.conversation import YOU
from coterie.model.interaction import choose, refuse_lost_words
from coterie.model.record import QuestionView
from coterie.model.workspace import shown


@dataclass(frozen=True)
class OpenQuestions:
    """The open questions of every known project, the oldest first."""

    questions: tuple[QuestionView, ...]
    failures: tuple[CoterieError, ...]
    """Of projects that could not be opened; they do not hide the others."""


async def waiting(projects: ProjectsAtWork) -> OpenQuestions:
    """What waits for an answer."""
    found: list[QuestionView] = []
    failures: list[CoterieError] = []
    for project in projects.projects:
        try:
            async with App.open(project.root) as app:
                found += await app.questions()
        except CoterieError as error:
            failures.append(error)
    return OpenQuestions(tuple(sorted(found, key=lambda view: view.asked_at)), tuple(failures))


@dataclass(frozen=True)
class GivenAnswer:
    """A question that was answered, and what came of it."""

    view: QuestionView
    answered: Answered
    rules: Path | None
    """The file that holds the rule which was made by this answer."""


class Inbox:
    """The questions of this project and all others; each project is opened at most once."""

    def __init__(self, projects: ProjectsAtWork, stack: AsyncExitStack) -> None:
        self._projects = projects
        self._stack = stack
        self._apps: dict[Path, App] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, projects: ProjectsAtWork) -> AsyncGenerator[Inbox]:
        """Projects stay open for the length of the block, once something was looked for in them."""
        async with AsyncExitStack() as stack:
            yield cls(projects, stack)

    async def _app(self, project: Project) -> App:
        app = self._apps.get(project.root)
        if app is None:
            app = await self._stack.enter_async_context(App.open(project.root))
            self._apps[project.root] = app
        return app

    async def find(self, name: str) -> QuestionView:
        """The question a person means: in this project, else in the one other that has it.

        One that this project has already closed counts too: an answer that comes too late must
        be refused, and not be taken for the answer to a question of the same number elsewhere.
        """
        here = self._projects.here
        found: list[QuestionView] = []
        for project in self._projects.projects:
            if found and here is not None and project.root != here.root == found[0].project:
                break
            app = await self._app(project)
            found += _named(name, await app.questions(only_open=False))
        if not found:
            raise NotFound(f'No question "{name}" in any project.', "coterie inbox")
        found = [view for view in found if view.state == "open"] or found
        if len(found) > 1:
            places = ", ".join(
                f"{view.interaction.interaction_id} in {shown(view.project)}" for view in found
            )
            raise UsageError(f'"{name}" could be {places}.', "Name the project: -C DIR")
        return found[0]

    async def answer(self, name: str, choice: str | None, text: str | None) -> GivenAnswer:
        """Answer a question; raises AnswerRefused, and then it stays open."""
        view = await self.find(name)
        question = view.interaction
        if question.kind == "Input":
            if choice is not None and text is not None:
                raise AnswerRefused(
                    f"{question.interaction_id} takes text alone. It stays open.",
                    f"coterie answer {question.interaction_id} --say {shlex.quote(text)}",
                )
            choice, text = None, text or choice
        elif choice is not None and view.state == "open":
            chosen = choose(question, choice)
            option = next(option for option in question.options if option.id == chosen)
            refuse_lost_words(question, option, text)
        project = Project(view.project)
        app = await self._app(project)
        answered = await app.answer(question.interaction_id, choice=choice, text=text, author=YOU)
        made = answered.rule is not None
        return GivenAnswer(view, answered, rules_path(project, answered.team) if made else None)


def _named(name: str, views: list[QuestionView]) -> list[QuestionView]:
    name = name.lower()
    waiting = [view for view in views if view.state == "open"]
    if name == "last":
        return waiting[-1:]
    exact = [view for view in views if view.interaction.interaction_id == name]
    return exact or [view for view in waiting if view.interaction.interaction_id.startswith(name)]
