"""What is known of a turn that was cut off: which tool calls ran, which permissions were given.

After a kill, an agent's own history may say "aborted" for a command that finished, or "unknown"
for one that never ran.  Our record is more reliable, so the agent is told what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from coterie.engine.questions import Questions, close_question
from coterie.model import instant, step_name
from coterie.model.about import AgentQuestion, WorkflowChange
from coterie.model.interaction import (
    COTERIE,
    STOP_TASK,
    Ask,
    Display,
    Interaction,
    Option,
    Question,
    Response,
)
from coterie.model.journal import AppendAudit, Step, Turn, WorkflowChanged
from coterie.model.redaction import is_kept_as
from coterie.model.step_name import PermissionKey, StepName, parse
from coterie.model.task import Stopped
from coterie.model.tool_call import DENIED, NOT_RUN, AuditEntry, not_run
from coterie.ports import InboxStore, Parked, Storage

CallOutcome = Literal["ran", "not run", "unknown"]
_MOST_CALLS = 100
"""How many tool calls an agent is told of: the last ones."""

CANCELED = "the task was canceled before"
ENDED_BEFORE = "the conversation was ended before"
REDONE = "the step that asked it is done again"
STALE = "the turn that asked was interrupted; if it asks again, that is a new question"


@dataclass(frozen=True)
class InterruptedCall:
    """A tool call of a turn that was cut off."""

    call_id: str
    name: str
    what: str
    outcome: CallOutcome
    at: str


@dataclass(frozen=True)
class DeliveredAnswer:
    """An approval whose call never ended."""

    at: str
    step: Step
    response: Response


@dataclass
class EarlierAttempts:
    """What is known of the attempts at a turn that were cut off; empty for a new turn."""

    calls: Sequence[InterruptedCall] = ()
    unfinished: Sequence[AuditEntry] = ()
    """Requests of calls that were not run and whose end is not recorded."""
    sent: bool = False
    """Whether an earlier attempt may have reached the agent."""
    unused: dict[str, list[tuple[Step, Response]]] = field(
        default_factory=dict[str, list[tuple[Step, Response]]]
    )
    """Answers that were given but never delivered, by what they answer: each may be used once."""
    delivered: dict[str, DeliveredAnswer] = field(default_factory=dict[str, "DeliveredAnswer"])
    """Answers that were delivered but whose calls never ended, by what they answer."""
    questions: list[tuple[str, Question]] = field(default_factory=list[tuple[str, Question]])
    """The agent's own questions whose answers did not reach it, by their steps."""
    closed: set[str] = field(default_factory=set[str])
    """The steps of its own questions that were closed: nobody will answer them."""

    def take_unused(self, digest: str) -> tuple[Step, Response] | None:
        """Take an answer to an equal request that was not delivered yet."""
        answers = self.unused.get(digest)
        return answers.pop(0) if answers else None

    def step_for(self, asked: Ask, turn: str, attempt: int, key: str) -> str:
        """The step of a question that the agent asks: taken from the same question, whatever its
        key was, if that one can still be answered."""
        for place, (name, question) in enumerate(self.questions):
            if _is_repeated(question.interaction, asked):
                del self.questions[place]
                return name
        name = step_name.asked(turn, key)
        return step_name.asked(turn, f"{key}#{attempt}") if name in self.closed else name

    async def with_attempt(self, storage: Storage, attempt: Turn) -> EarlierAttempts:
        """What is known after a further attempt, which failed: the answers that it did not use
        still count."""
        last = await earlier_attempts(storage, [attempt])
        # It may have begun in the millisecond in which the attempt before it made its last call.
        further = (call for call in last.calls if call not in self.calls)
        return replace(self, sent=True, calls=(*self.calls, *further))

    async def close_questions(self, inbox: InboxStore) -> None:
        """Close the questions that were not asked again: nobody would read an answer."""
        for _, question in self.questions:
            await close_question(inbox, question.interaction, STALE)

    def note(self, *, lost: bool) -> str:
        """What the agent is told before the message; empty if there is nothing to tell."""
        if not self.sent:
            return ""
        lines = [
            "[RESUMED]",
            "This turn was interrupted and is being resumed. The following comes from Coterie's "
            "own record and overrides your history.",
        ]
        if lost:
            lines.append(
                "Your own history of this conversation was lost; the conversation so far follows."
            )
        if left_out := len(self.calls[:-_MOST_CALLS]):
            lines.append(
                f"- {left_out} earlier tool calls: not listed; check before repeating any."
            )
        lines += [
            f"- {call.name} {call.what}: {_WORDS[call.outcome]}"
            for call in self.calls[-_MOST_CALLS:]
        ]
        if not self.calls:
            lines.append("No tool calls of this turn are recorded.")
        for _, question in self.questions:
            if response := question.response:
                answer = " ".join(filter(None, (response.choice, response.words)))
                lines.append(f"- You asked: {question.interaction.display.title} Answer: {answer}")
        return "\n".join([*lines, ""])


