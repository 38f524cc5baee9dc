"""What the steps of a pipeline share: members by role, artifacts by name, the work, questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, TypeVar

import anyio.to_thread

from coterie.model import instant, step_name
from coterie.model.artifact import ArtifactData
from coterie.model.interaction import Ask, Option, Response
from coterie.model.pipeline_roles import PIPELINE_ROLES, FilledRoles
from coterie.model.pipeline_state import PipelineSettings, PipelineState, StepMessage, StepResult
from coterie.model.task import TaskCreated
from coterie.model.team import Member
from coterie.model.trajectory import StepCost
from coterie.model.update import TurnFailed, sum_of
from coterie.ports import Context, Sharing
from coterie.workflows.chat import STOP, answer_or_stop, failed_turn
from coterie.workflows.prompt_files import Prompts
from coterie.workflows.structured_turns import (
    HOW_TO_ANSWER,
    AnyModel,
    StructuredRequest,
    StructuredTurns,
    schema_of,
)
from coterie.workspace.artifact_folder import ArtifactFolder
from coterie.workspace.pipeline_work import PipelineWork
from coterie.workspace.role_prompts import RolePrompt, role_prompts

_PROMPTS = Path(__file__).with_name("prompts")
_SKIP = Option(id="skip", label="continue without it")
_RETRY = Option(id="retry", label="try again", style="primary")

AnyArtifact = TypeVar("AnyArtifact", bound=ArtifactData)
T = TypeVar("T")

if TYPE_CHECKING:
    from coterie.workflows.shared_branches import SharedBranches, SharedFiles
    from coterie.workspace.ticket_worktrees import TicketWorktrees


class PipelineServices:
    """What the steps of one pipeline share."""

    def __init__(self, task: TaskCreated, context: Context, settings: PipelineSettings) -> None:
        self.task: TaskCreated = task
        self.context: Context = context
        self.settings: PipelineSettings = settings
        filled = FilledRoles(task.team)
        self.roles: Mapping[str, Member] = {role: filled.member(role) for role in PIPELINE_ROLES}
        self.artifacts: ArtifactFolder = ArtifactFolder(context.root, task.session_id)
        self.turns: StructuredTurns = StructuredTurns(context)
        self.turns.taken = context.turns
        self.prompts: Prompts = Prompts()
        self.role_prompts: Mapping[str, RolePrompt] = {}
        self.work: PipelineWork | None = None
        """Where the change is made; None until the runner has opened it."""
        self._files: SharedFiles | None = None
        """Exchanges the session's files with other machines; None if the store is not shared."""

    async def open(self) -> None:
        """Read the prompts; those of roles may be the user's own."""
        self.prompts: Prompts = await anyio.to_thread.run_sync(Prompts.read, _PROMPTS)
        root = self.context.root
        self.role_prompts: Mapping[str, RolePrompt] = await anyio.to_thread.run_sync(
            role_prompts, root
        )

    async def measured(
        self, run: PipelineStepRun, state: PipelineState, message: StepMessage | None
    ) -> StepResult:
        """Run a step; return its result with the time it ended and what it used."""
        begun, turns, before = monotonic(), self.turns.taken, await self._spent()
        result = await run.step(state, message)
        if self.turns.taken > turns and not run.changes_files and self.work is not None:
            await anyio.to_thread.run_sync(self.work.restore)
        await self._share()
        after = await self._spent()
        cost = StepCost(
            turns=self.turns.taken - turns,
            input_tokens=max(after.input_tokens - before.input_tokens, 0),
            output_tokens=max(after.output_tokens - before.output_tokens, 0),
            usd=max(after.usd - before.usd, 0.0),
            duration_ms=round((monotonic() - begun) * 1000),
        )
        return result.model_copy(update={"ended_at": instant.now(), "cost": cost})

    async def take_in(self) -> None:
        """Fetch what other machines have done so far."""
        sharing, work = self.context.sharing, self.work
        if sharing is None or work is None:
            return
        from coterie.workflows.shared_branches import SharedFiles

        worktrees = work.worktrees
        self._files = SharedFiles(sharing, worktrees.root, worktrees.session)
        await self._files.take_in()
        branches = self._branches(sharing, worktrees)
        if not await branches.take_in_all():
            await branches.send_base()

    async def _share(self) -> None:
        """Send what a step did, before the step is recorded."""
        sharing, work = self.context.sharing, self.work
        if sharing is None or work is None or self._files is None:
            return
        await self._files.send()
        branches = self._branches(sharing, work.worktrees)
        await branches.send_if_there(work.worktrees.approved)

    def _branches(self, sharing: Sharing, worktrees: TicketWorktrees) -> SharedBranches:
        from coterie.workflows.shared_branches import SharedBranches

        timeout = self.task.scheduler.time_limits.work * 60
        return SharedBranches(sharing, worktrees, timeout, self.context.tell)

    async def _spent(self) -> StepCost:
        used = sum_of((await self.context.spent()).values())
        if used is None:
            return StepCost()
        return StepCost(
            input_tokens=used.input_tokens or 0,
            output_tokens=used.output_tokens or 0,
            usd=used.cost_usd or 0.0,
        )

    async def ask_user(self, name: str, question: Ask) -> Response:
        """Return the user's answer; if they chose to stop, a later run asks again."""
        for tries in count(1):
            step = name if tries == 1 else f"{name}/{tries}"
            answer = await answer_or_stop(self.context, step, question)
            if answer.response.selected_option_id != STOP.id:
                return answer.response
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class PipelineStepRun:
    """One run of a pipeline step; each step is a subclass."""

    services: PipelineServices
    name: str
    """The step's name in the journal; everything done in it has a name below this."""
    tries: int | None = None
    """How often an agent may fail before that is the result; None: as often as in other turns."""
    changes_files: ClassVar[bool] = False
    """Whether what members leave in the folder is part of the change."""
    uses_words: ClassVar[bool] = False
    """Whether what people say changes what is done here; else later steps read it too."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Run the step; `message` is what the user said, or why it is run again."""
        raise NotImplementedError

    @property
    def number(self) -> int:
        """Which run of the step this is, counted from 1: it is run again after every answer."""
        own = step_name.parse(self.name).pipeline
        return own.number if own else 1

    @property
    def work(self) -> PipelineWork:
        work = self.services.work
        assert work is not None, "opened before any step"
        return work

    async def git(self, call: Callable[[PipelineWork], T]) -> T:
        """Call a function with the work, in a thread."""
        return await anyio.to_thread.run_sync(call, self.work)

    async def ask(
        self,
        role: str,
        wanted: type[AnyModel],
        facts: Mapping[str, object],
        *,
        prompt: str = "",
        folder: Path | None = None,
    ) -> AnyModel | TurnFailed:
        """Ask the member in a role, with the prompt of that name or else the role's own."""
        prompt = prompt or role
        services = self.services
        who = services.role_prompts[role].text.strip()
        text = services.prompts.filled(prompt, goal=services.task.goal, **facts)
        full_prompt = f"{who}\n\n{text}\n\n{_shape(wanted)}"
        request = StructuredRequest(full_prompt, wanted, prompt, self.tries, role)
        # Nobody works in the user's own tree, not even to read it.
        member = self.member(role, folder or await self.git(PipelineWork.open))
        name = step_name.ask(self.name, role, prompt)
        return await services.turns.ask(name, member, request)

    async def need(
        self, role: str, wanted: type[AnyModel], facts: Mapping[str, object], *, prompt: str = ""
    ) -> AnyModel:
        """The same for a role that cannot be skipped: if it fails, the user is asked."""
        reply = await self.ask(role, wanted, facts, prompt=prompt)
        for tries in count(2):
            if not isinstance(reply, TurnFailed):
                return reply
            await self._after_failure(role, prompt or role, reply, tries - 1, (_RETRY, STOP))
            again = PipelineStepRun(self.services, step_name.ask_again(self.name, role, tries))
            reply = await again.ask(role, wanted, facts, prompt=prompt)
        raise AssertionError("unreachable")

    async def retried(self, role: str, failed: TurnFailed, number: int) -> bool:
        """Whether the user wants a role that could be skipped to try again."""
        choice = await self._after_failure(role, role, failed, number, (_RETRY, _SKIP, STOP))
        return choice == _RETRY.id

    async def _after_failure(
        self, role: str, what: str, failed: TurnFailed, number: int, options: tuple[Option, ...]
    ) -> str:
        question = failed_turn(self.services.roles[role], failed, number, options)
        name = f"{self.name}/failed/{role}/{what}/{number}"
        return (await self.services.ask_user(name, question)).choice

    def member(self, role: str, folder: Path) -> Member:
        """Return the member in a role, set up to work in a folder."""
        member = self.services.roles[role]
        minutes = self.services.task.scheduler.time_limits.work
        limit = member.timeout_ms or round(minutes * 60_000)
        own = {"execution_dir": str(folder), "work": "link", "timeout_ms": limit}
        return member.model_copy(update=own)

    async def write(
        self, name: str, content: ArtifactData | Sequence[ArtifactData] | str, **parts: str
    ) -> dict[str, str]:
        """Write an artifact by its declared name; return its file, for the state."""
        folder = self.services.artifacts
        return await anyio.to_thread.run_sync(lambda: folder.write(name, content, **parts))

    async def read(
        self, state: PipelineState, name: str, wanted: type[AnyArtifact]
    ) -> AnyArtifact | None:
        """Return an artifact that the state lists; None if it has none of that name."""
        if name not in state.files:
            return None
        folder, files = self.services.artifacts, state.files
        return await anyio.to_thread.run_sync(folder.read, files, name, wanted)

    async def text(self, state: PipelineState, name: str) -> str:
        """The same as text; empty if there is none."""
        if name not in state.files:
            return ""
        return await anyio.to_thread.run_sync(self.services.artifacts.text, state.files, name)


def _shape(wanted: type[AnyModel]) -> str:
    schema = json.dumps(schema_of(wanted), ensure_ascii=False)
    return f"{HOW_TO_ANSWER} It must fit this JSON Schema:\n{schema}"
