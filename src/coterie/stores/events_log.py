"""`events.log`: a session's envelopes for people, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.model import envelope as payloads
from coterie.model.envelope import Envelope, Payload

_LONGEST = 300
"""The maximum length of a line's message; the full text is in the envelope."""


def log_lines(envelopes: Iterable[Envelope]) -> bytes:
    """Format envelopes as lines of the log."""
    return "".join(map(_line, envelopes)).encode()


_EVENTS: Mapping[type[Payload], tuple[str, Callable[[Any], str]]] = {
    payloads.Clarification: ("clarification", lambda p: f"{p.status}; {' / '.join(p.questions)}"),
    payloads.ClarificationResponse: ("answer", lambda p: f"{p.status}; {' / '.join(p.answers)}"),
    payloads.Plan: (
        "plan",
        lambda p: f"{len(p.tasks)} tasks: {', '.join(task.task_id for task in p.tasks)}",
    ),
    payloads.InstructionProposal: ("proposal", lambda p: p.summary),
    payloads.Instruction: ("instruction", lambda p: p.summary),
    payloads.Report: (
        "report",
        lambda p: f"{p.status}; {'; '.join((*p.outputs, *p.issues, *p.next_actions))}",
    ),
    payloads.Review: (
        "review",
        lambda p: f"{p.decision}; {'; '.join((p.notes, *p.requested_changes))}",
    ),
    payloads.ArtifactRef: ("artifact", lambda p: f"{p.uri}: {p.label}; {p.description}"),
    payloads.Error: ("error", lambda p: f"{p.code}: {p.message}"),
}
"""By payload type: the event's name in `events.log`, and how its message is formatted."""


def _line(envelope: Envelope) -> str:
    """Format one line: `[timestamp][ticket_id][event] message`."""
    event, message = _event(envelope)
    text = " ".join(message.split())
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    ticket = envelope.ticket_id or "-"
    return f"[{envelope.timestamp}][{ticket}][{event}] {_printable(short)}\n"


def _event(envelope: Envelope) -> tuple[str, str]:
    """Return the event's name and its message."""
    payload = envelope.payload
    if not isinstance(payload, payloads.TicketPayload):
        event, message = _EVENTS[type(payload)]
        return event, f"{envelope.source} to {envelope.target}: {message(payload)}"
    if not payload.history:
        return payload.status, payload.reason
    last = payload.history[-1]
    return last.event, f"{last.message} ({payload.owner or 'nobody'})"


def _printable(text: str) -> str:
    """Replace characters that a terminal would obey or that cannot be encoded."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
