"""`coterie demo`: a real team at work, at no cost."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.lines import Surface
from coterie.cli.main import Call, command
from coterie.cli.records import JsonLines
from coterie.cli.text import cells, hanging, wrap
from coterie.errors import CoterieError, UsageError
from coterie.model.interaction import Interaction
from coterie.model.record import InteractionRecord, Record, ResultRecord
from coterie.model.team import YOU

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from coterie.app.demo import DemoCheck, DemoProject
    from coterie.app.project import App

DEFAULT_ANSWER = "Fix the query in the loop and the SQL injection first. Thank you. [DONE]"
ANSWER_TIMEOUT = 20.0
_UNATTENDED = 0.0
"""The tickets demo should ask nothing: a question that comes up all the same is a failure."""


@command("demo", "coterie demo --agents codex,claude")
@click.option(
    "--agents", metavar="A,B", help="Real CLIs in place of built-in agents; the first one manages."
)
@click.option("--chat", is_flag=True, help="A chat instead: three members review a file.")
@click.option("--keep", is_flag=True, help="With --chat: keep the folder.")
@click.option("--web", is_flag=True, help="Show it in your browser.")
def demo(call: Call, *, agents: str | None, chat: bool, keep: bool, web: bool) -> None:
    """A goal becomes tickets, tickets become checked work, in a small repository of its own.

    Real processes, a real database, real git; no login, no tokens, and your files stay untouched.
    """
    from coterie.app.agents import missing_built_in_agent

    if agents is not None and chat:
        raise UsageError("--agents and --chat cannot be combined.", "Give one of them.")
    if not chat and agents is None and (install := missing_built_in_agent()):
        call.note(f"The built-in agent is not installed ({install}); here is a chat instead.")
        chat = True
    if web:
        _in_browser(call, agents, chat=chat, keep=keep)
        return
    raise click.exceptions.Exit(_chat(call, keep=keep) if chat else _tickets(call, agents))


def _in_browser(call: Call, spec: str | None, *, chat: bool, keep: bool) -> None:
    """Run the demo in a browser, until a signal arrives."""
    import anyio

    from coterie.app.demo import demo_agents, review_demo, tickets_demo
    from coterie.app.terminal import has_desktop
    from coterie.cli.serve import require_page, run_server

    require_page()
    kept, base = keep or not chat, _folder()
    try:
        stage = review_demo(base, keep=keep) if chat else tickets_demo(base, *demo_agents(spec))
        call.record("demo", {"folder": str(stage.project.root), "kept": kept})
        _prose(
            call,
            "A team begins to work when a browser shows the address below. The processes, git and "
            "the database are real, the model is a stand-in: no login, no tokens. "
            + ("" if chat else f"All of it happens in {stage.project.root}."),
        )
        call.line()
        run_server(call, opens=call.live and has_desktop(), demo=stage)
        if kept:
            anyio.run(_hand_over, call, stage)
    finally:
        if not kept:
            shutil.rmtree(base, ignore_errors=True)


async def _hand_over(call: Call, stage: DemoProject) -> None:
    """Let the user continue the task, which was started in a home of its own."""
    from coterie.app.project import App

    async with App.open(stage.project.root) as app:
        task_id = await app.find_task("last")
        is_done = (await app.show(task_id)).view.status == "completed"
        await app.allow(task_id)
    _tell_where(call, stage.project.root, task_id, _LOOK if is_done else _STOPPED)


def _prose(call: Call, text: str) -> None:
    """Print text for a reader, wrapped."""
    call.lines(wrap(text, min(call.width, 80) - 1))


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="coterie-demo-")).resolve()


def _chat(call: Call, *, keep: bool) -> int:
    """Let three scripted members review a small file; return the exit code."""
    import anyio

    from coterie.app.demo import REVIEWERS, review_demo

    base = _folder()
    try:
        stage = review_demo(base, keep=keep)
        root = stage.project.root
        call.record("demo", {"folder": str(root), "kept": keep, "members": list(REVIEWERS)})
        _prose(
            call,
            "Three scripted members review a small file, cart.py, one after the other. "
            "Each is a real process that reads the file; what they say is kept in a real "
            "database. No login, no tokens; all of it happens in a temporary folder.",
        )
        code = anyio.run(_talk, call, stage, (f"coterie log last -C {root}",) if keep else ())
    finally:
        if not keep:
            shutil.rmtree(base, ignore_errors=True)
    call.line()
    _prose(
        call,
        "Every turn was on disk before the next one began: kill it at any moment, and "
        "`coterie resume` continues where it stopped. The same works with your own agents.",
    )
    if keep:
        call.line(f"Kept     {root}")
    call.line("Next     coterie doctor   your agents")
    call.line("         coterie init     a first team")
    call.line('         coterie "what the team should do"')
    return code


async def _talk(call: Call, stage: DemoProject, following: tuple[str, ...]) -> int:
    import anyio

    from coterie.cli.running import WaitOptions, start_task

    async with anyio.create_task_group() as group:
        answering = partial(_Answering, call, group, following)
        options = WaitOptions(ANSWER_TIMEOUT)
        return await start_task(call, stage.project, stage.start, options, stage.home, answering)
    return 1  # unreachable: type checkers think a task group may swallow errors


class _Answering(Surface):
    """Shows the run, and answers every question with its default."""

    def __init__(
        self, call: Call, group: TaskGroup, following: tuple[str, ...], surface: Surface
    ) -> None:
        import anyio

        self._call = call
        self._group = group
        self._following = following
        self._surface = surface
        self._app: App | None = None
        self._answering = anyio.Lock()

    def attach(self, app: App, task_id: str) -> None:
        self._app = app

    def show_goal(self, goal: str, author: str = YOU) -> None:
        self._surface.show_goal(goal, author)

    def saw(self, record: Record) -> None:
        self._surface.saw(record)
        if isinstance(record, InteractionRecord) and record.state == "open":
            self._group.start_soon(self._answer, record.interaction)

    async def finished(self, app: App, result: ResultRecord) -> None:
        async with self._answering:  # the project is about to be closed
            self._app = None
        await self._surface.finished(app, replace(result, next=self._following))

    async def _answer(self, question: Interaction) -> None:
        """Answer a question with its default, and say so."""
        default = next((option.id for option in question.options if option.default), None)
        if question.kind != "Input" and default is None:
            return
        text = DEFAULT_ANSWER if question.kind == "Input" else None
        note = f"{question.interaction_id} is answered with its default in the demo"
        self._call.record("note", {"message": note})
        self._call.line(f"     {note}" + (f": {default}\n" if default else "\n"))
        async with self._answering:
            with contextlib.suppress(CoterieError):  # the task may have ended meanwhile
                if self._app is not None:
                    await self._app.answer(question.interaction_id, default, text)


def _tickets(call: Call, spec: str | None) -> int:
    """Let a manager and two workers add coupons to a small shop; return the exit code."""
    import anyio

    from coterie.app.demo import TESTS, demo_agents, tickets_demo

    agents, known = demo_agents(spec)
    stage = tickets_demo(_folder(), agents, known)
    root = stage.project.root
    members = {member.id: member.agent for member in stage.start.team.members}
    call.record("demo", {"folder": str(root), "kept": True, "members": members})
    who = "built-in agents" if not known else ", ".join(agents)
    _prose(
        call,
        f"A manager and two workers ({who}) on a small repository with a failing test. The "
        "processes, git, the database and the checks are real; the model is a stand-in: no "
        "login, no tokens. The plan is approved for you (--yes), the workers may edit files and "
        f"run {TESTS}, so nothing is asked. All of it happens in {root}.",
    )
    call.line()
    return anyio.run(_work, call, stage)


async def _work(call: Call, stage: DemoProject) -> int:
    from coterie.app.demo import check_demo
    from coterie.app.project import App
    from coterie.cli.running import WaitOptions, start_task

    outcome = partial(_Outcome, call) if call.json else None
    options = WaitOptions(_UNATTENDED)
    code = await start_task(call, stage.project, stage.start, options, stage.home, outcome)
    async with App.open(stage.project.root, stage.home) as app:
        task_id = await app.find_task("last")
        checks = await check_demo(app, task_id) if code == 0 else ()
    async with App.open(stage.project.root) as app:
        await app.allow(task_id)  # it was started in a home of its own; it continues in the user's
    _print_summary(call, stage.project.root, task_id, checks)
    return code or int(not all(check.passed for check in checks))


class _Outcome(JsonLines):
    """JSON lines with the demo's outcome before the result, which always comes last."""

    def __init__(self, call: Call, _: Surface) -> None:
        super().__init__(call.record)

    async def finished(self, app: App, result: ResultRecord) -> None:
        from coterie.app.demo import check_demo

        if result.status == "completed":
            checks = await check_demo(app, result.task)
            self._emit("outcome", {"promises": {one.what: one.passed for one in checks}}, None)
        await super().finished(app, result)


