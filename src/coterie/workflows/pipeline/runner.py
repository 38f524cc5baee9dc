"""The orchestrator: keeps the state, picks the next step, reports what was done and asks the user.

The result of a step is recorded under its name, so a run that was killed resumes with the step it
was in; everything before it is replayed from the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Any, cast

import anyio.to_thread

from coterie.model import step_name
from coterie.model.about import FailedPhaseStep, GateFailed, PhaseChoice
from coterie.model.interaction import COTERIE, Ask, ContentKind, Option, Response
from coterie.model.phase_graph import DONE, PIPELINE_STEPS, PhaseGraph
from coterie.model.pipeline_state import (
    ACTOR_OF,
    Command,
    PipelineSettings,
    PipelineState,
    StepMessage,
    StepResult,
    lines,
    trajectory_line,
)
from coterie.model.record import PhaseRecord
from coterie.model.task import Ended, TaskCreated
from coterie.model.ticket import BASE_COMMIT
from coterie.model.trajectory import TrajectoryLine
from coterie.ports import Context
from coterie.workflows.chat import STOP
from coterie.workflows.pipeline.accept import ACCEPT, AcceptStep
from coterie.workflows.pipeline.code_review import CodeReviewStep, ReviewMeetingStep
from coterie.workflows.pipeline.codegen import CodegenStep, WriteTestsStep
from coterie.workflows.pipeline.commands import (
    COMMANDS,
    REVERT,
    NextPhase,
    command_options,
    phase_for_command,
)
from coterie.workflows.pipeline.evaluation import RunTestsStep
from coterie.workflows.pipeline.plan_review import PlanReviewStep
from coterie.workflows.pipeline.planning_meeting import PlanningMeetingStep
from coterie.workflows.pipeline.services import PipelineServices, PipelineStepRun
from coterie.workflows.pipeline.workshop import WorkshopStep
from coterie.workspace.pipeline_work import open_work, reverts_of, starting_commit

STEPS: Mapping[str, type[PipelineStepRun]] = {
    "workshop": WorkshopStep,
    "plan_review": PlanReviewStep,
    "planning_meeting": PlanningMeetingStep,
    "codegen": CodegenStep,
    "code_review": CodeReviewStep,
    "review_meeting": ReviewMeetingStep,
    "test_codegen": WriteTestsStep,
    "test_run": RunTestsStep,
    "accept": AcceptStep,
}


class WorkReverted(Exception):
    """The work was reverted while a step was running."""


class PipelineRunner:
    """Carries out one goal, starting from whatever is recorded of it."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        settings = PipelineSettings.model_validate(task.pipeline)
        self._task = task
        self._context = context
        self._graph: PhaseGraph = settings.graph
        self._settings = settings
        self._services = PipelineServices(task, context, settings)
        self._state = PipelineState(task_id=task.task_id, phase=settings.graph.start)
        self._rounds: Counter[str] = Counter()
        """How often the gate of each phase sent the work back since the user last did so."""
        self._trajectory: list[TrajectoryLine] = []
        self._last_read = 1 if task.goal else 0
        """The number of the last message of the conversation that was read."""
        self._said = ""
        """What people have said since a step last made use of that."""

    async def run(self) -> Ended:
        """Go through the phases until the end."""
        await self._services.open()
        base = str(await self._context.step(BASE_COMMIT, [], self._begin))
        self._context.caught_up()
        where = NextPhase(self._graph.start)
        for visit in count(1):
            where = await self._visit(visit, where, base)
            if where.phase == DONE:
                break
        self._state = self._state.model_copy(update={"phase": DONE})
        await self._write_state()
        summary = self._state.meta.commit[:12]
        return Ended("accepted", f"committed as {summary}" if summary else "nothing was committed")

    async def _begin(self) -> object:
        root, task = self._context.root, self._task
        return await anyio.to_thread.run_sync(starting_commit, root, task.session_id, task.base)

    async def _visit(self, visit: int, where: NextPhase, base: str) -> NextPhase:
        """Run one phase from its beginning to its gate; return where to continue."""
        seen = self._state.meta.reverts

        fresh = False

        async def enter() -> object:
            nonlocal fresh
            fresh = True
            reverts = await self._reverts()
            phase = where.phase if reverts == seen else self._graph.start
            text, last = await self._read_messages(visit)
            return {"phase": phase, "reverts": reverts, "said": text, "heard": last}

        name = step_name.phase(visit, "enter")
        entered = cast("dict[str, Any]", await self._context.step(name, [], enter))
        phase, reverts = str(entered["phase"]), int(entered["reverts"])
        self._last_read: int = entered["heard"]
        self._said = lines(self._said, entered["said"])
        self._state = self._state.entered(phase, reverts)
        await self._open_work(base, reverts)
        if reverts != seen:
            self._rounds.clear()
            return await self._choose(visit, phase, phase)
        if fresh:
            self._tell(PhaseRecord(self._task.task_id, phase))
        try:
            return await self._steps(visit, where)
        except WorkReverted:
            return NextPhase(self._graph.start)

    async def _read_messages(self, visit: int) -> tuple[str, int]:
        """Return what people said since the last phase was entered, and the number of the last
        message."""
        context, known = self._context, len(self._context.conversation)
        await context.heard(step_name.phase(visit, f"heard/{known}"))
        texts = [
            one.text
            for one in context.conversation
            if one.seq > self._last_read and self._task.team.is_person(one.member)
        ]
        return "\n".join(texts), max((one.seq for one in context.conversation), default=0)

    async def _open_work(self, base: str, reverts: int) -> None:
        where = (self._context.root, self._task.session_id)
        self._services.work = await anyio.to_thread.run_sync(open_work, *where, base, reverts)
        await self._services.take_in()

    async def _reverts(self) -> int:
        where = (self._context.root, self._task.session_id)
        return await anyio.to_thread.run_sync(reverts_of, *where)

    async def _steps(self, visit: int, where: NextPhase) -> NextPhase:
        phase = self._graph.phases[where.phase]
        steps = phase.steps
        begin = steps.index(where.step) if where.step in steps else 0
        message, cannot_retry = where.message, False
        for step in steps[begin:]:
            result = await self._run_step(visit, step, message)
            if result.command is not None:
                return await self._run_command(visit, result.command, result.patch.reason)
            message = None
            cannot_retry |= result.needs_user
        return await self._follow(visit, where.phase, cannot_retry=cannot_retry)

    async def _run_step(self, visit: int, step: str, message: StepMessage | None) -> StepResult:
        """Run a step, again with every answer until it has no more questions."""
        for number in count(1):
            result = await self._run_step_once(visit, step, number, self._with_words(message))
            name = step_name.pipeline_step(visit, step, number)
            if result.questions:
                message = await self._answers(name, result.questions)
            elif result.patch.status == "failed" and result.patch.gate is None:
                message = await self._after_failure(name, step, result)
            else:
                self._said = "" if STEPS[step].uses_words else self._said
                return result
        raise AssertionError("unreachable")

    def _with_words(self, message: StepMessage | None) -> StepMessage | None:
        if not self._said:
            return message
        own = message or StepMessage(sender="user")
        return own.model_copy(update={"sender": "user", "said": self._said})

    async def _run_step_once(
        self, visit: int, step: str, number: int, message: StepMessage | None
    ) -> StepResult:
        if number == 1:
            self._state = self._state.begun(step)
        state, name = self._state, step_name.pipeline_step(visit, step, number)
        fresh = False

        async def work() -> object:
            nonlocal fresh
            fresh = True
            if await self._reverts() != state.meta.reverts:
                raise WorkReverted
            await self._write_state()
            self._tell_step(step)
            made = await self._services.measured(STEPS[step](self._services, name), state, message)
            return made.model_dump(mode="json")

        recorded = await self._context.step(name, [step], work)
        result = StepResult.stored(cast("Mapping[str, object]", recorded))
        self._state = state.after(step, result.patch)
        line = trajectory_line(visit, step, state, result)
        self._trajectory += [line] if line else []
        if fresh:
            await self._write_state()
            self._tell_step(step, result)
        return result

    async def _answers(self, name: str, questions: tuple[Ask, ...]) -> StepMessage:
        """Return the user's answers as the next message to the step."""
        texts: list[str] = []
        choice = ""
        for number, question in enumerate(questions, 1):
            response = await self._services.ask_user(f"{name}/question/{number}", question)
            choice = response.selected_option_id or choice
            texts.append(_words(response))
        words = "\n".join(texts).strip()
        return StepMessage(sender="user", content=words, choice=choice, answers=tuple(texts))

    async def _after_failure(self, name: str, step: str, result: StepResult) -> StepMessage:
        about = FailedPhaseStep(phase=self._state.phase, step=step, reason=result.patch.reason)
        options = (Option(id="again", label="try again", style="primary"), STOP)
        question = Ask(COTERIE, "Composite", about, options=options, intent=[name])
        response = await self._services.ask_user(f"{name}/failed", question)
        return StepMessage(sender="user", content=_words(response), choice="again")

    async def _follow(self, visit: int, name: str, *, cannot_retry: bool) -> NextPhase:
        """Return what follows a phase: the next one, the one that its gate sends back to, or the
        user's choice; they are asked at once if another round would not help."""
        phase, state = self._graph.phases[name], self._state
        following = phase.next or DONE
        if phase.gate is None or state.passed(phase.gate):
            if following != DONE and self._asks_after(name):
                return await self._choose(visit, name, following)
            return NextPhase(following)
        decision = state.meta.gates[phase.gate]
        why = StepMessage(sender="agent", content="\n".join(decision.reasons))
        if phase.back is not None and self._rounds[name] < phase.rounds and not cannot_retry:
            self._rounds[name] += 1
            return NextPhase(phase.back, message=why)
        return await self._after_gate(visit, name, phase.gate)

    async def _after_gate(self, visit: int, name: str, gate: str) -> NextPhase:
        """Have the user decide about a gate that failed too often."""
        phase, decision = self._graph.phases[name], self._state.meta.gates[gate]
        rounds = self._rounds[name]
        about = GateFailed(phase=name, gate=gate, rounds=rounds, reasons=decision.reasons)
        question = Ask(
            COTERIE,
            "Composite",
            about,
            options=(
                Option(id="again", label=f"try again from {phase.back or name}", style="primary"),
                Option(id="override", label="override the gate", style="danger"),
                *command_options(self._graph, self._state),
                STOP,
            ),
            intent=[gate, visit],
        )
        await self._write_state()
        response = await self._services.ask_user(step_name.phase(visit, "gate"), question)
        comment = _words(response)
        if response.selected_option_id in (*COMMANDS, REVERT):
            return await self._run_command(visit, response.selected_option_id, comment)
        if response.selected_option_id != "override":
            self._rounds[name] = 0
            self._said = lines(self._said, comment)
            message = StepMessage(sender="user", content="\n".join(decision.reasons))
            return NextPhase(phase.back or name, message=message)

        async def override() -> object:
            return {"gate": gate, "why": comment or f"{response.author_actor_id} overrode the gate"}

        await self._context.step(step_name.phase(visit, "override"), [gate], override)
        self._state = self._state.overridden(gate, comment)
        await self._write_state()
        return NextPhase(phase.next or DONE)

    def _asks_after(self, phase: str) -> bool:
        """Whether to ask what comes next: after every phase if attended, else after the plan."""
        if self._settings.attended:
            return True
        return self._graph.phases[phase].gate == "plan" and not self._task.caps.yes

    async def _choose(self, visit: int, over: str, following: str) -> NextPhase:
        """Ask the user what to do next."""
        reverted = self._state.meta.status == "redo"
        content, kind = await self._shown(over) if not reverted else ("", "PlainText")
        question = Ask(
            COTERIE,
            "Composite",
            PhaseChoice(phase=over, next=following, reverted=reverted),
            content=content,
            content_kind=kind,
            options=(
                Option(id="next", label=f"continue with {following}", style="primary"),
                *command_options(self._graph, self._state),
                STOP,
            ),
            intent=[over, visit],
        )
        await self._write_state()
        response = await self._services.ask_user(step_name.phase(visit, "choice"), question)
        comment, choice = _words(response), response.selected_option_id
        if choice in (*COMMANDS, REVERT):
            return await self._run_command(visit, choice, comment)
        self._said = lines(self._said, comment)
        return NextPhase(following)

    async def _shown(self, phase: str) -> tuple[str, ContentKind]:
        """Return what to show the user after a phase: its plan, or the change."""
        steps = self._graph.phases[phase].steps
        wrote = {name for step in steps for name in PIPELINE_STEPS[step].writes}
        if "plan" in wrote or self._graph.phases[phase].gate == "plan":
            run = PipelineStepRun(self._services, "")
            return await run.text(self._state, "plan"), "PlainText"
        work = self._services.work
        if "code.patch" in wrote and work is not None:
            return await anyio.to_thread.run_sync(work.diff), "Diff"
        return "", "PlainText"

    async def _run_command(self, visit: int, command: Command, comment: str) -> NextPhase:
        """Return the phase that a command leads to; `REVERT` takes the work back first."""
        if command != ACCEPT:
            self._said, comment = lines(self._said, comment), ""
        if command == REVERT:
            name = step_name.phase(visit, REVERT)
            await self._context.step(name, [], self._drop)
            return NextPhase(self._graph.start)
        target = phase_for_command(command, self._graph, self._state)
        assert target is not None, "only what can be done is offered"
        # Of this command, the comment is the commit message.
        message = StepMessage(sender="user", content=comment, choice=ACCEPT) if comment else None
        return target._replace(message=message)

    async def _drop(self) -> object:
        work, number = self._services.work, self._state.meta.reverts + 1
        assert work is not None, "opened before any step"
        return await anyio.to_thread.run_sync(work.drop, number)

    async def _write_state(self) -> None:
        """Write `state.json` and the trajectory, for anyone who reads them."""
        text = self._state.model_dump_json(indent=2) + "\n"
        artifacts, lines = self._services.artifacts, list(self._trajectory)

        def write() -> None:
            artifacts.write_state(text)
            artifacts.write("trajectory", lines)

        await anyio.to_thread.run_sync(write)

    def _tell_step(self, step: str, result: StepResult | None = None) -> None:
        actor = self._state.actors[ACTOR_OF[step]]
        record = PhaseRecord(self._task.task_id, self._state.phase, step, actor.status, actor.round)
        if result is not None:
            gate = result.patch.gate
            record = PhaseRecord(
                self._task.task_id,
                self._state.phase,
                step,
                actor.status,
                actor.round,
                result.logs,
                gate.gate if gate else "",
                gate.passed if gate else None,
                gate.reasons if gate else (),
            )
        self._tell(record)

    def _tell(self, record: PhaseRecord) -> None:
        self._context.tell(record)


def _words(response: Response) -> str:
    return (response.input_value or response.comment or "").strip()
