"""What an agent emits during a turn.  A turn ends with exactly one of the three `Turn…`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from coterie.model.interaction import Display, Kind, Option, Purpose, Validation

_Figure = TypeVar("_Figure", int, float)


@dataclass(frozen=True)
class Usage:
    """What a turn cost, as far as the agent told."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    source: str = ""


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


@dataclass(frozen=True)
class ToolCallFinished:
    """A tool call ended."""

    call_id: str
    is_error: bool
    output: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class PendingCall:
    """A tool call that waits for a yes."""

    call_id: str
    name: str
    input: Mapping[str, object]
    cwd: str


@dataclass(frozen=True)
class Asked:
    """The agent needs an answer before it goes on; `key` is its own name for the question."""

    key: str
    kind: Kind
    purpose: Purpose
    display: Display
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    call: PendingCall | None = None
    """For a permission: the tool call that it is about."""


@dataclass(frozen=True)
class Waiting:
    """The agent says what it waits for: approval, a rate limit, a command, the model."""

    reason: str


@dataclass(frozen=True)
class TurnCompleted:
    """The reply is whole."""

    text: str
    usage: Usage | None = None


FailureKind = Literal[
    "exit", "timeout", "missing", "refused", "protocol", "signed_out", "rate_limit", "model"
]


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


@dataclass(frozen=True)
class TurnInterrupted:
    """The turn was broken off on the user's word."""

    text: str = ""


End = TurnCompleted | TurnFailed | TurnInterrupted
Update = TextDelta | Activity | ToolCallStarted | ToolCallFinished | Asked | Waiting | End
