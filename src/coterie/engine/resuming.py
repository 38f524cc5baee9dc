"""What is known of a turn that was cut: which tool calls ran, which permissions were given.

After a kill an agent's own history may say "aborted" of a command that finished, or "unknown"
of one that never ran.  Our record is the better one, so the agent is told what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from coterie.engine.questions import Questions, close_question
from coterie.model import instant, step_name
from coterie.model.about import WorkflowChange
from coterie.model.interaction import Ask, Option, Response
from coterie.model.journal import AppendAudit, Step, Turn, WorkflowChanged
from coterie.model.step_name import PermissionKey, StepName, parse
from coterie.model.task import Stopped
from coterie.model.tool_call import AuditEntry, not_run
from coterie.ports import Parked, Storage

Fate = Literal["ran", "not run", "unknown"]

CANCELED = "the task was canceled before"
ENDED_BEFORE = "the conversation was ended before"
STALE = "the turn that asked was cut; if it is asked again, that is a new question"


@dataclass(frozen=True)
class CutCall:
    """A tool call of a turn that was cut."""

    call_id: str
    name: str
    what: str
    fate: Fate
    at: str


@dataclass(frozen=True)
class DeliveredAnswer:
    """A yes whose call never ended."""

    at: str
    step: Step
    response: Response


@dataclass
class EarlierAttempts:
    """What is known of the attempts at a turn that were cut; empty for a turn that is new."""

    calls: Sequence[CutCall] = ()
    left_open: Sequence[AuditEntry] = ()
    """Requests of calls that were not run and have no end on record."""
    sent: bool = False
    """Whether an earlier attempt may have reached the agent."""
    unused: dict[str, list[tuple[Step, Response]]] = field(
        default_factory=dict[str, list[tuple[Step, Response]]]
    )
    """Answers that were given and never delivered, by what they answered: each may serve once."""
    delivered: dict[str, DeliveredAnswer] = field(default_factory=dict[str, "DeliveredAnswer"])
    """Answers that were delivered and whose calls never ended, by what they answered."""

    def take_unused(self, digest: str) -> tuple[Step, Response] | None:
        """An answer to an equal request that nobody got yet."""
        left = self.unused.get(digest)
        return left.pop(0) if left else None

    def note(self, *, lost: bool) -> str:
        """What the agent is told before the message; empty where there is nothing to tell."""
        if not self.sent:
            return ""
        lines = [
            "[RESUMED]",
            "This turn was cut off and is taken up again. What stands here comes from Coterie's "
            "own record and overrides what your history says.",
        ]
        if lost:
            lines.append("Your own history of this conversation was lost; the past is given below.")
        lines += [f"- {call.name} {call.what}: {_WORDS[call.fate]}" for call in self.calls]
        if not self.calls:
            lines.append("No tool call of it is on record.")
        return "\n".join([*lines, ""])


_WORDS: dict[Fate, str] = {
    "ran": "it ran to its end; do not run it again.",
    "not run": "it was not run.",
    "unknown": "whether it ran is unknown; look before you do it again.",
}


async def earlier_attempts(
    storage: Storage, attempts: Sequence[Turn], asked: Iterable[tuple[StepName, Step]] = ()
) -> EarlierAttempts:
    """All that is known of a turn's earlier attempts, none of which closed it.

    `asked` is what its agent asked.  Permissions that nobody answered are closed: an answer that
    comes later could only serve a request that does not exist any more.
    """
    cut = [turn for turn in attempts if turn.outcome in (None, "unknown")]
    if not cut:
        return EarlierAttempts()
    first = cut[0]
    entries = [
        entry
        for entry in await storage.audit.of_task(first.task_id)
        if entry.author_actor_id == first.member and entry.timestamp >= first.opened_at
    ]
    ended = {entry.tool_call_id for entry in entries if entry.kind == "ToolCallCompleted"}
    found = EarlierAttempts(sent=True)
    refused: set[str] = set()
    for name, step in asked:
        if isinstance(name.subject, PermissionKey):
            call_id = name.subject.call
            is_over = call_id in ended
            if await _permission(storage, found, step, first.opened_at, is_over=is_over):
                refused.add(call_id)
    requested = [entry for entry in entries if entry.kind == "ToolCallRequested"]
    found.left_open = [
        entry
        for entry in requested
        if entry.tool_call_id in refused and entry.tool_call_id not in ended
    ]
    found.calls = [
        CutCall(
            entry.tool_call_id,
            entry.tool_name,
            _what(entry),
            _fate(entry.tool_call_id, ended, refused),
            entry.timestamp,
        )
        for entry in requested
    ]
    return found


def never_ran(request: AuditEntry, why: str) -> AuditEntry:
    """The last row of a call that was never run."""
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
    storage: Storage, task_id: str, unbegun: Callable[[list[str]], Sequence[str]], why: str
) -> list[AppendAudit]:
    """The last rows of a task's calls that were never run, for its end.

    `unbegun` tells, from the entries of a thread of our own agent, which calls it had yet to make.
    """
    entries = await storage.audit.with_tickets(task_id)
    ended = {entry.tool_call_id for entry in entries if entry.kind == "ToolCallCompleted"}
    left = [entry for entry in entries if entry.tool_call_id not in ended]
    if not left:
        return []
    history = await storage.history(task_id)
    waiting: dict[str, bool] = {}
    for step in history.steps:
        subject = parse(step.name).subject
        if isinstance(subject, PermissionKey):
            given = Response.model_validate_json(step.result) if step.result else None
            allowed = given is not None and given.approves
            waiting[subject.call] = waiting.get(subject.call, True) and not allowed
    for thread in {turn.thread for turn in history.turns if turn.thread}:
        waiting |= dict.fromkeys(unbegun(await storage.conversation.thread(thread)), True)
    return [AppendAudit(never_ran(one, why)) for one in left if waiting.get(one.tool_call_id)]


async def _permission(
    storage: Storage, found: EarlierAttempts, step: Step, opened_at: str, *, is_over: bool
) -> bool:
    """Keep what came of a permission; returns whether its call cannot have run."""
    if step.result is not None:
        response = Response.model_validate_json(step.result)
        if response.approves and not is_over:
            found.delivered[step.digest] = DeliveredAnswer(opened_at, step, response)
        return not response.approves
    question = await storage.inbox.question(step.input)
    if question is not None and question.state == "answered" and question.response:
        found.unused.setdefault(step.digest, []).append((step, question.response))
    elif question is not None:
        await close_question(storage.inbox, question.interaction, STALE)
    return True  # asked and never delivered: the agent cannot have gone on


def _fate(call_id: str, ended: set[str], refused: set[str]) -> Fate:
    if call_id in refused:
        return "not run"
    return "ran" if call_id in ended else "unknown"


def _what(entry: AuditEntry) -> str:
    """A tool call in a few words: its command, its file, or the first thing it was given."""
    given = entry.input or {}
    for key in ("command", "cmd", "file_path", "path", "filePath", "title"):
        if key in given:
            return str(given[key])[:200]
    return str(next(iter(given.values()), ""))[:200]


async def settle_change(change: WorkflowChanged, questions: Questions) -> None:
    """Ask what to do about a workflow that changed under a task; the journal keeps the answer."""
    question = Ask(
        author="coterie",
        kind="Select",
        about=WorkflowChange(step=change.step, difference=change.difference),
        options=(
            Option(id="keep", label="keep the recorded result and go on", style="primary"),
            Option(id="fork", label="set aside what was recorded from here and do it anew"),
            Option(id="stop", label="stop, keep everything as it is", default=True),
        ),
    )
    for number in count(1):
        name = step_name.workflow_changed(change.step, change.digest, number)
        answer = await questions.ask(name, question)
        if answer.response.selected_option_id != "stop":
            return
        if answer.fresh:
            raise Parked(Stopped("workflow_changed"))