_WORDS: dict[CallOutcome, str] = {
    "ran": "it completed; do not run it again.",
    "not run": "it was not run.",
    "unknown": "whether it ran is unknown; check before repeating it.",
}


async def earlier_attempts(
    storage: Storage, attempts: Sequence[Turn], asked: Iterable[tuple[StepName, Step]] = ()
) -> EarlierAttempts:
    """Everything known about a turn's earlier attempts, oldest first, none of which closed it.

    `asked` is what its agent asked.  Permission questions that nobody answered are closed: a later
    answer could only apply to a request that no longer exists.
    """
    if not attempts:
        return EarlierAttempts()
    first = attempts[0]  # whatever its outcome: what it did is done
    entries = [
        entry
        for entry in await storage.audit.of_task(first.task_id)
        if entry.author_actor_id == first.member and entry.timestamp >= first.opened_at
    ]
    completed = [entry for entry in entries if entry.kind == "ToolCallCompleted"]
    ended = {entry.tool_call_id for entry in completed}
    earlier = EarlierAttempts()
    refused = {one.tool_call_id for one in completed if {DENIED, NOT_RUN} & set(one.output or ())}
    for name, step in asked:
        if isinstance(name.subject, PermissionKey):
            call_id = name.subject.call
            is_over = call_id in ended
            if await _permission(storage, earlier, step, first.opened_at, is_over=is_over):
                refused.add(call_id)
        elif step.result is None:
            await _own_question(storage, earlier, step)
    requested = [entry for entry in entries if entry.kind == "ToolCallRequested"]
    earlier.unfinished = [
        entry
        for entry in requested
        if entry.tool_call_id in refused and entry.tool_call_id not in ended
    ]
    earlier.calls = [
        InterruptedCall(
            entry.tool_call_id,
            entry.tool_name,
            _what(entry),
            _outcome_of(entry.tool_call_id, ended, refused),
            entry.timestamp,
        )
        for entry in requested
    ]
    cut = any(turn.outcome in (None, "unknown") for turn in attempts)
    earlier.sent = cut or bool(requested)
    return earlier


def never_ran(request: AuditEntry, why: str) -> AuditEntry:
    """The audit row that ends a call that never ran."""
    return replace(
        request,
        kind="ToolCallCompleted",
        timestamp=instant.now(),
        input=None,
        output=not_run(why),
        is_error=True,
        duration_ms=0,
    )


async def calls_not_run(
    storage: Storage, task_id: str, unstarted: Callable[[list[str]], Sequence[str]], why: str
) -> list[AppendAudit]:
    """The audit rows that, at the end of a task, end its calls that never ran.

    `unstarted` returns, from the entries of a thread of our own agent, the calls not begun yet.
    """
    entries = await storage.audit.with_tickets(task_id)
    ended = {entry.tool_call_id for entry in entries if entry.kind == "ToolCallCompleted"}
    unfinished = [entry for entry in entries if entry.tool_call_id not in ended]
    if not unfinished:
        return []
    history = await storage.history(task_id)
    waiting: dict[str, bool] = {}
    for step in history.steps:
        subject = parse(step.name).subject
        if isinstance(subject, PermissionKey):
            response = Response.model_validate_json(step.result) if step.result else None
            allowed = response is not None and response.approves
            waiting[subject.call] = waiting.get(subject.call, True) and not allowed
    for thread in {turn.thread for turn in history.turns if turn.thread}:
        waiting |= dict.fromkeys(unstarted(await storage.conversation.thread(thread)), True)
    return [AppendAudit(never_ran(one, why)) for one in unfinished if waiting.get(one.tool_call_id)]


