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
    """What a turn cost, as far as the agent told."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    source: str = ""


UNTOLD = Usage()
"""What is known of a cost that nobody tells."""
REHEARSED = Usage(source="rehearsal")
"""What a turn of a rehearsal costs: nothing, whatever its agent believes."""


def sum_of(costs: Iterable[Usage]) -> Usage | None:
    """Several costs as one; a figure that none of them tells stays unknown."""
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
    told = [figure for figure in figures if figure is not None]
    return sum(told[1:], told[0]) if told else None


@dataclass(frozen=True)
class TextDelta:
    """A piece of the reply: shown, not stored."""

    text: str


@dataclass(frozen=True)
class Activity:
    """A sign of life that is nothing to show; it sets the silence clock back."""


@dataclass(frozen=True)
class ToolCallStarted:
    """The agent began to use a tool."""

    call_id: str
    name: str
    input: Mapping[str, object] = field(default_factory=dict[str, object])
    effect: Effect = "other"
    """What the tool can do; nobody's files are looked after for one that only reads."""


@dataclass(frozen=True)
class ToolCallFinished:
    """A tool call ended."""

    call_id: str
    is_error: bool
    output: Mapping[str, object] = field(default_factory=dict[str, object])
    name: str = ""
    """The tool, for a call that an earlier try began; the others are known by their id."""


@dataclass(frozen=True)
class PendingCall:
    """A tool call that waits for a yes."""

    call_id: str
    name: str
    input: Mapping[str, object]
    cwd: str
    action: Action | None = None
    """What it would do, for the rules; None: nobody can say, so a person must."""
    why: str = ""
    """What the agent says that it is for."""
    said: str = ""
    """The last thing the agent said."""
    note: str = ""
    """What a person should know besides."""
    ticket: str | None = None
    """The ticket that it is for; None: nobody's, or the agent cannot tell."""
    is_untouched: bool = False
    """Whether it is known, also after a crash, that the call has not begun: then a yes that was
    given to it before still holds."""
    must_ask: bool = False
    """Whether nothing would hold it in, so that no rule is enough: a person must say yes."""
    diff: str = ""
    """What it would change, where that can be said."""


@dataclass(frozen=True)
class Asked:
    """The agent needs an answer before it goes on; `key` is its own name for the question."""

    key: str
    kind: Kind
    purpose: Purpose
    display: Display | None = None
    """The agent's own words; None for a permission: they are made from its call."""
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    call: PendingCall | None = None
    """For a permission: the tool call that it is about."""
    about: About = AgentQuestion()
    """What it is about, where it is no permission."""
    takes_words: bool = True
    """Whether the agent can be told, with a no, why; else that is said to it afterwards."""


@dataclass(frozen=True)
class Remembered:
    """An agent of our own adds to its thread.

    Kept in one transaction with the tool calls that it is about: after a crash, what the model
    knows and what the audit says agree.
    """

    thread: str
    place: int
    """The number of the first of `entries` in the thread, from 1."""
    entries: tuple[Mapping[str, object], ...]
    calls: tuple[ToolCallStarted | ToolCallFinished, ...] = ()
    gates: bool = False
    """Whether something is about to be done that must not be done unrecorded."""


@dataclass(frozen=True)
class Spent:
    """What one call of a model cost; a turn may have many, and may fail after them."""

    usage: Usage
    is_last: bool = False
    """Whether the turn makes no further call, so that a budget need not be asked about for it."""


@dataclass(frozen=True)
class Delegated:
    """The agent hands a part of its work to another member and waits for the result."""

    key: str
    goal: str
    member: str | None = None
    """Who should do it; None: the user chooses."""


WaitsFor = Literal["you", "limit", "budget", "command", "model"]
"""What a member that waits is waiting for; of a limit it is known until when."""


@dataclass(frozen=True)
class Waiting:
    """The agent says what it waits for."""

    waits_for: WaitsFor
    detail: str = ""
    """Which command, or what the model says, for people: nothing is decided by it."""


@dataclass(frozen=True)
class TurnCompleted:
    """The reply is whole."""

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
"""Why a turn failed; `stopped`: the user stopped the member; `not_sent`: what it did is on another
machine, and did not get here."""


@dataclass(frozen=True)
class TurnFailed:
    """The turn has no reply, and why."""

    kind: FailureKind
    message: str
    exit_code: int | None = None
    stderr_tail: str = ""
    retry: bool = True
    """Whether another try could help."""
    hint: str | None = None
    """What a person can do about it."""
    until: str | None = None
    """For a rate limit: when it ends, as an instant."""


@dataclass(frozen=True)
class TurnInterrupted:
    """The turn was broken off on the user's word."""

    text: str = ""


End = TurnCompleted | TurnFailed | TurnInterrupted
Update = (
    TextDelta
    | Activity
    | ToolCallStarted
    | ToolCallFinished
    | Asked
    | Remembered
    | Spent
    | Delegated
    | Waiting
    | End
)
