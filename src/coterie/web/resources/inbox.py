"""The inbox: the questions that wait for a person in every known project, and their answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from coterie.app.projects import answer_question
from coterie.app.views import find_question
from coterie.errors import CoterieError
from coterie.web.hub import Hub, ProjectId, TheHub, TheProject
from coterie.web.parameters import PROJECT, QUESTION, QuestionId
from coterie.web.problems import Problem, problem_of
from coterie.web.schema import QuestionShown, RequestBody, Shown

router: APIRouter = APIRouter(tags=["inbox"])


@router.get("/inbox")
async def list_questions(hub: TheHub) -> list[QuestionShown]:
    """List every open question, oldest first."""
    questions: list[QuestionShown] = []
    for project in await hub.projects():
        try:
            app = await hub.project(project)
            questions += [QuestionShown.of(project, view) for view in await app.questions()]
        except CoterieError:
            continue  # `GET /projects` says what is wrong with it
    return sorted(questions, key=lambda question: question.asked_at)


@router.get("/projects/{project}/questions/{question}")
async def show_question(project: ProjectId, app: TheProject, question: QuestionId) -> QuestionShown:
    """Show one question, open or not."""
    return QuestionShown.of(project, await find_question(app, question))


class AnswerGiven(RequestBody):
    """An answer to one question."""

    project: Annotated[str, Field(pattern=PROJECT)]
    question: Annotated[str, Field(pattern=QUESTION)]
    choice: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """An option's id."""
    text: Annotated[str, Field(max_length=200_000)] | None = None
    """The text typed: the answer, a note to the choice, or the rule."""


class AnswersGiven(RequestBody):
    """Answers to one or more questions."""

    answers: Annotated[list[AnswerGiven], Field(min_length=1, max_length=100)]


class AnsweredShown(Shown):
    """The outcome of one answer: the question as it is now, or why the answer was refused."""

    project: str
    question: str
    answered: QuestionShown | None = None
    rule: str | None = None
    """The rule that this answer created."""
    rules: str | None = None
    """The file that contains the rule."""
    resumable: bool = False
    """Whether no process runs the task, so that it must be resumed to continue."""
    task: str | None = None
    """The task to be resumed."""
    problem: Problem | None = None


@router.post("/inbox/answers")
async def answer(hub: TheHub, given: AnswersGiven) -> list[AnsweredShown]:
    """Answer each question; one that fails does not keep the others from being answered."""
    return [await _answered(hub, one) for one in given.answers]


async def _answered(hub: Hub, given: AnswerGiven) -> AnsweredShown:
    about = {"project": given.project, "question": given.question}
    try:
        app = await hub.project(given.project)
        view = await find_question(app, given.question)
        done = await answer_question(app, view, given.choice, given.text)
        now = await find_question(app, given.question)
    except CoterieError as error:
        return AnsweredShown.model_validate({**about, "problem": problem_of(error)})
    return AnsweredShown(
        project=given.project,
        question=given.question,
        answered=QuestionShown.of(given.project, now),
        rule=done.answered.rule,
        rules=str(done.rules) if done.rules else None,
        resumable=done.answered.resumable,
        task=done.answered.task_id,
    )
