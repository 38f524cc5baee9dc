"""The messages between the built-in agent and its model, and how a thread stores them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, cast

from pydantic import TypeAdapter

from coterie.agents.fields import bounded, mapping, text
from coterie.agents.process import Object
from coterie.model.tool_call import NOT_RUN
from coterie.model.update import Activity, TextDelta, TurnFailed, Usage
from coterie.tools.toolbox import ToolSpec


@dataclass(frozen=True)
class ToolCallRequest:
    """A tool call that a model wants, made natively or written into its text."""

    name: str
    arguments: Mapping[str, object]
    problem: str = ""
    """Why it cannot be understood; if set, it is not run, and this is its result."""
    id: str = ""
    """Our own, assigned when it is recorded: models' ids may be missing or not unique."""


@dataclass(frozen=True)
class InboundText:
    """A text from outside: a prompt as the model sees it or, in a thread, a note from Coterie."""

    text: str


@dataclass(frozen=True)
class ReplyEntry:
    """A reply of the model; without calls, it ends the turn."""

    text: str
    calls: tuple[ToolCallRequest, ...] = ()
    written: bool = False
    """Whether the calls are part of the text, so that they must not be sent a second time."""
    cut: bool = False
    """Whether the user interrupted the turn here."""


@dataclass(frozen=True)
class ShownResult:
    """The result of a call in the preceding reply."""

    call: ToolCallRequest
    text: str
    is_error: bool
    written: bool
    """Whether the call was written as text, so that its result is sent as text too."""


ShownItem = InboundText | ReplyEntry | ShownResult


@dataclass(frozen=True)
class ModelInput:
    """Everything in one request to a model."""

    system: str
    items: Sequence[ShownItem]
    tools: Sequence[ToolSpec] = ()
    """The tools that are offered natively."""


Stop = Literal["end", "length", "refused"]


@dataclass(frozen=True)
class Reply:
    """A complete reply."""

    text: str
    calls: tuple[ToolCallRequest, ...] = ()
    stop: Stop = "end"
    usage: Usage = Usage()


@dataclass(eq=False)
class ModelTrouble(Exception):
    """A model gave no reply."""

    failure: TurnFailed
    """How the turn ends if nothing helps."""
    passing: bool = False
    """Whether the same request may well succeed a little later."""
    wait: float | None = None
    """How many seconds the service asks to wait."""
    too_long: bool = False
    """Whether a shorter conversation would help."""


class ChatModel(Protocol):
    """A model, asked for one reply at a time."""

    def reply(self, model_input: ModelInput) -> AsyncGenerator[TextDelta | Activity | Reply]:
        """Yield the reply piece by piece, then the complete one.  Raises ModelTrouble."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


_HIDDEN = frozenset({"digest", NOT_RUN})
"""Fields of a result that are for our own use."""
_EXACT = 100_000_000
"""Arguments are kept whole: a call is made with exactly what the model gave."""


@dataclass(frozen=True)
class PromptEntry:
    """The beginning of a turn."""

    turn: str
    text: str


@dataclass(frozen=True)
class CallBegunEntry:
    """A call that may change something is about to be run."""

    call: str


UNKNOWN = "unknown"
"""The outcome of a call that may or may not have run."""


@dataclass(frozen=True)
class ResultEntry:
    """A call's result."""

    call: str
    output: Mapping[str, object] = field(default_factory=dict[str, object])
    is_error: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether Coterie was cut off while the call ran."""
        return self.output.get("outcome") == UNKNOWN

    @cached_property
    def text(self) -> str:
        """The output as a model reads it best: short facts by name, then long texts verbatim."""
        facts: list[str] = []
        texts: list[str] = []
        for name, value in self.output.items():
            if name in _HIDDEN:
                continue
            if isinstance(value, str) and "\n" in value:
                texts.append(value)
            else:
                facts.append(f"{name}: {value}")
        return "\n\n".join(part for part in ("\n".join(facts), *texts) if part)


@dataclass(frozen=True)
class TrimEntry:
    """From now on, long results up to this place are shown shortened."""

    upto: int


@dataclass(frozen=True)
class SummaryEntry:
    """From now on, everything up to this place is shown as this text."""

    upto: int
    text: str


@dataclass(frozen=True)
class UnreadableEntry:
    """An entry that this release does not understand."""


Entry = (
    PromptEntry
    | ReplyEntry
    | CallBegunEntry
    | ResultEntry
    | InboundText
    | TrimEntry
    | SummaryEntry
    | UnreadableEntry
)


_KINDS: Mapping[str, type[Entry]] = {
    "prompt": PromptEntry,
    "reply": ReplyEntry,
    "begun": CallBegunEntry,
    "result": ResultEntry,
    "note": InboundText,
    "trim": TrimEntry,
    "summary": SummaryEntry,
    "unreadable": UnreadableEntry,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_CODECS: Mapping[str, TypeAdapter[Entry]] = {
    name: TypeAdapter(kind) for name, kind in _KINDS.items()
}


def written(entry: Entry) -> Object:
    """Return the entry as JSON data."""
    kind = _NAMES[type(entry)]
    return {"kind": kind, **_CODECS[kind].dump_python(entry, exclude_defaults=True)}


def read(entry: str) -> Entry:
    """Parse the entry in a JSON text."""
    try:
        data = mapping(json.loads(entry))
        return _CODECS[text(data.pop("kind", ""))].validate_python(data)
    except (ValueError, RecursionError, KeyError):
        return UnreadableEntry()


def stored_arguments(arguments: object) -> Mapping[str, object]:
    """Return the arguments of a call in a form that any store accepts."""
    return cast("Object", bounded(mapping(arguments), _EXACT))
