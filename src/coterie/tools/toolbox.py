"""The tools of one member: their inputs, their calls, and their bounded output for a model."""

from __future__ import annotations

import codecs
import difflib
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast

import anyio.to_thread
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from coterie.model.tool_call import Action, not_run
from coterie.model.visible import decoded, encodable
from coterie.tools.sandbox import Sandbox
from coterie.tools.workspace_files import ToolError


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it contains a lone surrogate (half a character)") from None
    return text


Utf8Text = Annotated[str, AfterValidator(_encodable)]
"""A text that can be encoded as UTF-8."""
PathText = Annotated[str, AfterValidator(_encodable), AfterValidator(decoded)]
"""A file path as outcomes show it: `<0xE9>` stands for a byte that is not text."""


class ToolInput(BaseModel):
    """The arguments of one tool, by their camelCase names."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, alias_generator=to_camel, extra="forbid"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        """Drop nulls: some models write `null` for what they leave out."""
        if not isinstance(data, Mapping):
            return data
        entries = cast("Mapping[str, object]", data)
        return {name: value for name, value in entries.items() if value is not None}


@cache
def schema(inputs: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON Schema of a tool's arguments, without titles."""
    raw = inputs.model_json_schema(by_alias=True)
    raw.pop("title", None)
    raw.pop("description", None)
    fields = {name: _without_title(field) for name, field in raw.get("properties", {}).items()}
    return {**raw, "properties": fields}


def _without_title(field: dict[str, Any]) -> dict[str, Any]:
    """A field without its title, and without `null`: optional fields are not required anyway."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    single: dict[str, Any] = kinds[0] if len(kinds) == 1 else {}
    dropped = {"title"} | ({"anyOf", "default"} if single else set[str]())
    return {**{name: fact for name, fact in field.items() if name not in dropped}, **single}


def mistakes(tool: str, inputs: type[BaseModel], error: ValidationError) -> str:
    """Describe each wrong field and what was expected, in a few lines."""
    lines = [f"- {_mistake(details)}" for details in error.errors(include_url=False)]
    return "\n".join([f"Wrong arguments for {tool}:", *lines, f"It takes {fields(inputs)}."])


def fields(inputs: type[BaseModel]) -> str:
    """The names and types of a tool's arguments, in one line."""
    json_schema = schema(inputs)
    needed = json_schema.get("required", [])
    words = [
        f"{name} ({field.get('type', 'any')}{'' if name in needed else ', optional'})"
        for name, field in json_schema["properties"].items()
    ]
    return ", ".join(words) or "no arguments"


def _mistake(details: ErrorDetails) -> str:
    name = ".".join(str(part) for part in details["loc"]) or "the arguments"
    if details["type"] == "missing":
        return f"{name} is missing"
    if details["type"] == "extra_forbidden":
        return f"{name} is not an argument of this tool"
    message = details["msg"].replace("Input should be", "should be")
    return f"{name}: {message.removeprefix('Value error, ')}"


_Input = TypeVar("_Input", bound=ToolInput)


@dataclass(frozen=True)
class ToolOutcome:
    """The result of a tool call: a JSON object, for the audit and for the model."""

    output: Mapping[str, object]
    is_error: bool = False

    @classmethod
    def refused(cls, why: str) -> ToolOutcome:
        """An outcome for a call that failed, and why."""
        return cls({"error": why}, is_error=True)

    @classmethod
    def not_run(cls, why: str) -> ToolOutcome:
        """An outcome for a call that was not run at all, and why."""
        return cls(not_run(why), is_error=True)


class Tool(Generic[_Input]):
    """One thing that an agent can do.

    Its description for models is the docstring of its inputs.  By default it reads files of the
    workspace, in a thread; a tool that does something else overrides `read_only`, `action` and
    `run`.
    """

    name: str
    inputs: type[_Input]
    read_only: bool = True
    """Whether it changes nothing, so that it may be run again if it is unknown whether it ran."""
    names_only: bool = False
    """Whether it shows no more of files than their names."""
    previews: bool = False
    """Whether it can show beforehand what it would change."""

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""
        return " ".join((self.inputs.__doc__ or "").split())

    def action(self, arguments: _Input, cwd: str) -> Action:
        """Return what it would do, in terms of the permission rules."""
        path: str = getattr(arguments, "path", ".")
        return Action(
            "read", self.name, cwd, paths=(path,), confined=True, names_only=self.names_only
        )

    async def run(self, arguments: _Input) -> ToolOutcome:
        """Run the tool.  The toolbox turns ToolError and OSError into an outcome too."""
        return await anyio.to_thread.run_sync(self._run, arguments)

    def read_only_variant(self) -> Tool[_Input]:
        """Return the same tool, unable to change anything whatever it is asked to do."""
        return self

    async def preview(self, arguments: _Input) -> ToolOutcome:
        """Return the change as a `diff`, or the error that running it would give."""
        return await anyio.to_thread.run_sync(self._preview, arguments)

    def _run(self, arguments: _Input) -> ToolOutcome:
        raise NotImplementedError

    def _preview(self, arguments: _Input) -> ToolOutcome:
        raise NotImplementedError


