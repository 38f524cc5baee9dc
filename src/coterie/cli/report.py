"""How a run ended, in a few lines, and the exit code that says the same.

The commands that agents ran were only seen by Coterie, not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coterie.cli.text import Paint, clip, counted, duration, one_line, packed, usage_text
from coterie.model import workspace
from coterie.model.conversation import MAX_UNCAPPED_TURNS
from coterie.model.interaction import APPROVE, APPROVE_BY_RULE, APPROVE_FOR_TASK, REJECT
from coterie.model.record import (
    BY_SIGNAL,
    PARKED,
    InteractionRecord,
    Record,
    ResultRecord,
    ToolCallRecord,
)
from coterie.model.task import Status, Stop, Stopped
from coterie.model.visible import printable, visible_line

_FEW = 5
"""How many files are named."""

INTERRUPTED = 130
WAITS = 3

_HEADS: dict[Status, str] = {
    "created": "Waiting",
    "running": "Waiting",
    "waiting": "Waiting",
    "completed": "Done",
    "failed": "Failed",
    "canceled": "Canceled",
}
_RESUMABLE: frozenset[Stop | None] = frozenset({Stopped("stopped"), BY_SIGNAL, PARKED})
"""Why a task is not run although it waits for nobody."""

_REASONS = {
    "done": "",
    "max_rounds": "every member has spoken",
    "nobody_named": "no next speaker was named",
    "runaway": f"{MAX_UNCAPPED_TURNS} turns without a message from you: the members kept "
    "handing over",
    "max_turns": "it reached its turn limit",
    "question": "a question is waiting for your answer",
    "ended": "you ended it",
    "stopped": "you stopped it; nothing is lost",
    "interrupted": "you interrupted it; nothing is lost",
    "parked": "nobody runs it any more; nothing is lost",
    "workflow_changed": "the workflow has changed since it started",
    "rate_limit": "a rate limit; nothing is lost",
    "budget": "you stopped it at its budget; nothing is lost",
    "skipped": "you skipped it",
    "accepted": "you accepted it",
    "gates_passed": "every gate passed; committing it is up to you",
    "gate_failed": "a gate failed",
}


_BY_GATE: Mapping[Stop | None, int] = {Stopped("gates_passed"): 0, Stopped("gate_failed"): 1}
"""Exit codes of a waiting pipeline that was told to ask nobody, by why it waits."""


def exit_code(result: ResultRecord) -> int:
    """Return 0 for done, 1 for failed or canceled, 3 for waiting for the user, 130 for interrupted
    and resumable; for a waiting pipeline that asks nobody, 0 or 1 by its gates."""
    if result.status == "completed":
        return 0
    if result.status in ("failed", "canceled"):
        return 1
    return _BY_GATE.get(result.stop, INTERRUPTED if result.stop in _RESUMABLE else WAITS)


def interrupted(task_id: str, turns: int) -> ResultRecord:
    """Return the result of a run that Ctrl-C or another signal ended."""
    return replace(failed(task_id, BY_SIGNAL.reason, turns), stop=BY_SIGNAL)


def failed(task_id: str, code: str, turns: int) -> ResultRecord:
    """Return the result of a run that an error ended; its task can be resumed."""
    following = (f"coterie resume {task_id}",)
    return ResultRecord(task_id, "waiting", code, "", turns, next=following)


def was_interrupted(result: ResultRecord) -> bool:
    """Whether Ctrl-C or another signal ended the run."""
    return result.stop == BY_SIGNAL


def stopped_line(task_id: str) -> str:
    """Return the line to show after Ctrl-C."""
    return f"Parked: coterie resume {task_id}"


def in_words(reason: str) -> str:
    """Return why a task ended or waits; empty if its status says it all."""
    return _REASONS.get(reason, printable(reason))


def _why(result: ResultRecord) -> str:
    if result.status == "waiting" and result.stop is None:
        return "an error, see above"  # its code is for programs
    return in_words(result.reason)


def lines(
    result: ResultRecord, seconds: float, paint: Paint, width: int, ran: Sequence[str] = ()
) -> list[str]:
    """Return the report, which says only what is known to be true. `ran` is what agents ran."""
    parts = [result.task, counted(result.turns, "turn"), duration(seconds)]
    if cost := usage_text(result.usage):
        parts.append(cost)
    head = "Parked" if result.stop in _RESUMABLE else _HEADS[result.status]
    meaning = "good" if result.status == "completed" else "asks"
    shown = [f"{paint(head, meaning)}  {' · '.join(parts)}"]
    if why := _why(result):
        shown.append(f"  why      {why}")
    if result.summary and result.status == "failed":  # else it was just shown above
        shown.append(f"  summary  {printable(result.summary)}")
    if result.changed:
        shown.append(f"  changed  {_changed(result.changed)}   coterie diff {result.task}")
    shown += [f"  {'' if place else 'ran':<9}{line}" for place, line in enumerate(ran)]
    if result.changed:
        shown.append(f"  undo     coterie revert {result.task}")
    return shown + packed(result.next, " · ", width, "  next     ")


def _changed(files: Sequence[str]) -> str:
    """Name the changed files, and say if they are the user's own."""
    named = ", ".join(map(visible_line, files[:_FEW]))
    more = f" and {len(files) - _FEW} more" if len(files) > _FEW else ""
    own = not any(path.startswith((".coterie/", "/")) for path in files)
    return f"{named}{more}, in your tree" if own else f"{named}{more}"


