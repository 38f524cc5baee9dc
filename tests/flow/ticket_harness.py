"""A test harness for ticket sessions: a real repository, store and engine, and scripted members."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.engine.run import Engine
from coterie.engine.steering import answer
from coterie.engine.task_run import RunServices
from coterie.model.check import CheckOutcome
from coterie.model.conversation import Limits, Message, Prompt
from coterie.model.envelope import Envelope, Error
from coterie.model.record import ResultRecord
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import Member, Team
from coterie.model.ticket import SchedulerConfig, Ticket
from coterie.model.update import TurnCompleted, TurnFailed, Update
from coterie.ports import ChildLog
from coterie.testing.scripted import (
    TASK,
    Script,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
)
from coterie.workflows.tickets import Tickets
from tests.conftest import init_project

Say = Callable[[Member, str], object]
LIMITS = Limits(total=60.0, quiet_after=30.0)


def git(folder: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


def repository(root: Path) -> Path:
    """Create a project under git with one file."""
    init_project(root)
    (root / "cart.py").write_text("total = 0\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.email", "you@example.com")
    git(root, "config", "user.name", "You")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    return root


def team(*workers: str, **more: object) -> Team:
    """A manager called mira, and workers; `more` updates each worker."""
    names = ("mira", *(workers or ("wren", "finn")))
    return Team(
        name="shop",
        workflow="tickets",
        members=tuple(
            Member(
                id=name,
                name=name,
                display_name=name.capitalize(),
                role="manager" if name == "mira" else "worker",
                agent="scripted",
                order=place,
            ).model_copy(update=more if name != "mira" else {})
            for place, name in enumerate(names)
        ),
    )


def block(payload: object) -> str:
    return f"Here it is.\n```json\n{json.dumps(payload)}\n```"


def part(name: str, *after: str, **more: object) -> dict[str, object]:
    """One task of a plan."""
    return {"task_id": name, "description": f"Make {name}", "dependencies": [*after], **more}


def plan(*parts: Mapping[str, object]) -> dict[str, object]:
    return {"tasks": [*parts]}


PLAN = plan(
    part("model", expected_outputs=["model.py"]),
    part("rules", expected_outputs=["rules.py"]),
    part("form", "model", "rules", expected_outputs=["form.py"]),
)


def ticket_in(text: str) -> str:
    """Return the ticket that a worker is asked to work on."""
    return text.split("on ticket ")[1].split(" ", maxsplit=1)[0]


def folder_of(member: Member) -> Path:
    assert member.execution_dir is not None
    return Path(member.execution_dir)


def obedient(member: Member, text: str) -> object:
    """Answer every prompt obediently, at once."""
    for words, answered in ANSWERS.items():
        if words in text:
            return answered
    if "Do the work now" in text:
        ticket = ticket_in(text)
        (folder_of(member) / f"{ticket}.txt").write_text(f"by {member.id}\n")
        return {"status": "completed", "outputs": [f"{ticket}.txt"]}
    raise AssertionError(text)


ANSWERS: dict[str, object] = {
    "Is anything unclear": {"status": "clear", "intent_summary": "coupons"},
    "Split the goal into tasks": PLAN,
    "Write the instruction for ticket": {"summary": "Do it.", "steps": ["write the file"]},
    "Is it done?": {"decision": "approved", "notes": "fine"},
    "Before you begin": {"status": "proposal", "outputs": ["I agree"]},
}


def replying(**others: object) -> Say:
    """Answer obediently, except for prompts that contain one of these keys (`_` is a space)."""
    words = {key.replace("_", " "): value for key, value in others.items()}

    def say(member: Member, text: str) -> object:
        for asked, answered in words.items():
            if asked in text:
                return answered(member, text) if callable(answered) else answered
        return obedient(member, text)

    return say


def script(say: Say) -> Script:
    async def played(member: Member, prompt: Prompt) -> list[Update]:
        said = await anyio.to_thread.run_sync(say, member, prompt.text)
        if said is None:
            return []  # it hangs
        if isinstance(said, TurnFailed):
            return [said]
        return [TurnCompleted(said if isinstance(said, str) else block(said))]

    return played


@dataclass
class FakeChecks:
    """A `ports.Checks` with a given exit code per command; unknown commands succeed."""

    ends: dict[str, int | None] = field(default_factory=dict[str, int | None])
    ran: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def unconfined_warning(self) -> str:
        return ""

    async def run(self, command: str, folder: Path, children: ChildLog) -> CheckOutcome:
        self.ran.append((command, folder.name))
        code = self.ends.get(command, 0)
        return CheckOutcome(command, code, f"{command} said so", 1)


@dataclass
class TicketHarness:
    """One project with one session, which may be run several times."""

    scripted: ScriptedProject
    project: Path

    def use_services(self, services: RunServices) -> None:
        self.scripted.engine = replace(self.scripted.engine, services=services)

    async def run(
        self, say: Say = obedient, *, wait: float | None = 0.0, clocks: Limits = LIMITS
    ) -> str:
        """Run it; return status, reason and summary as one string, without the part about
        checks: few are run here."""
        result = await self.result(say, wait=wait, clocks=clocks)
        summary = result.summary.partition("; ")[0]
        return f"{result.status} {result.reason} {summary}".strip()

    async def result(
        self, say: Say = obedient, *, wait: float | None = 0.0, clocks: Limits = LIMITS
    ) -> ResultRecord:
        with anyio.fail_after(90):
            return await self.scripted.run(ScriptedChannels(script(say), clocks=clocks), wait)

    async def answer(self, choice: str, text: str | None = None) -> str:
        """Answer the only open question; return its title."""
        (question,) = await self.scripted.storage.inbox.questions()
        asked = question.interaction
        await answer(self.scripted.look, asked.interaction_id, choice, text, "you")
        return asked.display.title

    async def questions(self) -> list[str]:
        asked = await self.scripted.storage.inbox.questions()
        return [question.interaction.display.title for question in asked]

    async def tickets(self) -> list[Ticket]:
        return await self.scripted.storage.tickets.tickets(TASK)

    async def states(self) -> dict[str, str]:
        return {ticket.id: ticket.state for ticket in await self.tickets()}

    async def moves(self, ticket_id: str) -> list[str]:
        ticket = next(one for one in await self.tickets() if one.id == ticket_id)
        return [moment.event for moment in ticket.history]

    async def envelopes(self) -> list[Envelope]:
        return [one for _, one in await self.scripted.storage.tickets.envelopes(TASK)]

    async def errors(self) -> list[str]:
        payloads = [one.payload for one in await self.envelopes()]
        return [one.code for one in payloads if isinstance(one, Error)]

    async def error(self, code: str) -> str:
        payloads = [one.payload for one in await self.envelopes()]
        return next(p.message for p in payloads if isinstance(p, Error) and p.code == code)


@asynccontextmanager
async def session(
    project: Path,
    who: Team | None = None,
    config: SchedulerConfig | None = None,
    caps: Caps | None = None,
    checks: FakeChecks | None = None,
) -> AsyncGenerator[TicketHarness]:
    """Open a project's session; opened again, it is the same session with another owner."""
    async with scripted_project(project / ".coterie", workflow=Tickets()) as scripted:
        engine = scripted.engine
        services = RunServices(checks=checks)
        scripted.engine = Engine(
            engine.storage, engine.workflows, engine.claimant, project, services
        )
        if not await scripted.storage.events.tasks():
            await _create(
                scripted, who or team(), config or SchedulerConfig(), caps or Caps(yes=True)
            )
        yield TicketHarness(scripted, project)


async def _create(
    scripted: ScriptedProject, who: Team, config: SchedulerConfig, caps: Caps
) -> None:
    created = TaskCreated(
        task_id=TASK,
        at="2026-01-01T00:00:00Z",
        session_id=TASK,
        workflow="tickets",
        workflow_version=1,
        goal="Add coupons",
        author="you",
        team=who,
        caps=caps,
        scheduler=config,
    )
    opening = Message(TASK, 1, "you", "Add coupons", created.at)
    assert await scripted.storage.create(created, scripted.owners.me, opening) is not None