AnyTool = Tool[Any]


@dataclass(frozen=True)
class ToolSpec:
    """A tool as it is described to a model; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class PreparedCall:
    """A tool call that can be run."""

    tool: AnyTool
    arguments: ToolInput
    action: Action
    must_ask: bool
    """No sandbox would confine it, so a person is asked even if a rule allows it."""

    @property
    def given(self) -> Mapping[str, object]:
        """Its arguments as a JSON object, for people and the audit."""
        return cast("Mapping[str, object]", encodable(self.arguments.model_dump(by_alias=True)))


class Toolbox:
    """The tools of one member, who works in `root`."""

    def __init__(self, root: Path, sandbox: Sandbox, tools: Iterable[AnyTool]) -> None:
        self.root = root
        self.sandbox = sandbox
        """What confines the commands it runs."""
        self._tools = {tool.name: tool for tool in tools}

    def specs(self) -> list[ToolSpec]:
        tools = self._tools.values()
        return [ToolSpec(tool.name, tool.description, schema(tool.inputs)) for tool in tools]

    def check(self, name: str, arguments: object) -> PreparedCall | ToolOutcome:
        """Prepare a call, or return what is wrong with it so that the model can correct it."""
        tool = self._tools.get(name)
        if tool is None:
            return ToolOutcome.not_run(self._unknown(name))
        try:
            checked = tool.inputs.model_validate(arguments)
        except ValidationError as error:
            return ToolOutcome.not_run(mistakes(name, tool.inputs, error))
        action = tool.action(checked, str(self.root))
        unconfined = action.effect == "run" and not self.sandbox.confines
        return PreparedCall(tool, checked, action, must_ask=unconfined)

    async def preview(self, prepared: PreparedCall) -> ToolOutcome:
        """Return what a call would change, to be shown before it is allowed.

        An error means that running it would fail in the same way, so nobody needs to be asked.
        """
        return await _as_outcome(prepared.tool.preview, prepared)

    async def run(self, prepared: PreparedCall) -> ToolOutcome:
        """Run a call; an error becomes an outcome too."""
        return await _as_outcome(prepared.tool.run, prepared)

    def _unknown(self, name: str) -> str:
        known = {_plain(one): one for one in self._tools}
        near = difflib.get_close_matches(_plain(name), known, 1, 0.5)
        hint = f" Did you mean {known[near[0]]}?" if near else ""
        return f"There is no tool {name[:80]!r}.{hint} The tools are: {', '.join(self._tools)}."


async def _as_outcome(
    call: Callable[[ToolInput], Awaitable[ToolOutcome]], prepared: PreparedCall
) -> ToolOutcome:
    try:
        outcome = await call(prepared.arguments)
    except ToolError as refusal:
        outcome = ToolOutcome.refused(str(refusal))
    except OSError as error:
        where = ", ".join(prepared.action.paths) or prepared.tool.name
        outcome = ToolOutcome.refused(f"{where}: {error.strerror or error}")
    # A file name may contain bytes that are not text.
    return replace(outcome, output=cast("Mapping[str, object]", encodable(outcome.output)))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


MAX_OUTPUT_CHARS = 30_000
"""How many characters one tool call may return."""
HEAD, TAIL = 20_000, 10_000
_HALF = re.compile("[\ud800-\udfff]")


class Excerpt:
    """The head and the tail of a stream of any length; what lies between is only counted."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_length = 0
        self._total = 0

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        # Copied: a slice that shared the chunk's memory would keep all of it alive.
        if chunk := bytes(chunk[-self._tail_size :]):
            self._tail.append(chunk)
            self._tail_length += len(chunk)
        while self._tail and self._tail_length - len(self._tail[0]) >= self._tail_size:
            self._tail_length -= len(self._tail.popleft())

    @property
    def left_out(self) -> int:
        """How many bytes are not in the text."""
        return max(0, self._total - self._head_size - self._tail_size)

    @property
    def text(self) -> str:
        """What is kept, with a note where something is missing."""
        tail = b"".join(self._tail)
        if not self.left_out:
            return readable(bytes(self._head) + tail)
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        end = _from_a_character(tail[-self._tail_size :])
        return f"{visible(head)}\n… {self.left_out:,} bytes left out …\n{readable(end)}"


def truncated(text: str) -> str:
    """Cut off a text that is too long, noting how much is missing."""
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    left_out = len(text) - MAX_OUTPUT_CHARS
    return f"{text[:MAX_OUTPUT_CHARS]}\n… {left_out:,} characters left out …"


def readable(data: bytes) -> str:
    """Decode bytes; those that are not UTF-8 become U+FFFD."""
    return visible(data.decode("utf-8", "replace"))


def visible(text: str) -> str:
    """Make NULs visible and replace what cannot be encoded as UTF-8."""
    return _HALF.sub("\ufffd", text.replace("\0", "␀"))


def _from_a_character(data: bytes) -> bytes:
    """Drop the rest of a character whose first bytes were left out."""
    start = next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0)
    return data[start:]
