"""The planning meeting: a chair merges plan and review, and has open questions clarified.

The user, the role with the question and the chair form a small meeting: the chair takes the
question to the user and the answer back to the role, and the plan is changed accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import anyio

from coterie.model.about import PlanQuestion
from coterie.model.artifact import MeetingMinutes
from coterie.model.interaction import Ask
from coterie.model.pipeline_roles import PIPELINE_ROLES
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.planning import RoleNotes, StructuredPlan
from coterie.model.question_text import counted
from coterie.model.reviews import (
    ChairDecision,
    ClarifiedQuestion,
    PlanningMeeting,
    PlanningSummary,
    PlanReview,
)
from coterie.model.update import TurnFailed
from coterie.workflows.pipeline.documents import (
    plan_document,
    planning_meeting_document,
)
from coterie.workflows.pipeline.workshop import PlanStep

GO = "go"
"""The user's answer to leave the remaining questions to the team."""
_ASKING = "product"
"""The role that asks if the chair names none."""


class PlanningMeetingStep(PlanStep):
    """A chair merges plan and review; if no model answers, rules alone do."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Write the minutes; first ask each question that only the user can answer, unless the
        plan goes back anyway and may then have others."""
        plan = await self.read(state, "planning.current", StructuredPlan)
        review = await self.read(state, "review.plan", PlanReview)
        assert plan is not None  # the step requires it
        assert review is not None
        if self.number > 1:
            meeting = await self.read(state, "planning.meeting", PlanningMeeting)
            assert meeting is not None  # written before anything was asked
            meeting = _answered(meeting, self.number - 1, message.content if message else "")
        else:
            meeting = await self._held(plan, review, message)
        question = self._question(meeting) if review.gate.passed else None
        if question is not None:
            files = await self._write(meeting)
            patch = StatePatch(status="in_progress", artifacts=files)
            return StepResult(patch=patch, questions=(question,), actions=("ask_user",))
        return await self._closed(state, plan, meeting)

    async def _held(
        self, plan: StructuredPlan, review: PlanReview, message: StepMessage | None
    ) -> PlanningMeeting:
        """Hold the meeting itself, before anybody else is asked."""
        facts = {
            "plan": plan_document(plan),
            "review": review.written(),
            "questions": plan.open_questions,
            "notes": message.text if message else "",
        }
        chair = await self.ask("chair", ChairDecision, facts, prompt="planning_meeting")
        minutes: MeetingMinutes | None = None
        named: tuple[ClarifiedQuestion, ...] = ()
        if not isinstance(chair, TurnFailed):
            minutes, named = chair.minutes, chair.clarify
        return PlanningMeeting(
            planning_summary=_summary(plan),
            issues=review.issues,
            clarifications=_to_clarify(plan.open_questions, named),
            ai_meeting=minutes,
        )

    def _question(self, meeting: PlanningMeeting) -> Ask | None:
        """Return the next question for the user; None if they want no more or none is left."""
        if self.services.task.caps.yes or _is_enough(meeting):
            return None
        known = meeting.clarifications
        for number, one in enumerate(known, 1):
            if not one.answer:
                about = PlanQuestion(
                    question=one.question, role=one.role, number=number, total=len(known)
                )
                chair = self.services.roles["chair"].id
                return Ask(chair, "Input", about, "request_info", intent=[number, one.question])
        return None

    async def _closed(
        self, state: PipelineState, plan: StructuredPlan, meeting: PlanningMeeting
    ) -> StepResult:
        """Write the minutes, and the plan as revised by what was clarified."""
        settled = [
            one for one in meeting.clarifications if one.settled_by != "nobody" and one.answer
        ]
        files: dict[str, str] = {}
        if settled:
            plan = await self._clarified(plan, settled)
            files = await self.keep(plan)
            meeting = meeting.model_copy(update={"planning_summary": _summary(plan)})
        files |= await self._write(meeting)
        files |= await self.append_transcript(state, self._spoken(meeting))
        by = "a chair" if meeting.ai_meeting else "rules alone: no model answered"
        logs = [f"wrote the minutes of the meeting, by {by}"]
        if settled:
            logs.append(f"clarified: {counted(len(settled), 'question')}")
        return StepResult(patch=StatePatch(artifacts=files), logs=tuple(logs))

    def _spoken(self, meeting: PlanningMeeting) -> Iterator[dict[str, str]]:
        """Yield the chair's questions to the user and their answers, for the transcript."""
        chair = self.services.roles["chair"].id
        for one in meeting.clarifications:
            if one.settled_by == "user":
                asked = {"from": "agent", "role": "chair", "member": chair}
                yield {**asked, "content": one.question}
                yield {"from": "user", "content": one.answer}

    async def _clarified(
        self, plan: StructuredPlan, settled: Sequence[ClarifiedQuestion]
    ) -> StructuredPlan:
        """Return the plan after the roles that had the questions have read the answers."""
        by_role: dict[str, list[ClarifiedQuestion]] = {}
        for one in settled:
            by_role.setdefault(one.role, []).append(one)
        notes = [f"{one.question} Answer: {one.answer}" for one in settled]

        async def ask_again(role: str) -> None:
            answers = [f"{one.question} Answer: {one.answer}" for one in by_role[role]]
            facts = {"plan": plan_document(plan), "answers": answers}
            reply = await self.optional.ask(role, RoleNotes, facts, prompt="clarified")
            if not isinstance(reply, TurnFailed):
                notes.append(f"{role}: {reply.written(indent=None).strip()}")

        async with anyio.create_task_group() as group:
            for role in by_role:
                group.start_soon(ask_again, role)
        facts = {"plan": plan.written(), "notes": sorted(notes)}
        revised = await self.ask("planning", StructuredPlan, facts, prompt="replanning")
        return _by_rule(plan, settled) if isinstance(revised, TurnFailed) else revised

    async def _write(self, meeting: PlanningMeeting) -> dict[str, str]:
        return {
            **await self.write("planning.meeting", meeting),
            **await self.write("planning.minutes", planning_meeting_document(meeting)),
        }


