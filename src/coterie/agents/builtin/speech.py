"""What goes to a model and what comes back, in terms that are no vendor's and no library's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

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


# -- what a model is shown ---------------------------------------------------------------------


@dataclass(frozen=True)
class Heard:
    """A text from outside: a prompt, or a word of Coterie's."""

    text: str


@dataclass(frozen=True)
class Spoke:
    """An earlier reply of the model itself."""

    text: str
    calls: tuple[ToolCallRequest, ...] = ()
    written: bool = False
    """Whether the calls stand in the text, so that they must not be told a second time."""


@dataclass(frozen=True)
class Got:
    """The result of a call of the reply before."""

    call: ToolCallRequest
    text: str
    is_error: bool = False
    written: bool = False
    """Whether the call was written, so that its result is given as text too."""


Shown = Heard | Spoke | Got


@dataclass(frozen=True)
class Conversation:
    """All that one request to a model holds."""

    system: str
    said: Sequence[Shown]
    tools: Sequence[ToolSpec] = ()
    """Those that are offered natively."""


# -- what it answers ---------------------------------------------------------------------------

Stop = Literal["end", "length", "refused"]


@dataclass(frozen=True)
class Reply:
    """A whole reply."""

    text: str
    calls: tuple[ToolCallRequest, ...] = ()
    stop: Stop = "end"
    usage: Usage = Usage()


class Trouble(Exception):
    """A model gave no reply."""

    def __init__(
        self,
        failure: TurnFailed,
        *,
        passing: bool = False,
        wait: float | None = None,
        too_long: bool = False,
    ) -> None:
        super().__init__(failure.message)
        self.failure: TurnFailed = failure
        """What the turn ends with, where nothing helps."""
        self.passing: bool = passing
        """Whether the same request may well succeed a little later."""
        self.wait: float | None = wait
        """How many seconds the service asks to wait."""
        self.too_long: bool = too_long
        """Whether a shorter conversation would help."""


class Model(Protocol):
    """A model, asked for one reply at a time."""

    def reply(self, conversation: Conversation) -> AsyncGenerator[TextDelta | Activity | Reply]:
        """The reply as it comes, and whole at the end.  Raises Trouble."""
        ...

    async def close(self) -> None:
        """Let go of its connections."""
        ...
