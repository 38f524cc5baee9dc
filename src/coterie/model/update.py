"""What an agent emits during a turn.  A turn ends with exactly one of the three `Turn…`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from coterie.model.about import About, AgentQuestion
from coterie.model.interaction import Display, Kind, Option, Purpose, Validation
from coterie.model.tool_call import Action, Effect

_Figure = TypeVar("_Figure", int, float)


@dataclass(frozen=True)
class Usage:
    """The cost of a turn, as far as the agent reported it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    source: str = ""


UNKNOWN_USAGE = Usage()
"""An unreported cost."""
REHEARSAL_USAGE = Usage(source="rehearsal")
"""The cost of a rehearsed turn: nothing, whatever its agent reports."""


def token_count(count: float) -> str:
    """`940`, `8.2k`, `402k`, `1.25M`."""
    if count < 999.5:
        return f"{count:.0f}"
    if count < 99_950:
        return f"{round(count / 1e3, 1):g}k"
    if count < 999_500:
        return f"{count / 1e3:.0f}k"
    millions = count / 1e6
    return f"{millions:.3g}M" if millions < 999.5 else f"{millions:.0f}M"


def sum_of(costs: Iterable[Usage]) -> Usage | None:
    """The sum of several costs; a figure that none of them reports stays unknown."""
    known = list(costs)
    if not known:
        return None
    return Usage(
        input_tokens=_sum(cost.input_tokens for cost in known),
        output_tokens=_sum(cost.output_tokens for cost in known),
        cost_usd=_sum(cost.cost_usd for cost in known),
        source=", ".join(sorted({cost.source for cost in known if cost.source})),
    )


def _sum(figures: Iterable[_Figure | None]) -> _Figure | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known[1:], known[0]) if known else None


@dataclass(frozen=True)
class TextDelta:
    """A piece of the reply: shown, not stored."""

    text: str


@dataclass(frozen=True)
class Activity:
    """A sign of life with nothing to show; it resets the silence clock."""


@dataclass(frozen=True)
class ToolCallStarted:
    """The agent began to use a tool."""

    call_id: str
    name: str
    input: Mapping[str, object] = field(default_factory=dict[str, object])
    effect: Effect = "other"
    """What the tool can do; no snapshot is taken for a tool that only reads."""


@dataclass(frozen=True)
class ToolCallFinished:
    """A tool call ended."""

    call_id: str
    is_error: bool
    output: Mapping[str, object] = field(default_factory=dict[str, object])
    name: str = ""
    """The tool's name, for a call begun by an earlier attempt; other calls are known by id."""


@dataclass(frozen=True)
class PendingCall:
    """A tool call that waits for approval."""

    call_id: str
    name: str
    input: Mapping[str, object]
    cwd: str
    action: Action | None = None
    """What it would do, for the rules; None if unknown, so that a person must decide."""
    why: str = ""
    """The purpose that the agent stated."""
    said: str = ""
    """The last thing the agent said."""
    note: str = ""
    """What else a person should know."""
    ticket: str | None = None
    """The ticket that it is for; None if there is none, or the agent cannot tell."""
    is_untouched: bool = False
    """Whether the call is known not to have begun, even after a crash: an earlier approval of it
    then still holds."""
    must_ask: bool = False
    """Whether nothing would confine it, so that rules are not enough: a person must approve it."""
    diff: str = ""
    """The change that it would make, if known."""
    number: int = 1
    """The number of the request about this call: each is a question of its own."""

    @property
    def key(self) -> str:
        """What tells this request from others about the same call."""
        return f"{self.call_id}#{self.number}" if self.number > 1 else self.call_id


@dataclass(frozen=True)
class Asked:
    """The agent needs an answer before it continues; `key` is its own name for the question."""

    key: str
    kind: Kind
    purpose: Purpose
    display: Display | None = None
    """The agent's own text; None for a permission, whose text is generated from the call."""
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    call: PendingCall | None = None
    """For a permission: the tool call that it is about."""
    about: About = AgentQuestion()
    """What it is about, if it is not a permission."""
    takes_words: bool = True
    """Whether a rejection can include the reason; otherwise the agent is told it afterwards."""


@dataclass(frozen=True)
class ThreadAppended:
    """A built-in agent adds to its thread.

    Stored in one transaction with the tool calls that the entries concern: after a crash, what the
    model knows and what the audit says agree.
    """

    thread: str
    place: int
    """The number of the first of `entries` in the thread, from 1."""
    entries: tuple[Mapping[str, object], ...]
    calls: tuple[ToolCallStarted | ToolCallFinished, ...] = ()
    gates: bool = False
    """Whether it must be committed first, because the next action must not happen unrecorded."""


@dataclass(frozen=True)
class Spent:
    """The cost of one model call; a turn may make many calls, and may fail after them."""

    usage: Usage
    is_last: bool = False
    """Whether the turn makes no further call, so that its budgets need not be checked."""


@dataclass(frozen=True)
class Delegated:
    """The agent delegates a part of its work to another member and waits for the result."""

    key: str
    goal: str
    member: str | None = None
    """Who should do it; None: the user chooses."""


WaitsFor = Literal["you", "limit", "budget", "command", "model"]
"""What a waiting member is waiting for; for a rate limit, its end is known too."""


@dataclass(frozen=True)
class Waiting:
    """The agent reports what it is waiting for."""

    waits_for: WaitsFor
    detail: str = ""
    """Which command, or what the model says; for display only."""


@dataclass(frozen=True)
class TurnCompleted:
    """The reply is complete."""

    text: str
    usage: Usage | None = None


FailureKind = Literal[
    "exit",
    "timeout",
    "missing",
    "refused",
    "protocol",
    "signed_out",
    "rate_limit",
    "model",
    "stopped",
    "not_sent",
]
"""Why a turn failed; `stopped`: the user stopped the member; `not_sent`: its work is on another
machine and did not arrive here."""


@dataclass(frozen=True)
class TurnFailed:
    """The turn failed without a reply."""

    kind: FailureKind
    message: str
    exit_code: int | None = None
    stderr_tail: str = ""
    retry: bool = True
    """Whether a retry could help."""
    hint: str | None = None
    """What a person can do about it."""
    until: str | None = None
    """When the rate limit ends, as an instant."""


@dataclass(frozen=True)
class TurnInterrupted:
    """The turn was interrupted by the user."""

    text: str = ""


End = TurnCompleted | TurnFailed | TurnInterrupted
Update = (
    TextDelta
    | Activity
    | ToolCallStarted
    | ToolCallFinished
    | Asked
    | ThreadAppended
    | Spent
    | Delegated
    | Waiting
    | End
)
