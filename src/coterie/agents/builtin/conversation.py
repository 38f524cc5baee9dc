"""What is said between the built-in agent and its model, and how a thread keeps it."""

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
    """A tool call that a model wants, whether it made it natively or wrote it into its text."""

    name: str
    arguments: Mapping[str, object]
    problem: str = ""
    """Why it cannot be understood: then it is not run, and this is its result."""
    id: str = ""
    """Ours, given when it is recorded: what models give is not always there, nor unique."""


@dataclass(frozen=True)
class Heard:
    """A text from outside: a prompt, or a word of Coterie's."""

    text: str


@dataclass(frozen=True)
class Replied:
    """The model said something; without calls, it is the end of the turn."""

    text: str
    calls: tuple[ToolCallRequest, ...] = ()
    written: bool = False
    """Whether the calls stand in the text, so that they must not be told a second time."""
    cut: bool = False
    """Whether the user broke the turn off here."""


@dataclass(frozen=True)
class Got:
    """The result of a call of the reply before."""

    call: ToolCallRequest
    text: str
    is_error: bool = False
    written: bool = False
    """Whether the call was written, so that its result is given as text too."""


Shown = Heard | Replied | Got


@dataclass(frozen=True)
class Conversation:
    """All that one request to a model holds."""

    system: str
    said: Sequence[Shown]
    tools: Sequence[ToolSpec] = ()
    """Those that are offered natively."""


Stop = Literal["end", "length", "refused"]


@dataclass(frozen=True)
class Reply:
    """A whole reply."""

    text: str
    calls: tuple[ToolCallRequest, ...] = ()
    stop: Stop = "end"
    usage: Usage = Usage()


@dataclass(eq=False)
class ModelTrouble(Exception):
    """A model gave no reply."""

    failure: TurnFailed
    """What the turn ends with, where nothing helps."""
    passing: bool = False
    """Whether the same request may well succeed a little later."""
    wait: float | None = None
    """How many seconds the service asks to wait."""
    too_long: bool = False
    """Whether a shorter conversation would help."""


class ChatModel(Protocol):
    """A model, asked for one reply at a time."""

    def reply(self, conversation: Conversation) -> AsyncGenerator[TextDelta | Activity | Reply]:
        """The reply as it comes, and whole at the end.  Raises ModelTrouble."""
        ...

    async def close(self) -> None:
        """Let go of its connections."""
        ...


_HIDDEN = frozenset({"digest", NOT_RUN})
"""What a result holds for our own use."""
_EXACT = 100_000_000
"""Arguments are kept whole: a call is made with exactly what the model gave."""


@dataclass(frozen=True)
class Prompted:
    """A turn begins."""

    turn: str
    text: str


@dataclass(frozen=True)
class Begun:
    """A call that may change something is about to be run."""

    call: str


UNKNOWN = "unknown"
"""The outcome of a call of which nobody knows whether it ran."""


@dataclass(frozen=True)
class Returned:
    """A call's result."""

    call: str
    output: Mapping[str, object] = field(default_factory=dict[str, object])
    is_error: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether Coterie was cut off while the call was made."""
        return self.output.get("outcome") == UNKNOWN

    @cached_property
    def text(self) -> str:
        """As a model reads it best: small facts by name, then the long text as it is."""
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
class Noted:
    """A word of Coterie's to the model."""

    text: str


@dataclass(frozen=True)
class Trimmed:
    """Long results up to this place are shown in short from now on."""

    upto: int


@dataclass(frozen=True)
class Summed:
    """What stands up to this place is shown as this text from now on."""

    upto: int
    text: str


@dataclass(frozen=True)
class UnreadableEntry:
    """An entry that this release does not understand."""


Entry = Prompted | Replied | Begun | Returned | Noted | Trimmed | Summed | UnreadableEntry


_KINDS: Mapping[str, type[Entry]] = {
    "prompt": Prompted,
    "reply": Replied,
    "begun": Begun,
    "result": Returned,
    "note": Noted,
    "trim": Trimmed,
    "summary": Summed,
    "unreadable": UnreadableEntry,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_CODECS: Mapping[str, TypeAdapter[Entry]] = {
    name: TypeAdapter(kind) for name, kind in _KINDS.items()
}


def written(entry: Entry) -> Object:
    """The entry as JSON data."""
    kind = _NAMES[type(entry)]
    return {"kind": kind, **_CODECS[kind].dump_python(entry, exclude_defaults=True)}


def read(entry: str) -> Entry:
    """The entry in a JSON text."""
    try:
        found = mapping(json.loads(entry))
        return _CODECS[text(found.pop("kind", ""))].validate_python(found)
    except (ValueError, RecursionError, KeyError):
        return UnreadableEntry()


def exactly(arguments: object) -> Mapping[str, object]:
    """The arguments of a call, in a form that any store can take."""
    return cast("Object", bounded(mapping(arguments), _EXACT))
