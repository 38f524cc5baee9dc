"""Every workflow keeps the workflow contract: the built-in ones, and that of docs/python.md."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from coterie import (
    Caps,
    Context,
    Ended,
    Member,
    Prompt,
    TaskCreated,
    Team,
    TurnFailed,
    Workflow,
)
from coterie.model.interaction import Interaction
from coterie.testing.contracts.workflow import WorkflowContract
from coterie.testing.scripted import TASK, ScriptedProject, TurnScript, team
from coterie.workflows.chat import Chat, Solo
from coterie.workflows.tickets import Tickets
from tests.docs.test_docs import ROOT, files
from tests.flow.ticket_harness import part, plan, replying, repository, script
from tests.flow.ticket_harness import team as ticket_team


class TestChat(WorkflowContract):
    caps = Caps(max_turns=5, max_rounds=None)

    def workflow(self) -> Workflow:
        return Chat()

    def team(self) -> Team:
        return team("ada", "bob", human="max")

    def reply(self, member: Member, prompt: Prompt) -> TurnScript:
        if member.id == "bob" and "word" not in prompt.text:
            return [TurnFailed("exit", "exit code 1", retry=False)]
        return f"{member.id} on {len(prompt.newest)}"

    def answer(self, question: Interaction) -> str:
        return "skip" if question.options else "a word"


class TestSolo(WorkflowContract):
    def workflow(self) -> Workflow:
        return Solo()

    def reply(self, member: Member, prompt: Prompt) -> TurnScript:
        return f"{member.id} did {prompt.newest}"


class TestTickets(WorkflowContract):
    stride = 16

    def workflow(self) -> Workflow:
        return Tickets()

    def team(self) -> Team:
        return ticket_team("wren")

    def prepare(self, root: Path) -> None:
        repository(root)

    def reply(self, member: Member, prompt: Prompt) -> TurnScript | Awaitable[TurnScript]:
        say = replying(Split_the_goal=plan(part("model"), part("form", "model")))
        return script(say)(member, prompt)

    async def outcome(self, ended: ScriptedProject) -> object:
        """Omit the steps: those of tickets are named by a history's length; a crash adds to it."""
        status, reason, summary, *_ = (await super().outcome(ended),)[0]  # type: ignore[misc]
        tickets = await ended.storage.tickets.tickets(TASK)
        return status, reason, summary, {ticket.id: ticket.state for ticket in tickets}


class TestDuet(WorkflowContract):
    """The example from the documentation."""

    def workflow(self) -> Workflow:
        made: dict[str, Any] = {}
        exec(files(ROOT / "docs" / "python.md")["duet.py"], made)
        return made["Duet"]()

    def reply(self, member: Member, prompt: Prompt) -> TurnScript:
        return f"{member.id} on {len(prompt.newest)}"

    def answer(self, question: Interaction) -> str:
        return "keep" if "2" in question.display.title else "again"


class CarelessWorkflow(WorkflowContract):
    """A workflow that counts its steps outside the journal."""

    drafts = 0

    def workflow(self) -> Workflow:
        contract = self

        class Counting:
            name = "counting"
            version = 1

            async def run(self, task: TaskCreated, context: Context) -> Ended:
                contract.drafts += 1
                await context.turn(f"turn/{contract.drafts}", task.team.ai_members[0], 1)
                return Ended("done")

        return Counting()

    def reply(self, member: Member, prompt: Prompt) -> TurnScript:
        return "done"


async def test_a_careless_workflow_is_seen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="turn/2"):
        await CarelessWorkflow().test_it_ends_the_same_in_every_run(tmp_path)
