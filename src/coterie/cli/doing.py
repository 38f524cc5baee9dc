"""What a member is doing, in words; all such texts are made here."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cli.text import one_line
from coterie.model import instant
from coterie.model.record import MemberRecord, MemberState, RunningMember
from coterie.model.update import WaitsFor

_WAITS: Mapping[WaitsFor, str] = {
    "you": "waiting for you",
    "limit": "waiting for a rate limit",
    "budget": "waiting for a budget",
    "command": "waiting for a command",
    "model": "waiting for the model",
}
_QUIET: Mapping[WaitsFor, str] = {
    "command": "a command is still running",
    "model": "the model has not answered",
}
_STATES: Mapping[MemberState, str] = {"stuck": "stuck at its limit"}


def in_words(member: MemberRecord | RunningMember, took: str = "") -> str:
    """`waiting for you: q4`, `waiting for a rate limit until 14:05 UTC`, `quiet 4m: the model has
    not answered`.

    `took` is for how long, if known.
    """
    more = member.question or one_line(member.reason)
    took = f" {took}" if took else ""
    if member.state == "working":  # the reason is the tool in use
        return f"working{f' ({more})' if more else ''}{took}"
    text = _STATES.get(member.state, member.state)
    if member.state == "waiting" and member.waits_for:
        text = _WAITS[member.waits_for]
    if member.until:
        text += f" until {instant.in_utc(member.until, short=True)}"
    if member.state == "quiet" and member.waits_for:
        more = ", ".join(part for part in (_QUIET.get(member.waits_for), more) if part)
    return f"{text}{took}{f': {more}' if more else ''}"
