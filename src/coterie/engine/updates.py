"""What an agent emits during a turn, and what is done about each of it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import anyio.to_thread

from coterie.engine.attempt import Attempt
from coterie.engine.budget import Budgets
from coterie.engine.journal import ASKED
from coterie.engine.permission import Gate
from coterie.engine.questions import Asking
from coterie.engine.subtask import Subtasks
from coterie.engine.task_run import TaskRun
from coterie.model.action import Effect
from coterie.model.interaction import Ask, Response
from coterie.model.journal import AppendAudit, AppendThread, Write
from coterie.model.record import DeltaRecord, ToolCallRecord
from coterie.model.update import (
    UNTOLD,
    Asked,
    Delegated,
    Remembered,
    Spent,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    Update,
    Waiting,
)
from coterie.ports import Channel


@dataclass(frozen=True)
class Updates:
    """Acts on the updates of turns."""

    run: TaskRun
    asking: Asking
    gate: Gate
    budgets: Budgets
    subtasks: Subtasks

    async def act(self, attempt: Attempt, channel: Channel, update: Update) -> None:
        """Do what one update asks for; the agent goes on when this returns."""
        match update:
            case TextDelta(text):
                self.run.observer.saw(DeltaRecord(attempt.task_id, attempt.member.id, text))
            case ToolCallStarted() | ToolCallFinished():
                await self._tool_call(attempt, update)
            case Asked() | Delegated():
                await channel.answer(update.key, await self._answer(attempt, update))
                self.run.tell_state(attempt.member, "working")
            case Remembered():
                await self._remember(attempt, update)
            case Spent(usage):
                if usage != UNTOLD:
                    self.run.post(attempt.spend(usage))
                self.budgets.spent(attempt.member, usage)
                await self.budgets.check(attempt)
            case Waiting(reason):
                self.run.tell_state(attempt.member, "waiting", reason)
            case _:
                pass

    # -- questions -----------------------------------------------------------------------------

    async def _answer(self, attempt: Attempt, asked: Asked | Delegated) -> Response:
        if isinstance(asked, Delegated):
            return await self.subtasks.hand_out(attempt, asked)
        call = asked.call
        if call is not None:
            # Before anybody says yes: what the call changes can be undone from here.
            await self._look_after_files(attempt, call.action.effect if call.action else "other")
            return await self.gate.answer(attempt, asked, call)
        question = Ask(
            attempt.member.id,
            asked.kind,
            asked.about,
            asked.purpose,
            asked.options,
            asked.validation,
            display=asked.display,
        )
        name = f"{attempt.step}{ASKED}{asked.key}"
        by_agent = attempt.member.type != "human"  # a person is not broken off
        return (await self.asking.ask(name, question, by_agent=by_agent)).response

    # -- tool calls ----------------------------------------------------------------------------

    async def _tool_call(
        self, attempt: Attempt, update: ToolCallStarted | ToolCallFinished
    ) -> None:
        if isinstance(update, ToolCallStarted):
            await self._look_after_files(attempt, update.effect)
        entry, record = attempt.tool_call(update)
        self.run.post(AppendAudit(entry), after=lambda: self.run.observer.saw(record))

    async def _remember(self, attempt: Attempt, update: Remembered) -> None:
        writes: list[Write] = []
        for place, entry in enumerate(update.entries, update.place):
            kept = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
            writes.append(AppendThread(attempt.task_id, update.thread, place, kept))
        records: list[ToolCallRecord] = []
        for call in update.calls:
            entry, record = attempt.tool_call(call)
            writes.append(AppendAudit(entry))
            records.append(record)

        def told() -> None:
            for record in records:
                self.run.observer.saw(record)

        if update.gates:
            await self.run.commit(*writes, after=told)
        else:
            self.run.post(*writes, after=told)

    async def _look_after_files(self, attempt: Attempt, effect: Effect) -> None:
        """Keep the files as they are, before the first thing in a turn that may change them."""
        snapshots = self.run.services.snapshots
        if snapshots is None or attempt.watched or effect == "read":
            return
        attempt.watched = True
        folder = self.run.channels.work_folder(attempt.member)
        await anyio.to_thread.run_sync(snapshots.before, attempt.task_id, folder)

    async def turn_over(self, attempt: Attempt) -> None:
        """Keep the files as the turn left them."""
        snapshots = self.run.services.snapshots
        if attempt.watched and snapshots is not None:
            folder = self.run.channels.work_folder(attempt.member)
            await anyio.to_thread.run_sync(snapshots.after, attempt.task_id, folder)
