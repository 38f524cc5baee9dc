"""`events.log`: a session's envelopes, a line each, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.model import envelope as payloads
from coterie.model.envelope import Envelope, Payload

_LONGEST = 300
"""Of a line; the whole of it is in the envelope."""


def log_lines(envelopes: Iterable[Envelope]) -> bytes:
    """What the log holds about these."""
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
"""What an envelope is called in `events.log`, and what is said of it there."""


def _line(envelope: Envelope) -> str:
    """`[timestamp][ticket_id][event] message`, and the end of the line."""
    event, message = _event(envelope)
    text = " ".join(message.split())
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    ticket = envelope.ticket_id or "-"
    return f"[{envelope.timestamp}][{ticket}][{event}] {_printable(short)}\n"


def _event(envelope: Envelope) -> tuple[str, str]:
    """What happened in a word, and the rest."""
    payload = envelope.payload
    if not isinstance(payload, payloads.TicketPayload):
        event, message = _EVENTS[type(payload)]
        return event, f"{envelope.source} to {envelope.target}: {message(payload)}"
    if not payload.history:
        return payload.status, payload.reason
    last = payload.history[-1]
    return last.event, f"{last.message} ({payload.owner or 'nobody'})"


def _printable(text: str) -> str:
    """Without what a terminal would obey, or a writer choke on."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
