"""The steps of a probe: a task in which a CLI is prompted, interrupted and resumed."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal, TypeVar, get_args

import anyio

from coterie.app.open_project import OpenProject
from coterie.app.run import StartRequest
from coterie.errors import CoterieError
from coterie.model.agent import ShellTool
from coterie.model.interaction import Interaction
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
)
from coterie.model.task import Caps
from coterie.model.team import YOU, Team
from coterie.rehearsal import model_api as api
from coterie.rehearsal.server import RehearsalServer

Step = Literal["start", "turn", "tool", "permission", "interrupt", "resume"]
STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(frozen=True)
class ProbeStepResult:
    """The outcome of one step of a probe."""

    step: Step
    outcome: Literal["ok", "failed", "not tried"]
    detail: str
    """What was seen or what went wrong, as a clause."""
    ms: int = 0


@dataclass(frozen=True)
class ProbeResult:
    """What one CLI, in one version, can do."""

    name: str
    version: str | None
    tested: str | None
    """The version that Coterie's own tests run; None for an unknown program."""
    steps: tuple[ProbeStepResult, ...]
    install: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything worked."""
        return not self.failures

    @property
    def failures(self) -> tuple[ProbeStepResult, ...]:
        """The steps that failed."""
        return tuple(tried for tried in self.steps if tried.outcome == "failed")

    @property
    def message(self) -> str | None:
        """What is wrong with this version, in a sentence; None if nothing is."""
        if self.ok:
            return None
        at = ", ".join(f'"{tried.step}"' for tried in self.failures)
        who = f"{self.name} {self.version or '(unknown version)'}"
        if self.tested and self.version != self.tested:
            return f"{who} is untested (tested: {self.tested}) and failed the probe at {at}."
        return f"{who} failed the probe at {at}."

    @property
    def hint(self) -> str | None:
        """How to install a version that works, if that may help."""
        return None if self.ok or self.version == self.tested else self.install


T = TypeVar("T")


class StepFailed(Exception):
    """A step failed; the reason is worded to end a sentence."""


class ProbeModel:
    """Answers a prompt with `next`, and tool results with one word."""

    def __init__(self) -> None:
        self.next: api.Answer = api.reply("Yes.")

    async def answer(self, request: api.CompletionRequest) -> api.Answer:
        """Answer as the current step requires."""
        return api.reply("Done.") if request.results else self.next


class ProbeTask:
    """The task of a probe, its run, and the records that come from it."""

    def __init__(
        self, app: OpenProject, server: RehearsalServer, model: ProbeModel, team: Team
    ) -> None:
        self.app = app
        self.server = server
        self._model = model
        self._team = team
        self.task = ""
        self.trouble = ""
        """The last error reported: more telling than a timeout."""

    async def begin(self) -> None:
        """Start a new task, which waits for the first prompt."""
        caps = Caps(max_rounds=1, floor="ask")
        self.task: str = await self.app.create(StartRequest(self._team, "", caps, rehearsal=True))
        self.run()

    def run(self) -> None:
        """Run the task from where it stopped."""
        self.trouble: str = ""
        self._records = self.app.stream(self.task)

    async def end(self) -> None:
        """End the run and all its processes; the task is kept."""
        await self._records.aclose()

    async def wait_for(self, wanted: Callable[[Record], T | None]) -> T:
        """Return the first result of `wanted` for the records that follow."""
        async for record in self._records:
            if isinstance(record, ErrorRecord):
                self.trouble = record.message
            problem = _cannot_speak(record)
            if problem is not None:
                raise StepFailed(problem)
            result = wanted(record)
            if result is not None:
                return result
        raise StepFailed(self.trouble or "the task ended early")

    async def say(self, word: str, answer: api.Answer) -> None:
        """Have the member take a turn on this prompt, with this answer from its model."""
        await self.wait_for(_our_turn)
        self._model.next = answer
        await self.app.say(self.task, word)


def _question(record: Record) -> Interaction | None:
    if isinstance(record, InteractionRecord) and record.state == "open":
        return record.interaction
    return None


def _cannot_speak(record: Record) -> str | None:
    """Return the problem if the engine asks what to do about a member that failed for good."""
    question = _question(record)
    return question.display.description if question and question.kind == "Select" else None


def _our_turn(record: Record) -> Interaction | None:
    question = _question(record)
    return question if question and question.kind == "Input" else None


def is_opened(record: Record) -> MemberRecord | None:
    """Return the record if the member is working: its channel has opened."""
    if isinstance(record, MemberRecord) and record.member != YOU and record.state == "working":
        return record
    return None


def replied(record: Record) -> MessageRecord | None:
    """Return the record if the member replied or was cut short."""
    return record if isinstance(record, MessageRecord) and record.member != YOU else None


def replied_or_asked(record: Record) -> MessageRecord | Interaction | None:
    """Like `replied`, or return the question if the member asks for permission."""
    question = _question(record)
    return question if question and question.purpose == "confirm_risky_action" else replied(record)


NEEDED: tuple[Step, ...] = ("start", "turn")
"""Steps without which none of the later ones can be tried."""
TIMEOUT = 20.0
"""Seconds allowed per step: a cold start of the slowest CLI takes five."""


FOLDER = "coterie-probe-"
"""Prefix of the name of a probe's folder."""
_OUR_FOLDER = re.compile(rf" \(in [^)]*{FOLDER}[^)]*\)")


