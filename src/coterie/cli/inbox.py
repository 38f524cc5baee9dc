"""`inbox`, `answer` and `say`: what waits for the user in every project, and their replies."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING

import anyio
import click

from coterie.app import projects
from coterie.cli import card
from coterie.cli.main import Call, command, run_on_task, show_notices
from coterie.cli.text import ago, asking, one_line
from coterie.errors import CoterieError, NotFound, UsageError
from coterie.model import as_json
from coterie.model.record import QuestionView
from coterie.model.task import is_part, ticket_task_of
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App

_ID = re.compile(r"q\d+|last", re.I)


@command("inbox", "coterie inbox")
def inbox(call: Call) -> None:
    """What waits for your answer, in every project, the oldest first."""
    questions = waiting(call).questions
    call.records("interaction", map(as_json.question, questions))
    if not questions:
        call.line("Nothing is waiting for you.")
        return
    for view in questions:
        call.lines([*card.brief(context_of(call, view), call.width, call.paint), ""])


def waiting(call: Call, *, with_tasks: bool = False) -> projects.OpenQuestions:
    """Return the open questions of all known projects; report projects that cannot be opened."""
    open_questions = anyio.run(partial(projects.waiting, _projects(call), with_tasks=with_tasks))
    for error in open_questions.failures:
        call.problem(error)
    return open_questions


def _projects(call: Call) -> projects.ProjectsAtWork:
    """Return every project that has a database, this one first."""
    known = projects.projects_at_work(call.directory)
    show_notices(call, known.notices)
    return known


def context_of(call: Call, view: QuestionView) -> card.QuestionContext:
    """Return a question with its context; another project is named."""
    question = view.interaction
    who = asking(view.member, question.author_actor_id)
    place = f"{ticket_task_of(question.task_id) or question.task_id} {one_line(view.task_title)}"
    elsewhere = ""
    near = projects.project_around(call.directory)
    if near is None or view.project != near.root:
        place = f"{shown(view.project)} · {place}"
        elsewhere = f" -C {shlex.quote(str(view.project))}"
    since = ago(view.asked_at) if view.state == "open" else ""
    return card.QuestionContext(question, who, since, place, elsewhere)


@command("answer", "coterie answer q3 q4 once")
@click.argument("words", metavar="Q… [CHOICE]", nargs=-1, required=True)
@click.option("--say", metavar="TEXT", help="The text: an answer, a comment on one, or a rule.")
@click.option("--all-of", "task", metavar="ID", help="Every open question of this task.")
def answer(call: Call, words: tuple[str, ...], say: str | None, task: str | None) -> None:
    """Answer questions: by a choice's number, name or prefix, or with --say.

    To deny and say why: coterie answer q3 deny --say "use pnpm". To allow by a rule of your own:
    coterie answer q3 rule --say "run(npm test *)".
    """
    ids = [word for word in words if _ID.fullmatch(word)]
    choices = [word for word in words if not _ID.fullmatch(word)]
    if task is not None and not ids:
        ids = _open_of(call, task)
    if not ids or (task is None and list(words[: len(ids)]) != ids) or len(choices) > 1:
        raise UsageError("Give the questions first, then one choice.", "coterie answer q3 q4 once")
    if not choices and say is None:
        raise UsageError("No answer given.", f"coterie show {ids[0]}")
    code = anyio.run(_answer_all, call, ids, choices[0] if choices else None, say)
    if code:
        raise click.exceptions.Exit(code)


def _open_of(call: Call, task: str) -> list[str]:
    """Return the ids of a task's open questions."""

    async def body(app: App, task_id: str) -> list[str]:
        views = [view.interaction for view in await app.questions()]
        ids = [one.interaction_id for one in views if is_part(one.task_id, task_id)]
        if not ids:
            raise NotFound(f"{task_id} has no open questions.", "coterie inbox")
        return ids

    return run_on_task(call, task, body, tickets=True)


async def _answer_all(call: Call, names: list[str], choice: str | None, text: str | None) -> int:
    """Answer each question; an error with one does not keep the others from being answered."""
    code = 0
    async with projects.Inbox.open(_projects(call)) as inbox:
        for name in names:
            try:
                _show_answered(call, await inbox.answer(name, choice, text))
            except CoterieError as error:
                call.problem(error)
                code = max(code, error.exit_code)
    return code


def _show_answered(call: Call, outcome: projects.AnswerOutcome) -> None:
    view, done = outcome.view, outcome.answered
    question = view.interaction
    rules = shown(outcome.rules) if outcome.rules else None
    text = done.text if done.rule is None and question.kind != "Input" else ""
    call.record(
        "interaction",
        as_json.question(view)
        | {
            "state": "answered",
            "answer": done.choice,
            "answer_text": done.rule or text,
            "rules": rules,
            "resumable": done.resumable,
        },
    )
    answered = card.answered(question, done.choice, text)
    call.line(f"{question.interaction_id} answered: {answered}")
    if rules is not None:
        call.line(f"Saved for {done.member}, in {rules}: {done.rule}")
    if done.resumable:
        place = context_of(call, view).project
        call.line(f"{done.task_id} is not running:  coterie resume{place} {done.task_id}")


def find_question(call: Call, name: str) -> QuestionView:
    """Find the question that the user means: in this project, else in the only other with it."""

    async def inside() -> QuestionView:
        async with projects.Inbox.open(_projects(call)) as inbox:
            return await inbox.find(name)

    return anyio.run(inside)


@command("say", 'coterie say k3f9 "leave the tests alone"')
@click.argument("id_", metavar="ID")
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
def say(call: Call, id_: str, words: tuple[str, ...]) -> None:
    """Send a message to a task: your reply if it is your turn, else read after the current turn."""

    async def body(app: App, task_id: str) -> tuple[str, str | None, str, bool]:
        outcome = await app.say(task_id, " ".join(words))
        return task_id, outcome.question, str(outcome), (await app.show(task_id)).view.resumable

    task_id, question, became, resumable = run_on_task(call, id_, body)
    call.record("said", {"task": task_id, "became": became, "resumable": resumable})
    later = "It will be read after the current turn."
    call.line(later if question is None else f"{became.capitalize()}.")
    if resumable:
        call.line(f"{task_id} is not running:  coterie resume {task_id}")
