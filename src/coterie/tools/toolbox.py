"""The tools of one member: their input schemas, their descriptions for a model, and their calls."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar, cast, runtime_checkable

import anyio.to_thread
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from coterie.model.tool_call import Action
from coterie.tools.sandbox import Sandbox
from coterie.tools.workspace_root import ToolError


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a character (a lone surrogate) is in it") from None
    return text


Utf8Text = Annotated[str, AfterValidator(_encodable)]
"""A text that can be encoded as UTF-8."""


class ToolInput(BaseModel):
    """The arguments of one tool, by their camelCase names."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, alias_generator=to_camel, extra="forbid"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        """Some models write `null` for what they leave out."""
        if not isinstance(given, Mapping):
            return given
        entries = cast("Mapping[str, object]", given)
        return {name: value for name, value in entries.items() if value is not None}


@cache
def schema(inputs: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON Schema of a tool's arguments, without titles."""
    made = inputs.model_json_schema(by_alias=True)
    made.pop("title", None)
    made.pop("description", None)
    fields = {name: _without_title(field) for name, field in made.get("properties", {}).items()}
    return {**made, "properties": fields}


def _without_title(field: dict[str, Any]) -> dict[str, Any]:
    """A field without its title, and without `null`: optional fields are not required anyway."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    single: dict[str, Any] = kinds[0] if len(kinds) == 1 else {}
    dropped = {"title"} | ({"anyOf", "default"} if single else set[str]())
    return {**{name: fact for name, fact in field.items() if name not in dropped}, **single}


def mistakes(tool: str, inputs: type[BaseModel], error: ValidationError) -> str:
    """Each wrong field and what was expected, in a few lines."""
    lines = [f"- {_mistake(details)}" for details in error.errors(include_url=False)]
    return "\n".join([f"Wrong arguments for {tool}:", *lines, f"It takes {fields(inputs)}."])


def fields(inputs: type[BaseModel]) -> str:
    """The names and types of a tool's arguments, in one line."""
    made = schema(inputs)
    needed = made.get("required", [])
    words = [
        f"{name} ({field.get('type', 'any')}{'' if name in needed else ', optional'})"
        for name, field in made["properties"].items()
    ]
    return ", ".join(words) or "no arguments"


def _mistake(details: ErrorDetails) -> str:
    name = ".".join(str(part) for part in details["loc"]) or "the arguments"
    if details["type"] == "missing":
        return f"{name} is missing"
    if details["type"] == "extra_forbidden":
        return f"{name} is not known"
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
        """Nothing was done, for this reason."""
        return cls({"error": why}, is_error=True)


@runtime_checkable
class SupportsPreview(Protocol):
    """A tool that can show beforehand what it would change."""

    async def preview(self, given: Mapping[str, object]) -> ToolOutcome:
        """The change as a `diff`; or the error that running it would give."""
        ...


class Tool(Generic[_Input]):
    """One thing that an agent can do.

    Models know it by the docstring of its inputs.  By default it reads files of the workspace, in
    a thread; what does something else overrides `read_only`, `action` and `run`.
    """

    name: str
    inputs: type[_Input]
    read_only: bool = True
    """Whether it changes nothing, so that it may be run again when nobody knows if it ran."""

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""
        return " ".join((self.inputs.__doc__ or "").split())

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """What it would do, in the terms of the permission rules."""
        return Action("read", self.name, cwd, paths=(str(given.get("path", ".")),), confined=True)

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """Do it; `given` is validated.  ToolError and OSError become an outcome too."""
        return await anyio.to_thread.run_sync(self._run, self.inputs.model_validate(given))

    def _run(self, asked: _Input) -> ToolOutcome:
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
    given: Mapping[str, object]
    action: Action
    must_ask: bool = False
    """No sandbox would confine it, so a person is asked even where a rule allows it."""


class Toolbox:
    """The tools of one member, who works in `root`."""

    def __init__(self, root: Path, sandbox: Sandbox, tools: Iterable[AnyTool]) -> None:
        self.root = root
        self.sandbox = sandbox
        """What confines a command that is run."""
        self._tools = {tool.name: tool for tool in tools}
        self._previewing = {
            name: tool for name, tool in self._tools.items() if isinstance(tool, SupportsPreview)
        }

    def specs(self) -> list[ToolSpec]:
        """Every tool, for the model."""
        return [
            ToolSpec(tool.name, tool.description, schema(tool.inputs))
            for tool in self._tools.values()
        ]

    def find(self, name: str) -> AnyTool | None:
        """The tool with exactly this name."""
        return self._tools.get(name)

    def check(self, name: str, arguments: object) -> PreparedCall | ToolOutcome:
        """A call that can be run, or what is wrong with it, so that the model can correct it."""
        tool = self.find(name)
        if tool is None:
            return ToolOutcome.refused(self._unknown(name))
        try:
            checked = tool.inputs.model_validate(arguments)
        except ValidationError as error:
            return ToolOutcome.refused(mistakes(name, tool.inputs, error))
        given = cast("dict[str, object]", checked.model_dump(mode="json", by_alias=True))
        action = tool.action(given, str(self.root))
        unconfined = action.effect == "run" and not self.sandbox.confines
        return PreparedCall(tool, given, action, must_ask=unconfined)

    def can_preview(self, prepared: PreparedCall) -> bool:
        """Whether `preview` works for a call."""
        return prepared.tool.name in self._previewing

    async def preview(self, prepared: PreparedCall) -> ToolOutcome:
        """What a call would change, to be shown before it is allowed.

        An error means that running it would fail in the same way: nobody need be asked.
        """
        return await _explained(self._previewing[prepared.tool.name].preview, prepared)

    async def run(self, prepared: PreparedCall) -> ToolOutcome:
        """Run it; an error is an outcome too."""
        return await _explained(prepared.tool.run, prepared)

    def _unknown(self, name: str) -> str:
        known = {_plain(one): one for one in self._tools}
        near = difflib.get_close_matches(_plain(name), known, 1, 0.5)
        hint = f" Did you mean {known[near[0]]}?" if near else ""
        return f"There is no tool {name[:80]!r}.{hint} There are: {', '.join(self._tools)}."


async def _explained(
    call: Callable[[Mapping[str, object]], Awaitable[ToolOutcome]], prepared: PreparedCall
) -> ToolOutcome:
    try:
        return await call(prepared.given)
    except ToolError as refusal:
        return ToolOutcome.refused(str(refusal))
    except OSError as error:
        where = ", ".join(prepared.action.paths) or prepared.tool.name
        return ToolOutcome.refused(f"{where}: {error.strerror or error}")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
