"""The tools of one member: their input schemas, their descriptions for a model, and their calls."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from coterie.model.action import Action
from coterie.tools.sandbox import Sandbox
from coterie.tools.workspace_root import ToolError


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a character (a lone surrogate) is in it") from None
    return text


Utf8Text = Annotated[str, AfterValidator(_whole)]
"""A text that can be written."""


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
    """The JSON Schema of a tool's arguments, without what only people would read."""
    made = inputs.model_json_schema(by_alias=True)
    made.pop("title", None)
    made.pop("description", None)
    fields = {name: _without_title(field) for name, field in made.get("properties", {}).items()}
    return {**made, "properties": fields}


def _without_title(field: dict[str, Any]) -> dict[str, Any]:
    """A field without its title; that it may also be null is said by its not being required."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    single: dict[str, Any] = kinds[0] if len(kinds) == 1 else {}
    dropped = {"title"} | ({"anyOf", "default"} if single else set[str]())
    return {**{name: fact for name, fact in field.items() if name not in dropped}, **single}


def mistakes(tool: str, inputs: type[BaseModel], error: ValidationError) -> str:
    """Each wrong field and what was expected, in a few lines."""
    lines = [f"- {_mistake(details)}" for details in error.errors(include_url=False)]
    return "\n".join([f"Wrong arguments for {tool}:", *lines, f"It takes {fields(inputs)}."])


def fields(inputs: type[BaseModel]) -> str:
    """The names of a tool's arguments, as one would write them down."""
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


@dataclass(frozen=True)
class ToolOutcome:
    """What came of a tool call: a JSON object, which the audit keeps and the model gets."""

    output: Mapping[str, object]
    is_error: bool = False

    @classmethod
    def refused(cls, why: str) -> ToolOutcome:
        """Nothing was done, and why."""
        return cls({"error": why}, is_error=True)


class Tool(Protocol):
    """One thing that an agent can do."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""
        ...

    @property
    def inputs(self) -> type[BaseModel]:
        """What it takes."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing, so that it may be run again when nobody knows if it ran."""
        ...

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """What it would do, in the terms of the permission rules."""
        ...

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """Do it; `given` has been checked.  Refusal and OSError become an outcome too."""
        ...


@runtime_checkable
class SupportsPreview(Protocol):
    """A tool that can say beforehand what it would change."""

    async def preview(self, given: Mapping[str, object]) -> ToolOutcome:
        """The change as a `diff`; or the error that running it would give."""
        ...


class Runner(Protocol):
    """What runs the commands of a member."""

    @property
    def sandbox(self) -> Sandbox:
        """What holds them."""
        ...


@dataclass(frozen=True)
class ToolSpec:
    """A tool as it is described to a model; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class PreparedCall:
    """A tool call that can be run."""

    tool: Tool
    given: Mapping[str, object]
    action: Action
    must_ask: bool = False
    """Nothing would hold it, so a person is asked even where a rule allows it."""


class Toolbox:
    """The tools of one member, who works in `root`."""

    def __init__(self, root: Path, runner: Runner, tools: Iterable[Tool]) -> None:
        self.root = root
        self._runner = runner
        self._tools = {tool.name: tool for tool in tools}
        self._previewing = {
            name: tool for name, tool in self._tools.items() if isinstance(tool, SupportsPreview)
        }

    @property
    def sandbox(self) -> Sandbox:
        """What holds a command that is run."""
        return self._runner.sandbox

    def specs(self) -> list[ToolSpec]:
        """Every tool, for the model."""
        return [
            ToolSpec(tool.name, tool.description, schema(tool.inputs))
            for tool in self._tools.values()
        ]

    def find(self, name: str) -> Tool | None:
        """The tool with exactly this name."""
        return self._tools.get(name)

    def check(self, name: str, arguments: object) -> PreparedCall | ToolOutcome:
        """A call that can be run, or what is wrong with it so that the model can mend it."""
        tool = self.find(name)
        if tool is None:
            return ToolOutcome.refused(self._unknown(name))
        try:
            checked = tool.inputs.model_validate(arguments)
        except ValidationError as error:
            return ToolOutcome.refused(mistakes(name, tool.inputs, error))
        given = cast("dict[str, object]", checked.model_dump(mode="json", by_alias=True))
        action = tool.action(given, str(self.root))
        unheld = action.effect == "run" and not self.sandbox.holds
        return PreparedCall(tool, given, action, must_ask=unheld)

    def can_preview(self, prepared: PreparedCall) -> bool:
        """Whether it can be said what a call would change."""
        return prepared.tool.name in self._previewing

    async def preview(self, prepared: PreparedCall) -> ToolOutcome:
        """What a call would change, to be shown before it is allowed, where that can be said.

        An error means that running it would fail in the same way: nobody need be asked.
        """
        return await _explained(self._previewing[prepared.tool.name].preview, prepared)

    async def run(self, prepared: PreparedCall) -> ToolOutcome:
        """Run it; whatever it meets is an outcome."""
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
