"""The context of a running workflow: every effect goes through here and is recorded."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import anyio

from coterie.engine.questions import Questions
from coterie.engine.task_run import TaskRun, redacted_json
from coterie.engine.turns import TurnRunner
from coterie.model import instant
from coterie.model.check import CheckOutcome
from coterie.model.conversation import Brief, Message
from coterie.model.interaction import Answer, Ask
from coterie.model.journal import AppendMessage, CloseStep, OpenStep, Step, TakeRequest, Write
from coterie.model.record import MessageRecord, Record
from coterie.model.task import Stop, TaskCreated, ticket_task
from coterie.model.team import Member, base_of
from coterie.model.ticket import Ticket
from coterie.model.update import PendingCall, TurnFailed, Usage, sum_of
from coterie.ports import HandedOut, Parked, RunChild, Sharing

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope


class TaskContext:
    """What a workflow sees of the engine; implements `ports.Context`."""

    def __init__(
        self,
        run: TaskRun,
        questions: Questions,
        turns: TurnRunner,
        root: Path,
        run_child: RunChild,
    ) -> None:
        self.root: Path = root
        self._run_child = run_child
        self._run = run
        self._questions = questions
        self._turns = turns
        self._newest = 1 if self.opening else 0
        self.turns = max(run.answered_turns, default=0)
        """How many turns were taken, including replayed ones."""

    @property
    def opening(self) -> Message | None:
        """The message the task was started with."""
        return self._run.conversation[0] if self._run.task.goal else None

    async def turn(
        self, name: str, member: Member, number: int, brief: Brief | None = None
    ) -> Message | TurnFailed:
        """Take one turn of a member, on the conversation so far or on a brief."""
        self.turns: int = max(self.turns, number)
        intent = [member.id, brief.intent if brief else self._newest]
        step, is_new = self._run.journal.begin(name, "turn", intent)
        if step.result is not None:
            outcome = _recorded_turn(step.result, self._run)
        else:
            outcome = await self._turns.take(step, is_new, member, number, brief)
        if isinstance(outcome, Message) and outcome.task_id == self._run.task.task_id:
            self._newest = outcome.seq
        return outcome

    async def within_budget(self, member: Member, ticket_id: str) -> None:
        """Wait until the budget of a ticket allows a turn."""
        child = ticket_task(self._run.task.task_id, ticket_id)
        if self._turns.budgets is not None and self.has_child(child):
            await self._turns.budgets.check_ticket(member, child)

    async def ask(self, name: str, question: Ask) -> Answer:
        """Put a question in the inbox and wait for its answer."""
        return await self._questions.ask(name, question)

    async def step(
        self, name: str, intent: object, work: Callable[[], Awaitable[object]]
    ) -> object:
        """Do something once and record its result."""
        step, is_new = self._run.journal.begin(name, "step", intent)
        result = step.result
        if result is None:
            if is_new:
                await self._run.commit(OpenStep(step))
            # Redacted the first time too: a replay gives the same result, and only that is stored.
            result = redacted_json(json.dumps(await work()), self._run.services.redactor)
            self._run.post(CloseStep(step.task_id, name, result))
        recorded: object = json.loads(result)
        return recorded

    async def record(
        self, name: str, intent: object, writes: Callable[[str], Sequence[Write]]
    ) -> str:
        """Write something once, in the same transaction as its step."""
        step, _ = self._run.journal.begin(name, "step", intent)
        if step.result is not None:
            return str(json.loads(step.result))
        now = instant.now()
        done = step._replace(result=json.dumps(now))
        wake = self._run.services.session_files.wake
        written = writes(now)
        await self._run.commit(OpenStep(done), *written, after=wake)
        self._run.note_children(written)
        return now

    @property
    def sharing(self) -> Sharing | None:
        """What the task exchanges with other machines; None if there are none."""
        run, services = self._run, self._run.services
        if services.blobs is None:
            return None
        from coterie.engine.handing_out import TaskSharing

        where = (services.machine or "", services.find_remote, services.for_others)
        return TaskSharing(services.blobs, run.fence, run.task.session_id, *where)

    async def last_turn_at(self) -> str | None:
        """The machine that took the task's last turn."""
        turns = await self._run.storage.journal.turns(self._run.task.task_id)
        return turns[-1].machine if turns else None

    async def hand_out(self, name: str, part: TaskCreated) -> HandedOut:
        """Run a part as a task of its own, once."""
        from coterie.engine.handing_out import hand_out

        return await hand_out(self._run, self._run_child, name, part)

    async def permits(self, name: str, member: Member, call: PendingCall) -> bool:
        """Whether something may be done on a member's behalf."""
        checks = self._run.services.checks
        warning = await checks.unconfined_warning() if checks else ""
        if warning:
            call = replace(call, must_ask=True, note=warning)
        return await self._turns.permissions.permits(name, member, call)

    async def check(self, name: str, command: str, folder: Path) -> CheckOutcome:
        """Run a command in Coterie itself, once."""

        async def run() -> object:
            checks = self._run.services.checks
            if checks is None:
                return asdict(CheckOutcome(command, None, "Commands cannot be run here.", 0))
            return asdict(await checks.run(command, folder, self._run.channels.children))

        done = cast("dict[str, Any]", await self.step(name, [command], run))
        return CheckOutcome(**done)

    async def words(self) -> None:
        """Wait until somebody has said something that the workflow has not read yet."""
        while not self._run.unread:
            self._run.has_unread = anyio.Event()
            await self._run.has_unread.wait()

    async def heard(self, name: str) -> Sequence[Message]:
        """What people said since the last step.  Nothing new is heard while replaying."""
        if not self._run.journal.replaying and not self._run.unread:
            return ()
        step, is_new = self._run.journal.begin(name, "heard", name)
        if step.result is not None:
            seqs: list[int] = json.loads(step.result)
            self._newest = max(self._newest, *seqs)
            return [self._run.conversation[seq - 1] for seq in seqs]
        if is_new and self._run.journal.replaying:
            return ()
        return await self._take_messages(step)

    async def _take_messages(self, step: Step) -> Sequence[Message]:
        run = self._run
        writes: list[Write] = []
        messages: list[Message] = []
        while run.unread and not (messages and messages[-1].done):  # an end is the last word
            request = run.unread.pop(0)
            message = run.message(request.author, request.text, turn=0)
            run.conversation.append(message)
            messages.append(message)
            writes += [TakeRequest(request.id), AppendMessage(message)]
        done = step._replace(result=json.dumps([message.seq for message in messages]))
        await run.commit(OpenStep(done), *writes, after=lambda: self._tell_all(messages))
        self._newest = messages[-1].seq
        return messages

    def _tell_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._run.observer.saw(MessageRecord.of(message))

    @property
    def conversation(self) -> Sequence[Message]:
        """Everything that was said so far."""
        return self._run.conversation

    async def tickets(self) -> tuple[list[Ticket], list[Envelope]]:
        """The current tickets of the session, and all messages about them."""
        session, store = self._run.task.session_id, self._run.storage.tickets
        envelopes = [envelope for _, envelope in await store.envelopes(session)]
        return await store.tickets(session), envelopes

    async def spent(self) -> Mapping[str, Usage]:
        """What the task has used so far, by member."""
        costs: dict[str, list[Usage]] = {}
        for turn in await self._run.storage.journal.spending(task_id=self._run.task.task_id):
            usage = turn.used
            if usage is not None:
                costs.setdefault(base_of(turn.member), []).append(usage)
        return {member: cost for member, used in costs.items() if (cost := sum_of(used))}

    def has_child(self, task_id: str) -> bool:
        """Whether the task has a ticket with that task id."""
        return task_id in self._run.children

    def caught_up(self) -> None:
        """End the replay: the workflow no longer has to ask for every recorded step."""
        self._run.journal.caught_up()

    def tell(self, record: Record) -> None:
        """Show surfaces something that is not stored."""
        if not self._run.journal.replaying:
            self._run.observer.saw(record)

    def park(self, stop: Stop) -> NoReturn:
        """Park the task here, so that it can be resumed."""
        raise Parked(stop)


def _recorded_turn(result: str, run: TaskRun) -> Message | TurnFailed:
    """The outcome of a recorded turn: its message, or its failure."""
    recorded = json.loads(result)
    if "failed" in recorded:
        return TurnFailed(**recorded["failed"])
    # No task recorded: it belongs to the task itself, as all did before tickets became tasks.
    messages = run.conversation_of(recorded.get("task") or run.task.task_id)
    return messages[int(recorded["message"]) - 1]
