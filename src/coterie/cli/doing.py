"""What a member does now, in words: the only place where they are made."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cli.text import clock, one_line
from coterie.model.record import MemberRecord, MemberState, RunningMember
from coterie.model.update import WaitsFor

_WAITS: Mapping[WaitsFor, str] = {
    "you": "waits for you",
    "limit": "waits for a limit",
    "command": "waits for a command",
    "model": "waits for the model",
}
_QUIET: Mapping[WaitsFor, str] = {
    "command": "quiet: a command has not ended",
    "model": "quiet: the model has not answered",
}
_STATES: Mapping[MemberState, str] = {"stuck": "stuck at its limit"}


def in_words(member: MemberRecord | RunningMember) -> str:
    """`waits for you: q4`, `waits for a limit until 14:05`, `quiet: the model has not answered`."""
    state, waits_for = member.state, member.waits_for
    said = _STATES.get(state, state)
    if waits_for is not None and state in ("waiting", "quiet"):
        words = _WAITS if state == "waiting" else _QUIET
        said = words.get(waits_for, state)
    if member.until:
        said += f" until {clock(member.until)[:-3]}"
    more = member.question or one_line(member.reason)
    if not more:
        return said
    return f"{said} ({more})" if state in ("working", "quiet", "stuck") else f"{said}: {more}"
