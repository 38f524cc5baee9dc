"""Accepting a change: first the gates, then the user's approval and the message of one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from coterie.errors import NotAccepted
from coterie.model.about import ChangeAcceptance
from coterie.model.code_change import CodePatch
from coterie.model.interaction import COTERIE, Ask, Option
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.task import title_of
from coterie.model.test_files import is_test
from coterie.workflows.chat import STOP
from coterie.workflows.pipeline.codegen import size_text
from coterie.workflows.pipeline.evaluation import RunTestsStep
from coterie.workflows.pipeline.services import PipelineStepRun
from coterie.workspace.pipeline_work import PipelineWork

ACCEPT, OVERRIDE = "accept", "override"
REVERT: Final = "revert"
CODEGEN: Final = "codegen"
RECHECK = "recheck"
COMMITTING = (ACCEPT, OVERRIDE, RECHECK)
"""Answers after which a change is committed."""
_TESTS = "tests"
_TITLE = 72


class AcceptStep(PipelineStepRun):
    """Works in two stages: check whether the change may be accepted, then commit it."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Commit the change; ask first, unless the answer was given at the start."""
        result = await self._decided(state, message)
        words = message.said if message else ""
        asked = tuple(_with_words(one, words) for one in result.questions)
        return result.model_copy(update={"questions": asked})

    async def _decided(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        choice = message.choice if message else ""
        if choice in (REVERT, CODEGEN):
            comment = message.content if message else ""
            if choice == CODEGEN:
                comment = "\n".join(filter(None, (comment, await self._handed_over())))
            patch = StatePatch(status="idle", reason=comment)
            return StepResult(patch=patch, actions=(choice,), command=choice)
        if message is not None and choice == RECHECK:
            return await self._recheck(state, message)
        tree = await self.git(lambda work: work.tree)
        failed = await self._failed(state, tree)
        if message is not None and choice in (ACCEPT, OVERRIDE) and self.number > 1:
            # Bound to what the user saw: another tree is refused.
            text = self._commit_message(state, message)
            over = failed if choice == OVERRIDE else ()
            return await self._take(state, text, state.meta.tree, over)
        commit_message = self._approved_message(state, message)
        if commit_message and not failed:
            return await self._take(state, commit_message, tree)
        result = await self._asked(state, tree, failed)
        patch = result.patch.model_copy(update={"message": commit_message or ""})
        return result.model_copy(update={"patch": patch})

    async def _recheck(self, state: PipelineState, message: StepMessage) -> StepResult:
        """Bring the change onto the user's branch as it is now, test that, and commit it if it
        passes: that is what the user approved."""
        text = self._commit_message(state, message)

        async def before() -> object:
            tree = await self.git(lambda work: work.tree)
            gates = state.meta.gates
            return {"tree": tree, "held": [g for g in gates if await self._holds(state, g, tree)]}

        # Recorded before anything moves: which gates were decided on this very change.
        step = self.services.context.step
        known = cast("dict[str, Any]", await step(f"{self.name}/before", [], before))
        try:
            self._require_own_clone()
            await step(f"{self.name}/onto", [], lambda: self._onto(known["tree"]))
        except NotAccepted as refused:
            failed = await self._failed(state, known["tree"])
            return await self._asked(state, known["tree"], failed, refused.problem)
        self.services.work = await self.git(PipelineWork.current)
        tree = await self.git(lambda work: work.tree)
        patch = StatePatch(tree=tree, trees=dict.fromkeys(known["held"], tree), message=text)
        if any(one.gate == _TESTS for one in self.services.settings.graph.phases.values()):
            tested = await RunTestsStep(self.services, f"{self.name}/again").tested(
                state, debrief=False
            )
            fields = {"gate": tested.patch.gate, "artifacts": tested.patch.artifacts}
            patch = patch.model_copy(update=fields)
        after = state.after("accept", patch)
        failed = await self._failed(after, tree)
        result = await (
            self._asked(after, tree, failed) if failed else self._take(after, text, tree)
        )
        own = {"status": result.patch.status, "reason": result.patch.reason}
        last = {"commit": result.patch.commit, "tree": result.patch.tree or tree}
        return result.model_copy(update={"patch": patch.model_copy(update={**own, **last})})

    async def _handed_over(self) -> str:
        """Bring the change onto the user's branch as it is now, for the coder to continue there;
        return a note about conflicts to resolve."""

        async def onto() -> object:
            if not await self.git(lambda work: work.is_behind):
                return []
            try:
                tree = await self.git(lambda work: work.tree)
                await self.git(lambda work: work.bring_onto_branch(tree, marked=True))
            except NotAccepted:  # nothing was changed: the coder continues on the old base
                return []
            return list(await self.git(lambda work: work.current().unresolved()))

        unresolved = await self.services.context.step(f"{self.name}/handed-over", [], onto)
        self.services.work = await self.git(PipelineWork.current)
        files = ", ".join(cast("list[str]", unresolved))
        return f"Both versions are between conflict markers in: {files}" if files else ""

    async def _onto(self, tree: str) -> object:
        await self.git(lambda work: work.bring_onto_branch(tree))
        return tree

    def _approved_message(self, state: PipelineState, message: StepMessage | None) -> str | None:
        """Return the commit message if the user approved before the gates were checked."""
        if message is not None and message.choice == ACCEPT:
            return message.content
        if message is not None and message.said:
            return None  # they may want something else
        # An approval given at the start never covers a gate that failed.
        passed = all(gate.passed for gate in state.meta.gates.values())
        return self.services.settings.accept if passed else None

    async def _take(
        self, state: PipelineState, text: str, tree: str, over: tuple[str, ...] = ()
    ) -> StepResult:
        """Commit the change; `over` are failed gates that the user overrides."""

        async def take() -> object:
            self._require_own_clone()
            return await self.git(lambda work: work.accept(text, tree))

        try:
            commit = str(await self.services.context.step(f"{self.name}/commit", [], take))
        except NotAccepted as refused:
            now = await self.git(lambda work: work.tree)
            failed = await self._failed(state, now)
            result = await self._asked(state, now, failed, refused.problem)
            patch = result.patch.model_copy(update={"message": text})
            return result.model_copy(update={"patch": patch})
        await self.git(PipelineWork.clear)
        why = "the user committed it anyway"
        overrides = {**state.meta.overrides, **dict.fromkeys(over, why)}
        notes = [f"gate {gate} overridden: {why}" for gate, why in overrides.items()]
        patch = StatePatch(commit=commit, message=text, overrides=overrides)
        return StepResult(patch=patch, logs=(f"committed as {commit[:12]}", *notes))

    def _require_own_clone(self) -> None:
        sharing, task_id = self.services.context.sharing, self.services.task.task_id
        if sharing is not None and sharing.for_others:
            problem = (
                f"{sharing.machine} only works for other machines: accept it on the machine "
                "that should have the commit"
            )
            raise NotAccepted(task_id, problem, f"coterie accept {task_id}")

    async def _failed(self, state: PipelineState, tree: str) -> tuple[str, ...]:
        """Return the gates that did not pass, or were decided on different files."""
        gates: list[str] = []
        for phase in self.services.settings.graph.phases.values():
            gate = phase.gate
            if gate is not None and not (
                state.passed(gate) and await self._holds(state, gate, tree)
            ):
                gates.append(gate)
        return tuple(gates)

    async def _holds(self, state: PipelineState, gate: str, tree: str) -> bool:
        """Whether a gate was decided on these files; tests may still be added after the review."""
        decided = state.meta.gates[gate].tree
        if decided in ("", tree):
            return True
        since = await self.git(lambda work: work.changed(decided))
        return gate == "review" and all(is_test(one.path) for one in since)

    def _commit_message(self, state: PipelineState, message: StepMessage) -> str:
        given = message.content or state.meta.message or self.services.settings.accept
        return given or self._title()

    def _title(self) -> str:
        return title_of(self.services.task.goal, _TITLE)

    async def _asked(
        self, state: PipelineState, tree: str, failed: tuple[str, ...], problem: str = ""
    ) -> StepResult:
        patch = await self.read(state, "code.patch", CodePatch)
        size = patch.summary if patch else None
        behind = await self.git(lambda work: work.is_behind)
        about = ChangeAcceptance(
            summary=size_text(size) if size else "",
            tree=tree,
            failed=failed,
            problem=problem,
            behind=behind,
        )
        question = Ask(
            COTERIE,
            "Composite",
            about,
            options=(
                *_commit_options(failed, is_behind=behind),
                Option(id=CODEGEN, label="send it back", detail="with your comment"),
                Option(id=REVERT, label="revert the work"),
                STOP,
            ),
            content=await self.git(PipelineWork.diff),
            content_kind="Diff",
            intent=[tree, problem],
        )
        status = "failed" if failed or problem else "in_progress"
        reason = problem or (f"failed: {', '.join(failed)}" if failed else "")
        return StepResult(
            patch=StatePatch(status=status, reason=reason, tree=tree),
            questions=(question,),
            actions=("ask_user",),
        )


def _with_words(question: Ask, words: str) -> Ask:
    """Return a question with what people said meanwhile, which no other step has used."""
    if not isinstance(question.about, ChangeAcceptance):
        return question
    return replace(question, about=question.about.model_copy(update={"said": words}))


def _commit_options(failed: tuple[str, ...], *, is_behind: bool) -> list[Option]:
    """Return the options that commit a change."""
    passes = "commit if that passes"
    if is_behind:
        detail = f"your branch has moved: test on its current state, and {passes}"
        return [Option(id=RECHECK, label="test it again", style="primary", detail=detail)]
    if not failed:
        detail = "with your comment"
        return [Option(id=ACCEPT, label="commit it", style="primary", detail=detail)]
    over = Option(id=OVERRIDE, label="commit it anyway", style="danger")
    # The failure may be the machine's fault, or have been fixed outside the change.
    again = Option(id=RECHECK, label="test it again", detail=f"unchanged, and {passes}")
    return [over, again] if _TESTS in failed else [over]
