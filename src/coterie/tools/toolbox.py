"""The tools that one member has: described to its model, checked before they run, run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import BaseModel, ValidationError

from coterie.model.action import Action
from coterie.tools.ground import Refusal
from coterie.tools.inputs import mistakes, schema
from coterie.tools.sandbox import Sandbox


@dataclass(frozen=True)
class Outcome:
    """What came of a tool call: a JSON object, which the audit keeps and the model gets."""

    output: Mapping[str, object]
    is_error: bool = False

    @classmethod
    def refused(cls, why: str) -> Outcome:
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

    async def run(self, given: Mapping[str, object]) -> Outcome:
        """Do it; `given` has been checked.  Refusal and OSError become an outcome too."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """A tool that can say beforehand what it would change."""

    async def preview(self, given: Mapping[str, object]) -> Outcome:
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
class Prepared:
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
        self._foreseeing = {
            name: tool for name, tool in self._tools.items() if isinstance(tool, Foreseeing)
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

    def check(self, name: str, arguments: object) -> Prepared | Outcome:
        """A call that can be run, or what is wrong with it so that the model can mend it."""
        tool = self.find(name)
        if tool is None:
            return Outcome.refused(self._unknown(name))
        try:
            checked = tool.inputs.model_validate(arguments)
        except ValidationError as error:
            return Outcome.refused(mistakes(name, tool.inputs, error))
        given = cast("dict[str, object]", checked.model_dump(mode="json", by_alias=True))
        action = tool.action(given, str(self.root))
        unheld = action.effect == "run" and not self.sandbox.holds
        return Prepared(tool, given, action, must_ask=unheld)

    def foresees(self, prepared: Prepared) -> bool:
        """Whether it can be said what a call would change."""
        return prepared.tool.name in self._foreseeing

    async def preview(self, prepared: Prepared) -> Outcome:
        """What a call would change, to be shown before it is allowed, where that can be said.

        An error means that running it would fail in the same way: nobody need be asked.
        """
        return await _explained(self._foreseeing[prepared.tool.name].preview, prepared)

    async def run(self, prepared: Prepared) -> Outcome:
        """Run it; whatever it meets is an outcome."""
        return await _explained(prepared.tool.run, prepared)

    def _unknown(self, name: str) -> str:
        known = {_plain(one): one for one in self._tools}
        near = difflib.get_close_matches(_plain(name), known, 1, 0.5)
        hint = f" Did you mean {known[near[0]]}?" if near else ""
        return f"There is no tool {name[:80]!r}.{hint} There are: {', '.join(self._tools)}."


async def _explained(
    call: Callable[[Mapping[str, object]], Awaitable[Outcome]], prepared: Prepared
) -> Outcome:
    try:
        return await call(prepared.given)
    except Refusal as refusal:
        return Outcome.refused(str(refusal))
    except OSError as error:
        where = ", ".join(prepared.action.paths) or prepared.tool.name
        return Outcome.refused(f"{where}: {error.strerror or error}")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