class Steps:
    """The steps, in order; after one fails, the next begins on a new task."""

    def __init__(self, task: ProbeTask, shell: ShellTool) -> None:
        self._task = task
        self._shell = shell
        self._word = f"heliotrope-{secrets.token_hex(4)}"

    async def all_steps(self, tell: Callable[[Step], None]) -> tuple[ProbeStepResult, ...]:
        """Try all the steps, as far as possible."""
        tries: Mapping[Step, Callable[[], Awaitable[str]]] = {
            "start": self._start,
            "turn": self._turn,
            "tool": self._tool,
            "permission": self._permission,
            "interrupt": self._interrupt,
            "resume": self._resume,
        }
        tried: list[ProbeStepResult] = []
        await self._task.begin()
        try:
            for step in STEPS:
                tell(step)
                tried.append(await self._tried(step, tries[step]))
                if tried[-1].outcome == "ok":
                    continue
                if step in NEEDED:
                    break
                await self._task.end()
                await self._task.begin()
        finally:
            await self._task.end()
        untried = f"the step {tried[-1].step} failed"
        return (
            *tried,
            *(ProbeStepResult(step, "not tried", untried) for step in STEPS[len(tried) :]),
        )

    async def _tried(self, step: Step, attempt: Callable[[], Awaitable[str]]) -> ProbeStepResult:
        began = monotonic()

        def ended(outcome: Literal["ok", "failed"], detail: str) -> ProbeStepResult:
            # The folder is gone by the time this is read.
            detail = _OUR_FOLDER.sub("", detail)
            return ProbeStepResult(step, outcome, detail, round((monotonic() - began) * 1000))

        with anyio.move_on_after(TIMEOUT):
            try:
                return ended("ok", await attempt())
            except (StepFailed, CoterieError) as error:
                return ended("failed", str(error))
        late, trouble = f"did not finish within {TIMEOUT:g} s", self._task.trouble
        return ended("failed", f"{late}: {trouble}" if trouble else late)

    async def _start(self) -> str:
        await self._task.say("Which word?", api.reply(f"My word is {self._word}."))
        await self._task.wait_for(is_opened)
        return "its channel opened"

    async def _turn(self) -> str:
        reply = await self._task.wait_for(replied)
        if self._word not in reply.text:
            raise StepFailed("the reply is not what its model said")
        return "the reply of its model came back"

    async def _tool(self) -> str:
        file, call = self._making("tool")
        await self._take("Make a file.", call, "approve", file)
        if not await file.exists():
            raise StepFailed("its shell tool did not make the file")
        return "its shell tool made a file"

    async def _permission(self) -> str:
        for choice in ("reject", "approve"):
            file, call = self._making(choice)
            if not await self._take("Make another file.", call, choice, file):
                raise StepFailed("it ran a command without asking")
            if await file.exists() != (choice == "approve"):
                raise StepFailed(f"the answer {choice} was ignored")
        return "it asked, and respected the answer"

    async def _interrupt(self) -> str:
        task = self._task
        number = len(task.server.turns) + 1
        await task.say("Think for long.", api.NoReply())
        await task.server.turn(number)
        await task.app.interrupt(task.task)
        if not (await task.wait_for(replied)).cut:
            raise StepFailed("the turn was not interrupted")
        await task.say("Are you there?", api.reply(f"I am, {self._word}."))
        reply = await task.wait_for(replied)
        if reply.cut or self._word not in reply.text:
            raise StepFailed("the turn after the interrupted one did not work")
        return "the turn was interrupted, and the next one worked"

    async def _resume(self) -> str:
        task, word = self._task, f"{self._word}-kept"
        await task.say("Which word do you keep?", api.reply(f"I keep {word}."))
        await task.wait_for(replied)
        await task.wait_for(_our_turn)
        await task.end()
        task.run()
        await task.say("Which one was it?", api.reply("You know it."))
        await task.wait_for(replied)
        request = task.server.turns[-1].asked
        messages = (
            [item for item in request.conversation if isinstance(item, api.TextMessage)]
            if request
            else []
        )
        if not any(word in item.text for item in messages):
            raise StepFailed("its model was not sent the earlier conversation again")
        return "a new process still knew the earlier conversation"

    def _making(self, name: str) -> tuple[anyio.Path, api.ModelReply]:
        """Return a file that does not exist, and a model reply that asks to create it."""
        path = self._task.app.root / f"made-{name}-{secrets.token_hex(4)}.txt"
        return anyio.Path(path), api.ModelReply(
            (), (self._call(f"touch {shlex.quote(str(path))}"),)
        )

    def _call(self, command: str) -> api.ToolCall:
        shell = self._shell
        return api.ToolCall(shell.name, {shell.command: command, **shell.arguments})

    async def _take(self, word: str, answer: api.Answer, choice: str, file: anyio.Path) -> int:
        """Take a turn, answering every permission question with `choice`; return how many came."""
        task, questions = self._task, 0
        await task.say(word, answer)
        while isinstance(outcome := await task.wait_for(replied_or_asked), Interaction):
            questions += 1
            if await file.exists():
                raise StepFailed("it ran the command before the question was answered")
            await task.app.answer(outcome.interaction_id, choice=choice, text=None, author=YOU)
        return questions
