"""Accepting a change: the gates first, then the user's word and the message of one commit."""

from __future__ import annotations

from coterie.errors import NotAccepted
from coterie.model.about import ChangeAcceptance
from coterie.model.code_change import CodePatch
from coterie.model.interaction import Ask, Option
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
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
        failed = self._failed(state)
        choice = message.choice if message else ""
        if choice in (REVERT, CODEGEN):
            said = message.content if message else ""
            return StepResult(patch=StatePatch(status="idle", reason=said), actions=(choice,))
        if message is not None and choice in (ACCEPT, OVERRIDE):
            return await self._take(state, message.content or self._title())
        given = self.services.settings.accept
        if given is not None and not failed and message is None:
            return await self._take(state, given)
        return await self._asked(state, failed)

    async def _take(self, state: PipelineState, text: str) -> StepResult:
        tree = self._gated_tree(state)

        async def take() -> object:
            return await self.git(lambda work: work.accept(text, tree or work.tree))

        context = self.services.context
        try:
            commit = str(await context.step(f"{self.name}/commit", [], take))
        except NotAccepted as refused:
            return await self._asked(state, self._failed(state), refused.problem)
        await self.git(PipelineWork.clear)
        overrides = [f"over {gate}: {why}" for gate, why in state.meta.overrides.items()]
        logs = (f"committed as {commit[:12]}", *overrides)
        return StepResult(patch=StatePatch(commit=commit), logs=logs)

    def _failed(self, state: PipelineState) -> tuple[str, ...]:
        gates = [phase.gate for phase in self.services.settings.graph.phases.values()]
        return tuple(gate for gate in gates if gate is not None and not state.passed(gate))

    def _gated_tree(self, state: PipelineState) -> str:
        """The tree that the last gate was decided on; empty where none looked at files."""
        trees = [gate.tree for gate in state.meta.gates.values() if gate.tree]
        return trees[-1] if trees else ""

    def _title(self) -> str:
        return self.services.task.goal.strip().partition("\n")[0][:_TITLE]

    async def _asked(
        self, state: PipelineState, failed: tuple[str, ...], problem: str = ""
    ) -> StepResult:
        patch = await self.read(state, "code.patch", CodePatch)
        size = patch.summary if patch else None
        summary = size_text(size) if size else ""
        tree = await self.git(lambda work: work.tree)
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
            patch=StatePatch(status=status, reason=reason),
            questions=(question,),
            actions=("ask_user",),
        )
