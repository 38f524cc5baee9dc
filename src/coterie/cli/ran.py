"""What agents ran in a run, for its report: seen by Coterie, checked by nobody."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cli.text import clip, one_line
from coterie.model.interaction import APPROVE, BY_RULE, REJECT, THIS_TASK
from coterie.model.record import InteractionRecord, Record, ToolCallRecord

_FEW = 3
_LONGEST = 50
_LEAVES = {
    APPROVE: "you allowed it once",
    THIS_TASK: "you allowed it for this task",
    BY_RULE: "you allowed it by a rule",
}


@dataclass(frozen=True)
class _Command:
    member: str
    line: str
    leave: str
    outcome: str


class CommandLog:
    """Remembers the commands that agents ran, and who let them."""

    def __init__(self) -> None:
        self._leaves: dict[tuple[str, str], str] = {}
        self._commands: list[_Command] = []

    def saw(self, record: Record) -> None:
        """Look at what happened."""
        match record:
            case InteractionRecord(state="answered") if record.interaction.permission is not None:
                asked = record.interaction
                command = record.interaction.permission.command or asked.display.content
                self._leaves[record.member, command] = record.answer
            case ToolCallRecord() if record.status != "started":
                self._ended(record)
            case _:
                pass

    def _ended(self, record: ToolCallRecord) -> None:
        command = record.input.get("command")
        if not isinstance(command, str) or not command.strip():
            return
        leave = self._leaves.get((record.member, command), "")
        if leave == REJECT:
            return
        outcome = "may have run" if record.status == "unknown" else "ok"
        outcome = "failed" if record.is_error else outcome
        self._commands.append(_Command(record.member, command, _LEAVES.get(leave, ""), outcome))

    def lines(self) -> list[str]:
        """What was run, first what somebody was asked about; each as one line."""
        known = sorted(self._commands, key=lambda one: not one.leave)
        shown = [_line(one) for one in known[:_FEW]]
        if shown:
            shown[0] += "   not a check by Coterie"
        if len(known) > _FEW:
            shown.append(f"and {len(known) - _FEW} more")
        return shown


def _line(command: _Command) -> str:
    who = f"{command.member}, {command.leave}" if command.leave else command.member
    return f"{clip(one_line(command.line), _LONGEST)} ({who}): {command.outcome}"
