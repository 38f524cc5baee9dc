"""What a member does now, in words: the only place where they are made."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cli.text import clock, one_line
from coterie.model.record import MemberRecord, MemberState, RunningMember
from coterie.model.update import WaitsFor

_WAITS: Mapping[WaitsFor, str] = {
    "you": "waits for you",
    "limit": "waits for a limit",
    "budget": "waits for a budget",
    "command": "waits for a command",
    "model": "waits for the model",
}
_QUIET: Mapping[WaitsFor, str] = {
    "command": "a command has not ended",
    "model": "the model has not answered",
}
_STATES: Mapping[MemberState, str] = {"stuck": "stuck at its limit"}


def in_words(member: MemberRecord | RunningMember, took: str = "") -> str:
    """`waits for you: q4`, `waits for a limit until 14:05`, `quiet 4m: the model has not answered`.

    `took` is how long it has done so, where that is known.
    """
    more = member.question or one_line(member.reason)
    took = f" {took}" if took else ""
    if member.state == "working":  # the reason is the tool in use
        return f"working{f' ({more})' if more else ''}{took}"
    said = _STATES.get(member.state, member.state)
    if member.state == "waiting" and member.waits_for:
        said = _WAITS[member.waits_for]
    if member.until:
        said += f" until {clock(member.until)[:-3]}"
    if member.state == "quiet" and member.waits_for:
        more = ", ".join(part for part in (_QUIET.get(member.waits_for), more) if part)
    return f"{said}{took}{f': {more}' if more else ''}"