async def _own_question(storage: Storage, earlier: EarlierAttempts, step: Step) -> None:
    """Note what became of an agent's own question, if the step asked one."""
    question = await storage.inbox.question(step.input)
    if question is None or not isinstance(question.interaction.about, AgentQuestion):
        return
    if question.state == "closed":  # its response answers nothing
        earlier.closed.add(step.name)
    else:
        earlier.questions.append((step.name, question))


def _is_repeated(known: Interaction, asked: Ask) -> bool:
    """Whether a question is asked again, word for word; the known one is stored without secrets."""
    if asked.display is None or known.kind != asked.kind:
        return False
    texts = _texts(asked.display, asked.options)
    stored = _texts(known.display, known.options)
    return len(texts) == len(stored) and all(map(is_kept_as, texts, stored))


def _texts(display: Display, options: Iterable[Option]) -> list[str]:
    """What tells a question from others; its description may quote what the agent just said."""
    shown = [text for one in options for text in (one.id, one.label, one.detail)]
    return [display.title, display.content, *shown]


async def _permission(
    storage: Storage, earlier: EarlierAttempts, step: Step, opened_at: str, *, is_over: bool
) -> bool:
    """Note what became of a permission question; returns whether its call cannot have run."""
    if step.result is not None:
        response = Response.model_validate_json(step.result)
        if response.approves and not is_over:
            earlier.delivered[step.digest] = DeliveredAnswer(opened_at, step, response)
        return not response.approves
    question = await storage.inbox.question(step.input)
    if question is not None and question.state == "answered" and question.response:
        earlier.unused.setdefault(step.digest, []).append((step, question.response))
    elif question is not None:
        await close_question(storage.inbox, question.interaction, STALE)
    return True  # asked but never delivered: the agent cannot have continued


def _outcome_of(call_id: str, ended: set[str], refused: set[str]) -> CallOutcome:
    if call_id in refused:
        return "not run"
    return "ran" if call_id in ended else "unknown"


def _what(entry: AuditEntry) -> str:
    """Summarize a tool call: its command, its file, or else its first argument."""
    arguments = entry.input or {}
    for key in ("command", "cmd", "file_path", "path", "filePath", "title"):
        if key in arguments:
            return str(arguments[key])[:200]
    return str(next(iter(arguments.values()), ""))[:200]


async def close_superseded(storage: Storage, steps: Sequence[Step], names: Sequence[str]) -> None:
    """Close the open questions of steps that a fork supersedes."""
    for step in steps:
        if step.name in names and step.kind == "ask" and step.result is None:
            question = await storage.inbox.question(step.input)
            if question is not None:
                await close_question(storage.inbox, question.interaction, REDONE)


async def settle_change(change: WorkflowChanged, questions: Questions) -> None:
    """Ask what to do about a workflow that changed under a task; the journal records the answer."""
    question = Ask(
        author=COTERIE,
        kind="Select",
        about=WorkflowChange(step=change.step, difference=change.difference),
        options=(
            Option(id="keep", label="keep the recorded result and continue", style="primary"),
            Option(id="fork", label="redo everything from here, ignoring what was recorded"),
            Option(id=STOP_TASK, label="stop, keep everything as it is", default=True),
        ),
    )
    for number in count(1):
        name = step_name.workflow_changed(change.step, change.digest, number)
        answer = await questions.ask(name, question)
        if answer.response.selected_option_id != STOP_TASK:
            return
        if answer.fresh:
            raise Parked(Stopped("workflow_changed"))
