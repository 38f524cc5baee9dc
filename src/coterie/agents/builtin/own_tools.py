"""The two tools that reach people and other members, not files: the turn itself serves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from coterie.model.action import Action
from coterie.tools.toolbox import ToolInput, ToolOutcome, Utf8Text


class AskUserInput(ToolInput):
    """What to ask."""

    question: Utf8Text = Field(
        min_length=1, description="The question, with all one needs to answer."
    )
    options: list[Utf8Text] = Field(
        default=[], max_length=9, description="The answers to choose from, where there are few."
    )


class AssignSubtaskInput(ToolInput):
    """What to hand out."""

    goal: Utf8Text = Field(
        min_length=1, description="What is to be done, with all that the other must know."
    )
    member: Utf8Text = Field("", description="The id of who should do it, where you know.")


@dataclass(frozen=True)
class AskUser:
    """Asks the person; the answer is the result."""

    name = "askUser"
    description = (
        "Ask the person something that you must know and cannot find out. Waits for the answer."
    )
    inputs = AskUserInput
    read_only = True

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Touches nothing."""
        return Action("read", self.name, cwd)

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """Nothing here can ask: the turn does."""
        return ToolOutcome.refused("Nobody can be asked from here.")


@dataclass(frozen=True)
class AssignSubtask:
    """Hands a part of the work to another member; what it says at the end is the result."""

    name = "assignSubtask"
    description = (
        "Hand a part of the work to another member of the team and wait for what it reports. "
        "The person decides who does it. The other knows nothing but the goal that you write."
    )
    inputs = AssignSubtaskInput
    read_only = True

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Touches nothing itself: what the other member does is asked of that one."""
        return Action("read", self.name, cwd)

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """Nothing here can hand out work: the turn does."""
        return ToolOutcome.refused("No work can be handed out from here.")
