"""`coterie` alone and `coterie help`: what waits, what runs, what to type next."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from coterie.cli import verbs
from coterie.cli.call import Call, command, pass_call, write
from coterie.cli.verbs import NoVerb

if TYPE_CHECKING:
    from coterie.model.record import QuestionView, TaskView

_FRESH = """\
Nothing here yet.   Look first:    coterie demo     (10 s, no login, no tokens)
                    Your agents:   coterie doctor
                    Start:         coterie init"""

_FEW = 5


def overview(call: Call) -> None:
    """What waits, what runs, what to type next."""
    from coterie.app.projects import project_around
    from coterie.cli import records
    from coterie.cli.inbox import waiting

    project = project_around(call.directory)
    found = waiting(call, with_tasks=True)
    questions, tasks = found.questions, found.tasks
    call.records("task", map(records.task, tasks))
    if not tasks and not questions:
        fresh = project is None or not project.exists
        call.record("overview", {"tasks": 0, "questions": 0, "next": "coterie demo"})
        call.line(_FRESH if fresh else 'No task yet.   coterie "what the team should do"')
        return
    follow = _next(tasks, questions)
    call.record("overview", {"tasks": len(tasks), "questions": len(questions), "next": follow})
    call.lines(_lines(call, tasks, questions))
    call.line(f"Next     {follow}")


def _lines(call: Call, tasks: Sequence[TaskView], questions: Sequence[QuestionView]) -> list[str]:
    from coterie.cli import card
    from coterie.cli.text import clip, one_line

    rows: list[str] = []
    for view in questions[:_FEW]:
        asked = view.interaction
        who = view.member.id if view.member else asked.author_actor_id
        rows.append(f"Waits    {asked.interaction_id}  {who} {card.in_short(asked)}")
    running = [task for task in tasks if task.pid is not None]
    rows += [f"Runs     {task.id}  {one_line(task.title)}" for task in running]
    parked = [task for task in tasks if task.resumable]
    rows += [f"Parked   {task.id}  {one_line(task.title)}" for task in parked[-_FEW:]]
    if not rows:
        rows = [f"Ended    {task.id}  {one_line(task.title)}" for task in tasks[-_FEW:]]
    return [clip(row, call.width) for row in rows]


def _next(tasks: Sequence[TaskView], questions: Sequence[QuestionView]) -> str:
    if questions:
        return "coterie inbox"
    running = [task.id for task in tasks if task.pid is not None]
    if running:
        return f"coterie log {running[-1]} --follow"
    parked = [task.id for task in tasks if task.resumable]
    if parked:
        return f"coterie resume {parked[-1]}"
    return 'coterie "what the team should do"'


@command("help", "coterie help chat")
@click.argument("verb", required=False)
@click.option("--all", "everything", is_flag=True, help="Every verb, with a line each.")
@pass_call
def help_(call: Call, verb: str | None, *, everything: bool) -> None:
    """What there is; with a verb, all about it."""
    if verb is None:
        shown = verbs.everything() if everything else verbs.summary()
    else:
        shown = _help_of(verb)
    call.record("help", {"text": shown})
    if not call.json:
        write(sys.stdout, shown)


def _help_of(word: str) -> str:
    root = click.get_current_context().find_root()
    whole = root.command
    found = whole.get_command(root, word) if isinstance(whole, click.Group) else None
    if found is None:
        raise NoVerb(word, [])
    with click.Context(found, info_name=found.name, parent=root) as context:
        return found.get_help(context)
