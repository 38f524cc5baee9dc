"""`coterie` alone, `help` and `completion`: what waits, what runs, what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from coterie.cli.main import UNLISTED, VERBS, Call, command, current_project

if TYPE_CHECKING:
    from coterie.model.record import QuestionView, TaskView

_FRESH = """\
Nothing here yet.   Look first:    coterie demo     (10 s, no login, no tokens)
                    Your agents:   coterie doctor
                    Start:         coterie init"""

_FEW = 5


def overview(call: Call) -> None:
    """Show what waits, what runs and what to type next."""
    from coterie.app.projects import project_around, refused
    from coterie.cli.inbox import waiting
    from coterie.model import as_json

    project = project_around(call.directory)
    if project is not None and refused(project) is not None:
        project = current_project(call)
    open_questions = waiting(call, with_tasks=True)
    questions, tasks = open_questions.questions, open_questions.tasks
    call.records("task", map(as_json.task, tasks))
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
    from coterie.cli.text import asking, clip, one_line
    from coterie.model.interaction import in_short

    rows: list[str] = []
    for view in questions[:_FEW]:
        question = view.interaction
        who = asking(view.member, question.author_actor_id)
        what = f"{who} {in_short(question)}" if who else "your turn"
        rows.append(f"Waiting  {question.interaction_id}  {what}")
    running = [task for task in tasks if task.is_run]
    rows += [f"Running  {task.id}  {one_line(task.title)}" for task in running]
    parked = [task for task in tasks if task.resumable]
    rows += [f"Parked   {task.id}  {one_line(task.title)}" for task in parked[-_FEW:]]
    if not rows:
        rows = [f"Ended    {task.id}  {one_line(task.title)}" for task in tasks[-_FEW:]]
    return [clip(row, call.row_width) for row in rows]


def _next(tasks: Sequence[TaskView], questions: Sequence[QuestionView]) -> str:
    if questions:
        return "coterie inbox"
    newest = tasks[::-1]
    if running := next((task.id for task in newest if task.is_run), None):
        return f"coterie log {running} --follow"
    parked = next((task.id for task in newest if task.resumable), None)
    return f"coterie resume {parked}" if parked else 'coterie "what the team should do"'


_WITH_WORDS = {"Work"}
"""Groups whose verbs are hard to tell apart by name, so each is listed with its help."""


def summary() -> str:
    """Return the short help, in groups."""
    lines = ["coterie: the coding agents you have, as one team", ""]
    for group, names in _groups().items():
        shown = _in_pairs(names) if group in _WITH_WORDS else [" · ".join(names)]
        lines += [f"  {'' if place else group:<9}{line}" for place, line in enumerate(shown)]
    lines += ["", '  coterie "text" talks to your default team.   All: coterie help --all']
    return "\n".join(lines)


def _in_pairs(names: list[str]) -> list[str]:
    """Verbs with their help, two per line."""
    columns = [names[0::2], names[1::2]]
    sizes = [max((len(name) for name in column), default=0) for column in columns]
    cells = [
        [f"{name:<{size}}  {VERBS[name].help}" for name in column]
        for column, size in zip(columns, sizes, strict=True)
    ]
    width = max(map(len, cells[0]))
    pairs = zip_longest(*cells, fillvalue="")
    return [f"{left:<{width}}     {right}".rstrip() for left, right in pairs]


def _long_help() -> str:
    """The long help: each verb with its line, and what applies to all of them."""
    lines = ["coterie: the coding agents you have, as one team", ""]
    for group, names in _groups().items():
        lines.append(f"  {group}")
        lines += [f"    {name:<12}{VERBS[name].help}" for name in names]
    more = {name: verb for name, verb in UNLISTED.items() if verb.group}
    lines += ["  More", *(f"    {name:<12}{verb.help}" for name, verb in more.items())]
    lines += [
        "",
        "  Every command takes",
        "    --json      print one JSON object per line",
        "    --debug     show a stack trace",
        "    -C DIR      the project (default: nearest .coterie above, git root, here)",
        "    --help      all about it, with an example",
        "",
        "  IDs: a task is k3f9, a question q4, a ticket k3f9/T2. A unique prefix works,",
        "  and `last` is the newest.",
        "  Exit codes: 0 done, 1 failed or canceled, 2 wrong usage, 3 waiting for you,",
        "  130 interrupted (continue with coterie resume).",
    ]
    return "\n".join(lines)


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, verb in VERBS.items():
        groups.setdefault(verb.group, []).append(name)
    return groups


@command("help", "coterie help chat")
@click.argument("verb", metavar="[COMMAND]", required=False)
@click.option("--all", "everything", is_flag=True, help="List every command.")
def help_(call: Call, verb: str | None, *, everything: bool) -> None:
    """List the commands; with COMMAND, show its help."""
    of_all = _long_help if everything else summary
    shown = of_all() if verb is None else _help_of(verb)
    call.record("help", {"text": shown})
    call.line(shown)


def _help_of(word: str) -> str:
    root = click.get_current_context().find_root()
    program = root.command
    subcommand = program.get_command(root, word) if isinstance(program, click.Group) else None
    if subcommand is None:
        from coterie.cli.failure import UnknownCommand

        raise UnknownCommand(word, [])
    with click.Context(subcommand, info_name=subcommand.name, parent=root) as context:
        return subcommand.get_help(context)


_WHERE = {
    "bash": 'eval "$(coterie completion bash)"          in ~/.bashrc',
    "zsh": 'eval "$(coterie completion zsh)"           in ~/.zshrc',
    "fish": "coterie completion fish | source           in ~/.config/fish/config.fish",
}


@command("completion", 'eval "$(coterie completion bash)"')
@click.argument("shell", type=click.Choice(list(_WHERE)), required=False)
def completion(call: Call, shell: str | None) -> None:
    """Print the completion script of a shell; without SHELL: where to put it."""
    if shell is None:
        for name, where in _WHERE.items():
            call.record("completion", {"shell": name, "line": where.partition("  ")[0]})
            call.line(f"  {where}")
        return
    completion_class = get_completion_class(shell)
    if completion_class is None:  # pragma: no cover  click has all three
        raise click.UsageError(f"No completion for {shell}.")
    program = click.get_current_context().find_root().command
    script = completion_class(program, {}, "coterie", "_COTERIE_COMPLETE").source()
    call.record("completion", {"shell": shell, "script": script})
    call.line(script)
