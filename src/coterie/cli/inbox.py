"""`inbox`, `answer` and `say`: what waits for a person, in every project, and their words."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from coterie.cli import card, records
from coterie.cli.call import Call, command, pass_call
from coterie.cli.project import all_known, around, named, opened
from coterie.cli.reply import refuse_lost_words
from coterie.cli.text import ago, asking, one_line
from coterie.config.learned_rules import rules_path
from coterie.config.project import Project
from coterie.errors import AnswerRefused, CoterieError, NotFound, UsageError
from coterie.model.interaction import choose
from coterie.model.message import YOU
from coterie.model.paths import shown
from coterie.model.view import QuestionView

if TYPE_CHECKING:
    from coterie.app.project import Answered, App

_ID = re.compile(r"q\d+|last", re.I)


@command("inbox", "coterie inbox")
@pass_call
def inbox(call: Call) -> None:
    """What waits for your answer, in every project, the oldest first."""
    found = waiting(call)
    call.records("interaction", map(records.question, found))
    if not found:
        call.line("Nothing waits for you.")
        return
    for view in found:
        call.lines([*card.brief(asked(call, view), call.width, call.paint), ""])


def waiting(call: Call) -> list[QuestionView]:
    """Open questions of every known project; one that cannot be opened does not hide the others."""
    found: list[QuestionView] = []
    for project in all_known(call):
        try:
            found += opened(project, _open_questions)
        except CoterieError as error:
            call.problem(error)
    return sorted(found, key=lambda view: view.asked_at)


async def _open_questions(app: App) -> list[QuestionView]:
    return await app.questions()


def asked(call: Call, view: QuestionView) -> card.QuestionContext:
    """A question with what stands around it; another project is named."""
    question = view.interaction
    who = asking(view.member, question.author_actor_id)
    place = f"{question.task_id} {one_line(view.task_title)}"
    elsewhere = ""
    near = around(call)
    if near is None or view.project != near.root:
        place = f"{shown(view.project)} · {place}"
        elsewhere = f" -C {shlex.quote(str(view.project))}"
    since = ago(view.asked_at) if view.state == "open" else ""
    return card.QuestionContext(question, who, since, place, elsewhere)


# -- answer ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    choice: str | None
    text: str | None


@command("answer", "coterie answer q3 q4 once")
@click.argument("words", metavar="Q… [CHOICE]", nargs=-1, required=True)
@click.option("--say", metavar="TEXT", help="What is typed: the answer, a word with it, the rule.")
@click.option("--all-of", "task", metavar="ID", help="Every open question of this task.")
@pass_call
def answer(call: Call, words: tuple[str, ...], say: str | None, task: str | None) -> None:
    """Answer questions: by a choice's number, name or beginning, or with --say.

    To say no and why: coterie answer q3 deny --say "use pnpm". To allow by a rule of your own:
    coterie answer q3 rule --say "run(npm test *)".
    """
    ids = [word for word in words if _ID.fullmatch(word)]
    choices = [word for word in words if not _ID.fullmatch(word)]
    if task is not None and not ids:
        ids = _open_of(call, task)
    if not ids or (task is None and list(words[: len(ids)]) != ids) or len(choices) > 1:
        raise UsageError("Questions first, then one choice.", "coterie answer q3 q4 once")
    if not choices and say is None:
        raise UsageError("There is no answer.", f"coterie show {ids[0]}")
    given = _Given(choices[0] if choices else None, say)
    failures = [error for name in ids if (error := _answer_one(call, name, given))]
    if failures:
        raise click.exceptions.Exit(max(error.exit_code for error in failures))


def _open_of(call: Call, task: str) -> list[str]:
    """The open questions of a task of this project."""

    async def body(app: App) -> list[str]:
        task_id = await app.find_task(task)
        views = [view.interaction for view in await app.questions()]
        found = [one.interaction_id for one in views if one.task_id == task_id]
        if not found:
            raise NotFound(f"{task_id} asks nothing.", "coterie inbox")
        return found

    return named(call, task, body)


def _answer_one(call: Call, name: str, given: _Given) -> CoterieError | None:
    """Answer one question; what was wrong with it does not keep the others from being answered."""
    try:
        project, view = find_question(call, name)
        done = opened(project, lambda app: _give(app, view, given))
    except CoterieError as error:
        call.problem(error)
        return error
    question = view.interaction
    rules = shown(rules_path(project, done.team)) if done.rule is not None else None
    said = given.text if done.rule is None and question.kind != "Input" else None
    call.record(
        "interaction",
        records.question(view)
        | {
            "state": "answered",
            "answer": done.choice,
            "answer_text": done.rule or said or "",
            "rules": rules,
            "resumable": done.resumable,
        },
    )
    answered = card.answered(question, done.choice, said or "")
    call.line(f"{question.interaction_id} answered: {answered}")
    if rules is not None:
        call.line(f"Saved for {done.member}, in {rules}: {done.rule}")
    if done.resumable:
        place = asked(call, view).project
        call.line(f"Nobody runs {done.task_id} now:  coterie resume{place} {done.task_id}")
    return None


async def _give(app: App, view: QuestionView, given: _Given) -> Answered:
    question = view.interaction
    choice, text = given.choice, given.text
    if question.kind == "Input":
        if choice is not None and text is not None:
            raise AnswerRefused(
                f"{question.interaction_id} takes text alone. It stays open.",
                f"coterie answer {question.interaction_id} --say {shlex.quote(text)}",
            )
        choice, text = None, text or choice
    elif choice is not None and view.state == "open":
        chosen = choose(question, choice)
        refuse_lost_words(question, next(o for o in question.options if o.id == chosen), text)
    return await app.answer(question.interaction_id, choice=choice, text=text, author=YOU)


def find_question(call: Call, name: str) -> tuple[Project, QuestionView]:
    """The question a person means: in this project, else in the one other that has it.

    One that this project has already closed counts too: an answer that comes too late must be
    refused, and not be taken for the answer to a question of the same number elsewhere.
    """
    first = around(call)
    found: list[tuple[Project, QuestionView]] = []
    for project in all_known(call):
        if first is not None and project.root != first.root and found and found[0][0] == first:
            break
        views = opened(project, _every_question)
        found += [(project, view) for view in _called(name, views)]
    if not found:
        raise NotFound(f'No question "{name}" in any project.', "coterie inbox")
    found = [one for one in found if one[1].state == "open"] or found
    if len(found) > 1:
        places = ", ".join(
            f"{view.interaction.interaction_id} in {shown(project.root)}" for project, view in found
        )
        raise UsageError(f'"{name}" could be {places}.', "Name the project: -C DIR")
    return found[0]


async def _every_question(app: App) -> list[QuestionView]:
    return await app.questions(only_open=False)


def _called(name: str, views: list[QuestionView]) -> list[QuestionView]:
    if name.lower() == "last":
        return [view for view in views if view.state == "open"][-1:]
    exact = [view for view in views if view.interaction.interaction_id == name.lower()]
    return exact or [
        view
        for view in views
        if view.state == "open" and view.interaction.interaction_id.startswith(name.lower())
    ]


# -- say ---------------------------------------------------------------------------------------


@command("say", 'coterie say k3f9 "leave the tests alone"')
@click.argument("id_", metavar="ID")
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@pass_call
def say(call: Call, id_: str, words: tuple[str, ...]) -> None:
    """A word to a task: the answer where it is your turn, else heard after the running turn."""

    async def body(app: App) -> tuple[str, str, bool]:
        task_id = await app.find_task(id_)
        became = await app.say(task_id, " ".join(words))
        resumable = any(view.id == task_id and view.resumable for view in await app.tasks())
        return task_id, became, resumable

    task_id, became, resumable = named(call, id_, body)
    call.record("said", {"task": task_id, "became": became, "resumable": resumable})
    later = "Heard after the turn that runs."
    call.line(later if became == "queued" else f"{became.capitalize()}.")
    if resumable:
        call.line(f"Nobody runs {task_id} now:  coterie resume {task_id}")
