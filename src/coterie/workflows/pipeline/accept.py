"""Accepting a change: the gates first, then the user's word and the message of one commit."""

from __future__ import annotations

from coterie.errors import NotAccepted
from coterie.model.about import ChangeAcceptance
from coterie.model.code_change import CodePatch
from coterie.model.interaction import Ask, Option
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.test_files import is_test
from coterie.workflows.chat import STOP
from coterie.workflows.pipeline.codegen import size_text
from coterie.workflows.pipeline.services import COTERIE, PipelineStepRun
from coterie.workspace.pipeline_work import PipelineWork

ACCEPT, OVERRIDE, REVERT, CODEGEN = "accept", "override", "revert", "codegen"
_TITLE = 72


class AcceptStep(PipelineStepRun):
    """Two stages: whether it may be taken, and taking it."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """The commit; before that the question, unless the answer was given at the start."""
        choice = message.choice if message else ""
        if choice in (REVERT, CODEGEN):
            said = message.content if message else ""
            return StepResult(patch=StatePatch(status="idle", reason=said), actions=(choice,))
        tree = await self.git(lambda work: work.tree)
        failed = await self._failed(state, tree)
        if message is not None and choice in (ACCEPT, OVERRIDE) and self.number > 1:
            # Bound to what the user saw: another tree is refused.
            text = message.content or state.meta.message or self._title()
            over = failed if choice == OVERRIDE else ()
            return await self._take(state, text, state.meta.tree, over)
        given = self._given(state, message)
        if given and not failed:
            return await self._take(state, given, tree)
        asked = await self._asked(state, tree, failed)
        said = message.content if message and message.sender == "user" else ""
        patch = asked.patch.model_copy(update={"message": said})
        return asked.model_copy(update={"patch": patch})

    def _given(self, state: PipelineState, message: StepMessage | None) -> str | None:
        """The message with which the user has said yes before the gates were looked at."""
        if message is not None and message.sender == "user":
            return message.content if message.choice == ACCEPT else None
        # What was said at the start is never meant for a gate that failed.
        passed = all(gate.passed for gate in state.meta.gates.values())
        return self.services.settings.accept if passed else None

    async def _take(
        self, state: PipelineState, text: str, tree: str, over: tuple[str, ...] = ()
    ) -> StepResult:
        """Commit it, `over` gates that failed where the user said so."""

        async def take() -> object:
            return await self.git(lambda work: work.accept(text, tree))

        try:
            commit = str(await self.services.context.step(f"{self.name}/commit", [], take))
        except NotAccepted as refused:
            now = await self.git(lambda work: work.tree)
            return await self._asked(state, now, await self._failed(state, now), refused.problem)
        await self.git(PipelineWork.clear)
        why = "the user committed it all the same"
        overrides = {**state.meta.overrides, **dict.fromkeys(over, why)}
        told = [f"over {gate}: {why}" for gate, why in overrides.items()]
        patch = StatePatch(commit=commit, overrides=overrides)
        return StepResult(patch=patch, logs=(f"committed as {commit[:12]}", *told))

    async def _failed(self, state: PipelineState, tree: str) -> tuple[str, ...]:
        """Gates that are not passed, or were on other files than these."""
        found: list[str] = []
        for phase in self.services.settings.graph.phases.values():
            gate = phase.gate
            if gate is not None and not (
                state.passed(gate) and await self._holds(state, gate, tree)
            ):
                found.append(gate)
        return tuple(found)

    async def _holds(self, state: PipelineState, gate: str, tree: str) -> bool:
        """Whether a gate was decided on these files; tests may be written after the review."""
        decided = state.meta.gates[gate].tree
        if decided in ("", tree):
            return True
        since = await self.git(lambda work: work.changed(decided))
        return gate == "review" and all(is_test(one.path) for one in since)

    def _title(self) -> str:
        return self.services.task.goal.strip().partition("\n")[0][:_TITLE]

    async def _asked(
        self, state: PipelineState, tree: str, failed: tuple[str, ...], problem: str = ""
    ) -> StepResult:
        patch = await self.read(state, "code.patch", CodePatch)
        size = patch.summary if patch else None
        summary = size_text(size) if size else ""
        accept = Option(id=ACCEPT, label="commit it", style="primary", detail="with what you say")
        if failed:
            accept = Option(id=OVERRIDE, label="commit it all the same", style="danger")
        question = Ask(
            COTERIE,
            "Composite",
            ChangeAcceptance(summary=summary, tree=tree, failed=failed, problem=problem),
            options=(
                accept,
                Option(id=CODEGEN, label="send it back", detail="with what you say"),
                Option(id=REVERT, label="take the work back"),
                STOP,
            ),
            content=await self.git(PipelineWork.diff),
            content_kind="Diff",
            intent=[tree, problem],
        )
        status = "failed" if failed or problem else "in_progress"
        reason = problem or (f"not passed: {', '.join(failed)}" if failed else "")
        return StepResult(
            patch=StatePatch(status=status, reason=reason, tree=tree),
            questions=(question,),
            actions=("ask_user",),
        )
