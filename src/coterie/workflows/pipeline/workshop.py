"""Planning: a workshop of roles that ends in one structured plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

import anyio
import anyio.to_thread

from coterie.model import instant
from coterie.model.artifact import ArtifactData
from coterie.model.openspec import capability_of, change_files, change_id, change_paths
from coterie.model.pipeline_roles import WORKSHOP
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.planning import (
    FileImpact,
    PlanFiles,
    RoleAnswers,
    RoleNotes,
    StructuredPlan,
    TranscriptLine,
)
from coterie.model.question_text import counted
from coterie.model.update import TurnFailed
from coterie.workflows.pipeline.documents import plan_document
from coterie.workflows.pipeline.services import PipelineStepRun
from coterie.workspace.openspec_tool import clear_change, uses_openspec, write_change
from coterie.workspace.pipeline_work import PipelineWork

_TRIES = 2


class PlanStep(PipelineStepRun):
    """The base of steps that write the plan."""

    @property
    def optional(self) -> PlanStep:
        """The same step for roles that could be skipped: they fail sooner."""
        return replace(self, tries=_TRIES)

    @property
    def change(self) -> str:
        """The id of the OpenSpec change: the same in every round."""
        task = self.services.task
        return change_id(task.goal, task.task_id)

    async def keep(self, plan: StructuredPlan) -> dict[str, str]:
        """Write the agreed plan in all its forms; return their files, for the state."""
        files = PlanFiles.of(plan)
        spec_files = await self._openspec(plan)
        if await self._write_to_project(plan):
            own = [
                FileImpact(path=path, purpose="the OpenSpec change", type="create")
                for path in change_paths(plan, self.change).values()
            ]
            files = PlanFiles(files=(*files.files, *own))
        return {
            **await self.write("planning.current", plan),
            **await self.write("planning.final", plan),
            **await self.write("plan_files", files),
            **await self.write("plan", plan_document(plan)),
            **await self.write("test.plan", plan.test_plan),
            **spec_files,
        }

    async def _openspec(self, plan: StructuredPlan) -> dict[str, str]:
        """Write the plan as an OpenSpec change among the artifacts."""
        place = {"change": self.change, "capability": capability_of(plan)}
        folder = self.services.artifacts.path
        if await anyio.to_thread.run_sync(folder.exists):
            await anyio.to_thread.run_sync(clear_change, folder, self.change)
        files: dict[str, str] = {}
        for name, text in change_files(plan).items():
            files |= await self.write(name, text, **place)
        return files

    async def _write_to_project(self, plan: StructuredPlan) -> bool:
        """Write the same to the worktree if the project uses OpenSpec; return whether it does."""
        folder = await self.git(PipelineWork.open)
        if not await anyio.to_thread.run_sync(uses_openspec, folder):
            return False
        paths = change_paths(plan, self.change)
        texts = {paths[name]: text for name, text in change_files(plan).items()}
        await anyio.to_thread.run_sync(write_change, folder, self.change, texts)
        await self.git(lambda work: work.commit(f"OpenSpec: {plan.title}"))
        return True

    async def write_transcript(
        self, state: PipelineState, lines: Iterable[Mapping[str, str]]
    ) -> dict[str, str]:
        """Write what was said in this step to the transcript; if the step is repeated, it replaces
        what was said in the same round."""
        earlier = [one for one in await self._transcript(state) if one.round < self._round(state)]
        return await self.write("planning.transcript", [*earlier, *self._lines(state, lines)])

    async def append_transcript(
        self, state: PipelineState, lines: Iterable[Mapping[str, str]]
    ) -> dict[str, str]:
        """Add what was said later in the same round to the transcript; if the step is repeated,
        nothing is added twice."""
        existing = await self._transcript(state)
        known = {(one.round, one.role, one.content) for one in existing}
        fresh = self._lines(state, lines)
        added = [one for one in fresh if (one.round, one.role, one.content) not in known]
        return await self.write("planning.transcript", [*existing, *added])

    def _lines(
        self, state: PipelineState, lines: Iterable[Mapping[str, str]]
    ) -> list[TranscriptLine]:
        about = {"timestamp": instant.now(), "round": self._round(state)}
        return [TranscriptLine.model_validate({**about, **line}) for line in lines]

    def _round(self, state: PipelineState) -> int:
        return max(state.actors["planning"].round, 1)

    async def _transcript(self, state: PipelineState) -> list[TranscriptLine]:
        text = await self.text(state, "planning.transcript")
        return [TranscriptLine.model_validate_json(line) for line in text.splitlines()]

    def line(self, role: str, reply: ArtifactData) -> dict[str, str]:
        """Return what a role said as a line of the transcript."""
        member = self.services.roles[role].id
        content = reply.written(indent=None).strip()
        return {"from": "agent", "role": role, "member": member, "content": content}


class WorkshopStep(PlanStep):
    """The roles contribute in parallel, one of them turns that into a plan, and they settle its
    open questions among themselves as far as they can."""

    uses_words: ClassVar[bool] = True

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Write the plan as data and as text."""
        notes = message.text if message else ""
        before = await self.read(state, "planning.current", StructuredPlan)
        opening = {"from": "user", "content": notes or self.services.task.goal}
        if message is not None and message.sender == "agent":
            opening = {"from": "agent", "role": "plan_review", "content": notes}
        if before is not None and notes:
            return await self._revised(state, before, notes, opening)
        replies = await self._workshop(notes)
        text = "\n\n".join(f"{role}:\n{one.written().strip()}" for role, one in replies.items())
        draft = await self.need("planning", StructuredPlan, {"roles": text, "notes": notes})
        plan, answers = await self._settled(draft)
        lines = [
            opening,
            *(self.line(role, one) for role, one in replies.items()),
            self.line("planning", draft),
            *(self.line(role, one) for role, one in answers.items()),
        ]
        if plan is not draft:
            lines.append(self.line("planning", plan))
        files = {
            **await self.write("planning.draft", draft),
            **await self.write_transcript(state, lines),
            **await self.keep(plan),
        }
        return _done(plan, files, [role for role in WORKSHOP if role not in replies])

    async def _workshop(self, notes: str) -> Mapping[str, RoleNotes]:
        """Return the notes of each role whose member answers."""
        replies: dict[str, RoleNotes] = {}
        by_member: dict[str, list[str]] = {}
        for role in WORKSHOP:
            by_member.setdefault(self.services.roles[role].id, []).append(role)

        async def speak(roles: list[str]) -> None:
            for role in roles:
                reply = await self.optional.ask(
                    role, RoleNotes, {"notes": notes}, prompt="workshop"
                )
                if not isinstance(reply, TurnFailed):
                    replies[role] = reply
                elif reply.kind != "protocol":
                    return  # the agent would fail in its other roles too, slowly each time

        async with anyio.create_task_group() as group:
            for roles in by_member.values():
                group.start_soon(speak, roles)
        return {role: replies[role] for role in WORKSHOP if role in replies}

    async def _settled(
        self, draft: StructuredPlan
    ) -> tuple[StructuredPlan, Mapping[str, RoleAnswers]]:
        """Return the plan after the roles have settled what they can of its open questions."""
        if not draft.open_questions:
            return draft, {}
        questions = [f"{n}. {one}" for n, one in enumerate(draft.open_questions, 1)]
        facts = {"plan": plan_document(draft), "questions": questions}
        answers: dict[str, RoleAnswers] = {}

        async def answer(role: str) -> None:
            reply = await self.optional.ask(role, RoleAnswers, facts, prompt="settling")
            if not isinstance(reply, TurnFailed):
                answers[role] = reply

        async with anyio.create_task_group() as group:
            for role in self._one_role_each():
                group.start_soon(answer, role)
        known = [
            f"{draft.open_questions[one.number - 1]} {role}: {one.answer}"
            for role, reply in sorted(answers.items())
            for one in reply.answers
            if 0 < one.number <= len(draft.open_questions) and one.answer.strip()
        ]
        if not known:
            return draft, answers
        final = await self.ask(
            "planning",
            StructuredPlan,
            {"plan": draft.written(), "notes": known},
            prompt="replanning",
        )
        return (draft if isinstance(final, TurnFailed) else final), answers

    def _one_role_each(self) -> list[str]:
        """Return one role of the workshop for every member, so that each is asked once."""
        roles = self.services.roles
        return list({roles[role].id: role for role in reversed(WORKSHOP)}.values())

    async def _revised(
        self,
        state: PipelineState,
        before: StructuredPlan,
        notes: str,
        opening: dict[str, str],
    ) -> StepResult:
        """Revise the existing plan for what was found or requested."""
        facts = {"plan": before.written(), "notes": [notes]}
        plan = await self.need("planning", StructuredPlan, facts, prompt="replanning")
        files = {
            **await self.write_transcript(state, [opening, self.line("planning", plan)]),
            **await self.keep(plan),
        }
        return _done(plan, files, ())


def _done(plan: StructuredPlan, files: dict[str, str], silent: Iterable[str]) -> StepResult:
    size = f"{counted(len(plan.file_impacts), 'file')}, {counted(len(plan.risks), 'risk')}"
    logs = [f"{plan.title}: {size}", *(f"no answer: {role}" for role in silent)]
    if plan.open_questions:
        logs.append(f"open: {counted(len(plan.open_questions), 'question')}")
    patch = StatePatch(artifacts=files)
    return StepResult(patch=patch, logs=tuple(logs), actions=("suggest_plan_review",))