def _print_summary(call: Call, root: Path, task_id: str, checks: Sequence[DemoCheck]) -> None:
    call.line()
    for check in checks:
        mark = call.paint("ok", "good") if check.passed else call.paint("NO", "bad")
        call.lines(hanging(f" {mark}     ", f"{check.what}: {check.how}", call.width, 8))
    _tell_where(call, root, task_id, _LOOK if checks else _STOPPED)


def _tell_where(call: Call, root: Path, task_id: str, commands: Sequence[tuple[str, str]]) -> None:
    """Print the folder and the commands to try in it."""
    call.line()
    call.line(f" Look   cd {root}")
    for words, what in commands:
        command = f"        coterie {words.format(task=task_id):<14}"
        beside = f"{command} {what}"
        # Never wrap a command: it is there to be pasted.
        below = [command.rstrip(), *hanging(" " * 10, what, call.width, 10)]
        call.lines([beside] if cells(beside) <= call.width else below)


_STOPPED = (
    ("resume {task}", "continue where it stopped"),
    ("tickets", "their progress"),
    ("log {task}", "the whole conversation"),
)
_LOOK = (
    ("tickets", "the tickets, and who did them"),
    ("show {task}/T4", "the one that was sent back"),
    ("log {task}", "the whole conversation"),
    ("diff {task}", "what was changed"),
    ("accept {task}", "merge it into main; until then it is on a branch"),
)
