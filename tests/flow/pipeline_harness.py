"""A test harness for pipelines: a real repository, store and engine; members answer by prompt."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.config.pipeline_file import load_graph
from coterie.engine.steering import answer
from coterie.engine.task_run import RunServices
from coterie.model.conversation import Message, Prompt
from coterie.model.interaction import Interaction
from coterie.model.phase_graph import PhaseGraph
from coterie.model.pipeline_state import PipelineSettings, PipelineState
from coterie.model.record import ResultRecord
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import Member, Team
from coterie.model.update import TurnCompleted, TurnFailed, Update
from coterie.ports import Storage
from coterie.testing.scripted import TASK, ScriptedChannels, ScriptedProject, scripted_project
from coterie.workflows.pipeline import Pipeline
from tests.flow.ticket_harness import FakeChecks, block, folder_of

GRAPHS = {name: load_graph(None, name) for name in ("standard", "small")}
GOAL = "Add coupons to cart.py"
Say = Callable[[Member, str], object]

PLAN: dict[str, object] = {
    "title": "Coupons",
    "why": "Users ask for them.",
    "what": "A cart takes a coupon.",
    "capability": "cart",
    "requirements": [
        {
            "title": "Coupons lower the total",
            "text": "The cart SHALL lower its total by a coupon.",
            "scenarios": [{"name": "one coupon", "when": "it is added", "then": "it is cheaper"}],
        }
    ],
    "scope": ["cart.py"],
    "design": "A function.",
    "file_impacts": [{"path": "cart.py", "purpose": "takes coupons"}],
    "risks": [{"description": "rounding", "mitigation": "decimals"}],
    "test_plan": {"strategy": "unit tests", "key_cases": ["one coupon"], "write_tests": False},
}
INTENT: dict[str, object] = {
    "summary": "A function for coupons",
    "files": [{"path": "cart.py", "intent": "takes coupons"}],
}
DONE: dict[str, object] = {"status": "completed", "outputs": ["cart.py"]}
MINUTES: dict[str, object] = {"consensus": ["do it"], "next_actions": ["begin"]}
ANSWERS: Mapping[str, object] = {
    "You take part in a planning workshop": {"summary": "fine"},
    "Write the plan.": PLAN,
    "Give the whole plan as it should be": PLAN,
    "Is anything missing in scope": {"verdict": "approve", "summary": "good"},
    "about a plan and its review": {"minutes": MINUTES},
    "First say what you intend": INTENT,
    "What do you find?": {"summary": "good"},
    "about the reviews of a change": MINUTES,
    "What was run:": {"summary": "it failed", "next_actions": ["mend it"]},
}


def writes(**files: str) -> Say:
    """Write Python files and report them."""

    def say(member: Member, text: str) -> object:
        for name, content in files.items():
            (folder_of(member) / f"{name}.py").write_text(content)
        return {"status": "completed", "outputs": [f"{name}.py" for name in files]}

    return say


CODE = writes(cart="total = 0\ncoupons = True\n")


def replying(**others: object) -> Say:
    """Answer as in `ANSWERS`, except for prompts that contain one of these keys (`_`: a space)."""
    words = {key.replace("_", " "): value for key, value in others.items()}
    known = {"Make the change now": CODE, **ANSWERS}

    def say(member: Member, text: str) -> object:
        for asked, answered in {**words, **known}.items():
            if asked in text:
                made = words.get(asked, answered)
                return made(member, text) if callable(made) else made
        raise AssertionError(text)

    return say


def team(*names: str, **more: object) -> Team:
    names = names or ("ada", "rex")
    members = tuple(
        Member(id=name, name=name, display_name=name, agent=f"agent-{name}", order=place)
        for place, name in enumerate(names)
    )
    return Team(name="shop", workflow="pipeline", members=members).model_copy(update=more)


@dataclass
class PipelineHarness:
    """One project with one pipeline, which may be run several times."""

    scripted: ScriptedProject
    project: Path
    checks: FakeChecks

    async def run(self, say: Say | None = None) -> ResultRecord:
        """Run it until it ends or asks a question."""
        heard = say or replying()

        async def played(member: Member, prompt: Prompt) -> list[Update]:
            said = await anyio.to_thread.run_sync(heard, member, prompt.text)
            if isinstance(said, TurnFailed):
                return [said]
            return [TurnCompleted(said if isinstance(said, str) else block(said))]

        with anyio.fail_after(60):
            return await self.scripted.run(ScriptedChannels(played))

    async def asked(self) -> Interaction:
        """Return the only open question."""
        (question,) = await self.scripted.storage.inbox.questions()
        return question.interaction

    async def answer(self, choice: str, text: str | None = None) -> str:
        """Answer the only open question; return what it was about."""
        asked = await self.asked()
        await answer(self.scripted.look, asked.interaction_id, choice, text, "you")
        return asked.about.kind if asked.about else ""

    @property
    def folder(self) -> Path:
        return self.project / ".coterie" / "sessions" / TASK

    @property
    def state(self) -> PipelineState:
        return PipelineState.model_validate_json((self.folder / "state.json").read_text())

    def artifact(self, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / "artifacts" / name).read_text())
        return found


@asynccontextmanager
async def pipeline(
    project: Path,
    who: Team | None = None,
    *,
    caps: Caps | None = None,
    storage: Storage | None = None,
    graph: PhaseGraph = GRAPHS["standard"],
    **settings: object,
) -> AsyncGenerator[PipelineHarness]:
    """Open a project's pipeline; opened again, it is the same pipeline with another owner."""
    checks = FakeChecks()
    folder = project / ".coterie"
    async with scripted_project(folder, storage, workflow=Pipeline(), root=project) as on:
        on.engine = replace(on.engine, services=RunServices(checks=checks))
        if not await on.storage.events.tasks():
            given = {"evals": ("make test",), **settings}
            made = PipelineSettings.model_validate({"graph": graph, **given})
            created = TaskCreated(
                task_id=TASK,
                at="2026-01-01T00:00:00Z",
                session_id=TASK,
                workflow="pipeline",
                workflow_version=1,
                goal=GOAL,
                author="you",
                team=who or team(),
                caps=caps or Caps(yes=True),
                pipeline=made.model_dump(mode="json"),
            )
            opening = Message(TASK, 1, "you", GOAL, created.at)
            assert await on.storage.create(created, on.owners.me, opening) is not None
        yield PipelineHarness(on, project, checks)