def _summary(plan: StructuredPlan) -> PlanningSummary:
    return PlanningSummary(
        why=plan.why,
        what=plan.what,
        scope=plan.scope,
        non_goals=plan.non_goals,
        open_questions=len(plan.open_questions),
    )


def _to_clarify(
    questions: Sequence[str], named: Sequence[ClarifiedQuestion]
) -> tuple[ClarifiedQuestion, ...]:
    """Return every open question once: with what the chair says about it, or as still open."""
    by_question: dict[str, ClarifiedQuestion] = {}
    for one in (*named, *(ClarifiedQuestion(question=text) for text in questions if text.strip())):
        role = one.role if one.role in PIPELINE_ROLES else _ASKING
        # The chair cannot speak for the user: its answers count as settled by a role.
        by = "role" if one.answer.strip() else "nobody"
        settled = one.model_copy(update={"role": role, "settled_by": by})
        by_question.setdefault(" ".join(one.question.split()).casefold(), settled)
    return tuple(by_question.values())


def _answered(meeting: PlanningMeeting, number: int, answer: str) -> PlanningMeeting:
    """Return the meeting with the user's answer to the `number`-th question they were asked.

    It may be in there already, from a process that died before the step was recorded.
    """
    known = list(meeting.clarifications)
    place = [n for n, one in enumerate(known) if one.settled_by != "role"][number - 1]
    is_answer = bool(answer.strip()) and answer.strip().casefold() != GO
    by = "user" if is_answer else "nobody"
    known[place] = known[place].model_copy(update={"answer": answer or GO, "settled_by": by})
    return meeting.model_copy(update={"clarifications": tuple(known)})


def _is_enough(meeting: PlanningMeeting) -> bool:
    """Whether the user has left the remaining questions to the team."""
    return any(one.answer and one.settled_by == "nobody" for one in meeting.clarifications)


def _by_rule(plan: StructuredPlan, settled: Sequence[ClarifiedQuestion]) -> StructuredPlan:
    """Return the plan with the answers added as assumptions, for when no model answers."""
    done = {one.question for one in settled}
    return plan.model_copy(
        update={
            "assumptions": (*plan.assumptions, *(f"{o.question} {o.answer}" for o in settled)),
            "open_questions": tuple(q for q in plan.open_questions if q not in done),
        }
    )