def names(message: str, name: str) -> bool:
    """Whether a message names something itself, as a word of its own: then it is not shown twice.

    Layout only: of a message that is worded differently, what it leaves out is shown.
    """
    return re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])", message) is not None


def names_place(message: str, where: str) -> bool:
    """Whether a message names a place itself, in full or as a person would type it."""
    path = re.sub(r":\d+( .*)?$", "", where)  # `file:line key`
    return names(message, path) or names(message, workspace.shown(Path(path)))


_FEW_COMMANDS = 3
_LONGEST = 50
_ALLOWED = {
    APPROVE: "you allowed it once",
    APPROVE_FOR_TASK: "you allowed it for this task",
    APPROVE_BY_RULE: "you allowed it by a rule",
}


class CommandLog:
    """Remembers the commands that agents ran, and how they were allowed."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], str] = {}
        self._allowed: list[str] = []
        """Commands that the user was asked about and allowed."""
        self._others: list[str] = []

    def saw(self, record: Record) -> None:
        match record:
            case InteractionRecord(state="answered") if record.interaction.permission is not None:
                command = record.interaction.permission.command
                self._answers[record.member, command] = record.answer
            case ToolCallRecord() if record.status != "started":
                self._ended(record)
            case _:
                pass

    def _ended(self, record: ToolCallRecord) -> None:
        command = record.input.get("command")
        if not isinstance(command, str) or not command.strip():
            return
        answer = self._answers.get((record.member, command), "")
        if answer == REJECT or record.denied or record.not_run:
            return
        ended = "may have run" if record.status == "unknown" else "ok"
        outcome = "failed" if record.is_error else ended
        allowed = _ALLOWED.get(answer)
        who = f"{record.member}, {allowed}" if allowed else record.member
        line = f"{clip(one_line(command), _LONGEST)} ({who}): {outcome}"
        (self._allowed if allowed else self._others).append(line)

    def lines(self) -> list[str]:
        """Return what was run, one line each; what the user was asked about comes first."""
        known = self._allowed + self._others
        shown = known[:_FEW_COMMANDS]
        if shown:
            shown[0] += "   not a check by Coterie"
        if len(known) > _FEW_COMMANDS:
            shown.append(f"and {len(known) - _FEW_COMMANDS} more")
        return shown
