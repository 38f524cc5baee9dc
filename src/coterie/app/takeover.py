"""Whether the tasks of a silent machine are taken over: by the user's settings and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import anyio.to_thread

from coterie.config.project import Project, environment, user_home
from coterie.config.settings import Settings, load_settings
from coterie.engine.questions import close_question, request_of
from coterie.engine.steering import Answered
from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.about import SilentMachine
from coterie.model.interaction import COTERIE, Ask, Interaction, Option
from coterie.model.journal import IllegalWrite
from coterie.model.machine import OwnerRow
from coterie.model.task import IllegalEvent, TaskRow
from coterie.ports import Dispatch, OwnerRows, Storage
from coterie.process.launch import capture

LIMIT = 60.0
"""The most seconds that the command of the setting `fence` may take."""
_OUTPUT = 1 << 16
TAKE_OVER, WAIT = "takeover", "wait"


@dataclass(frozen=True)
class _Inquiry:
    beat: int
    question: str | None
    """None: nothing was asked, since the owner runs nothing."""


@dataclass
class UserTakeover:
    """`ports.Takeover` by the user's settings: with `takeover: ask`, the user is asked once for all
    processes that find an owner silent; then the command of `fence` must have ended the machine.

    The question belongs to the oldest task that the owner runs, which is the session if it also
    runs turns of that: a question in each task would ask for the same decision several times.
    """

    project: Project
    storage: Storage
    _inquiries: dict[str, _Inquiry] = field(default_factory=dict[str, _Inquiry])
    """By owner: what is known to have been asked."""
    _has_loaded: bool = False

    async def allows(self, row: OwnerRow, silent: float) -> bool:
        """Whether it may: once the user has said so, if to be asked, and `fence` has succeeded.

        It may not while the settings have a mistake, which every command shows.
        """
        try:
            settings = await _users_settings(self.project.home)
        except CoterieError:
            return False
        if settings.takeover == "ask" and not await self._is_confirmed_dead(row, silent, settings):
            return False
        return await _fenced(settings, row.machine)

    async def after_scan(self, living: Sequence[OwnerRow]) -> None:
        """Close questions about owners that gave a sign of life or are known to be dead."""
        if not self._has_loaded:
            for interaction, about in await open_questions(self.storage):
                self._inquiries[about.owner] = _Inquiry(about.beat, interaction.interaction_id)
            self._has_loaded = True
        rows = {row.id: row for row in living}
        for owner, known in list(self._inquiries.items()):
            row = rows.get(owner)
            if row is None or row.beat != known.beat:
                await self._close(known.question, row)
                del self._inquiries[owner]

    async def _is_confirmed_dead(self, row: OwnerRow, silent: float, settings: Settings) -> bool:
        known = self._inquiries.get(row.id)
        if known is None or known.beat != row.beat:
            known = await self._known_inquiry(row) or await self._ask(row, silent, settings)
            if known is None:  # another process asked, or the task just ended: retried later
                return False
            self._inquiries[row.id] = known
        question = await self.storage.inbox.question(known.question) if known.question else None
        response = question.response if question else None
        return response is not None and response.selected_option_id == TAKE_OVER

    async def _known_inquiry(self, row: OwnerRow) -> _Inquiry | None:
        """Return what was asked about this silence, answered or not."""
        for question in await self.storage.inbox.questions(only_open=False):
            interaction = question.interaction
            match interaction.about:
                case SilentMachine(owner=row.id, beat=row.beat):
                    return _Inquiry(row.beat, interaction.interaction_id)
                case _:
                    pass
        return None

    async def _ask(self, row: OwnerRow, silent: float, settings: Settings) -> _Inquiry | None:
        tasks = await self._run_by(row.id)
        if not tasks:
            return _Inquiry(row.beat, None)
        about = SilentMachine(
            machine=row.machine,
            owner=row.id,
            beat=row.beat,
            since=instant.after(-silent),
            tasks=tuple(one.id for one in tasks),
        )
        name, notifies = await self.storage.inbox.allocate(), settings.notify is not None
        event = request_of(name, tasks[0].id, _question(about), notifies=notifies)
        try:
            await self.storage.commit(None, event)
        except (IllegalWrite, IllegalEvent):
            return None
        if notifies:
            notify = await anyio.to_thread.run_sync(import_module, "coterie.app.notify")
            await notify.notify_question(self.storage, self.project.root, settings, name)
        return _Inquiry(row.beat, name)

    async def _run_by(self, owner: str) -> list[TaskRow]:
        """Return the tasks that an owner runs, oldest first, except those that never began: they
        have no agents."""
        leases = await self.storage.leases.all()
        held = {one.task_id for one in leases if one.owner == owner and one.state != "parked"}
        rows = await self.storage.events.tasks() if held else []
        return [row for row in rows if row.id in held and row.status in ("running", "waiting")]

    async def _close(self, name: str | None, row: OwnerRow | None) -> None:
        question = await self.storage.inbox.question(name) if name else None
        if question is not None and question.state == "open":
            interaction, about = question.interaction, question.interaction.about
            assert isinstance(about, SilentMachine)
            await close_question(self.storage.inbox, interaction, _why_stale(about, row))


def _question(about: SilentMachine) -> Ask:
    later = f"you are not asked again; later: coterie machines gone {about.machine}"
    return Ask(
        author=COTERIE,
        kind="Select",
        about=about,
        options=(
            Option(id=TAKE_OVER, label="take over: it is dead", style="danger"),
            Option(id=WAIT, label="wait", style="primary", default=True, detail=later),
        ),
        once=f"silent {about.owner}",
    )


def _why_stale(about: SilentMachine, row: OwnerRow | None) -> str:
    if row is None or row.dead:
        return f"what ran on {about.machine} is known to be dead"
    return f"{about.machine} was heard from again"


async def open_questions(storage: Storage) -> list[tuple[Interaction, SilentMachine]]:
    """Return the open questions about silent machines."""
    interactions = [question.interaction for question in await storage.inbox.questions()]
    return [(one, one.about) for one in interactions if isinstance(one.about, SilentMachine)]


async def answer_if_dead(
    storage: Storage,
    rows: OwnerRows,
    dispatch: Dispatch,
    question: Interaction,
    answer: Callable[[], Awaitable[Answered]],
    home: Path | None,
) -> Answered:
    """Answer whether a silent machine is dead; if so, its tasks may be taken over at once, or when
    the command of `fence` succeeds.

    Raises AnswerRefused if it has given a sign of life since the question was asked.
    """
    about = question.about
    assert isinstance(about, SilentMachine)
    row = await rows.get(about.owner)
    if row is None or row.dead or row.beat != about.beat:
        await close_question(storage.inbox, question, _why_stale(about, row))
    answered = await answer()
    # If this process ends or `fence` fails, the next one to look at the owner finds the answer.
    if answered.choice != TAKE_OVER:
        return answered
    if not await _fenced(await _users_settings(home), about.machine):
        return answered
    await rows.declare_dead(about.owner, about.beat)
    await dispatch.sweep()
    if answered.task_id != question.task_id:  # a turn of a session that runs elsewhere
        return answered
    return replace(answered, resumable=answered.task_id not in await dispatch.offered())


async def settle(storage: Storage, machine: str, author: str) -> None:
    """Answer the open questions about a machine that somebody has declared dead."""
    for interaction, about in await open_questions(storage):
        if about.machine == machine:
            await close_question(storage.inbox, interaction, None, author, TAKE_OVER)


async def _users_settings(home: Path | None) -> Settings:
    return (await anyio.to_thread.run_sync(load_settings, None, home)).values


async def _fenced(settings: Settings, machine: str) -> bool:
    """Whether the command of `fence` has ended a machine; true if there is no such command."""
    command = settings.fence_command(machine)
    if not command:
        return True
    place = str(user_home() or Path("/"))
    try:
        ran = await capture(
            command, place, environment(), most=_OUTPUT, time_limit=LIMIT, given=b""
        )
    except (OSError, ValueError):
        return False
    return ran.status == 0
