"""`events.log`: what an envelope says, in one line."""

from __future__ import annotations

from coterie.model.envelope import (
    ArtifactRef,
    Clarification,
    ClarificationResponse,
    Envelope,
    Error,
    Instruction,
    InstructionProposal,
    Payload,
    Plan,
    Report,
    Review,
    TicketPayload,
)

_LONGEST = 300
"""The whole of it is in the envelope."""


def event_line(envelope: Envelope) -> str:
    """`[timestamp][ticket_id][event] message`, and the end of the line."""
    event, said = _told(envelope.payload)
    if not isinstance(envelope.payload, TicketPayload):
        said = f"{envelope.source} to {envelope.target}: {said}"
    text = " ".join(said.split())
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    where = envelope.ticket_id or "-"
    return f"[{envelope.timestamp}][{where}][{event}] {_printable(short)}\n"


def _printable(text: str) -> str:
    """Without what a terminal would obey, or a writer choke on."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


def _told(payload: Payload) -> tuple[str, str]:
    """What happened in a word, and the rest."""
    match payload:
        case TicketPayload(history=[*_, last]):
            return last.event, f"{last.message} ({payload.owner or 'nobody'})"
        case TicketPayload():
            return payload.status, payload.reason
        case Clarification() | ClarificationResponse():
            given = payload.questions if isinstance(payload, Clarification) else payload.answers
            kind = "clarification" if isinstance(payload, Clarification) else "answer"
            return kind, f"{payload.status}; {' / '.join(given)}"
        case Plan(tasks=tasks):
            return "plan", f"{len(tasks)} tasks: {', '.join(task.task_id for task in tasks)}"
        case InstructionProposal(summary=summary):
            return "proposal", summary
        case Instruction(summary=summary):
            return "instruction", summary
        case _:
            return _outcome(payload)


def _outcome(payload: Payload) -> tuple[str, str]:
    match payload:
        case Report():
            words = (*payload.outputs, *payload.issues, *payload.next_actions)
            return "report", f"{payload.status}; {'; '.join(words)}"
        case Review():
            words = (payload.notes, *payload.requested_changes)
            return "review", f"{payload.decision}; {'; '.join(words)}"
        case ArtifactRef():
            return "artifact", f"{payload.uri}: {payload.label}; {payload.description}"
        case Error():
            return "error", f"{payload.code}: {payload.message}"
        case _:
            return "said", ""
