"""The tool calls of a turn: asked about where needed, made, and told of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pydantic import Field

from coterie.agents.builtin.conversation import (
    UNKNOWN,
    Begun,
    ModelTrouble,
    Returned,
    ToolCallRequest,
)
from coterie.agents.builtin.services import Answers, Breaker, TurnServices
from coterie.agents.builtin.thread import BuiltinThread, Pending
from coterie.agents.fields import LONGEST_SAID, strings
from coterie.agents.questions import choices_of, information, permission
from coterie.model.interaction import REJECT, Display, Response
from coterie.model.redaction import MASK
from coterie.model.tool_call import Action
from coterie.model.update import (
    Asked,
    Delegated,
    PendingCall,
    Remembered,
    ToolCallFinished,
    ToolCallStarted,
    TurnFailed,
    Update,
)
from coterie.tools.toolbox import PreparedCall, Tool, ToolInput, ToolOutcome, Utf8Text


class AskUserInput(ToolInput):
    """Ask the person something that you must know and cannot find out. Waits for the answer."""

    question: Utf8Text = Field(
        min_length=1, description="The question, with all one needs to answer."
    )
    options: list[Utf8Text] = Field(
        default=[], max_length=9, description="The answers to choose from, where there are few."
    )


class AssignSubtaskInput(ToolInput):
    """Hand a part of the work to another member of the team and wait for what it reports. The
    person decides who does it. The other knows nothing but the goal that you write."""

    goal: Utf8Text = Field(
        min_length=1, description="What is to be done, with all that the other must know."
    )
    member: Utf8Text = Field("", description="The id of who should do it, where you know.")


_Input = TypeVar("_Input", bound=ToolInput)


@dataclass(frozen=True)
class _TurnTool(Tool[_Input]):
    """A tool that the turn serves itself; it touches nothing."""

    def action(self, asked: _Input, cwd: str) -> Action:
        return Action("read", self.name, cwd)

    async def run(self, asked: _Input) -> ToolOutcome:
        return ToolOutcome.refused(f"{self.name} works only in a turn.")


@dataclass(frozen=True)
class AskUser(_TurnTool[AskUserInput]):
    """Asks the person; the answer is the result."""

    name = "askUser"
    inputs = AskUserInput


@dataclass(frozen=True)
class AssignSubtask(_TurnTool[AssignSubtaskInput]):
    """Hands a part of the work to another member; what it says at the end is the result."""

    name = "assignSubtask"
    inputs = AssignSubtaskInput


def refused(response: Response | None) -> ToolOutcome:
    """What the model is told of a no."""
    word = response.comment or response.input_value if response is not None else None
    if response is None or (response.selected_option_id is None and not word):
        return ToolOutcome.not_run("Nobody answered, so the answer is no. It was not run.")
    why = f": {word}" if word else "."
    return ToolOutcome.not_run(f"It was not run; the answer was no{why}")


def question(request: ToolCallRequest, given: Mapping[str, object]) -> Asked:
    """What the model wants to know from the person."""
    # By the id of the call: after a crash it is the same question.
    key, display = f"ask.{request.id}", Display(title=str(given["question"]))
    return information(key, display, choices_of(strings(given.get("options"))))


def answer_to(asked: Asked, response: Response | None) -> ToolOutcome:
    """What the person said, as the result of the call."""
    labels = {option.id: option.label for option in asked.options}
    said, comment = None, None
    if response is not None:
        chosen = labels.get(response.selected_option_id or "")
        said, comment = chosen if labels else response.input_value, response.comment
    if not said:
        return ToolOutcome.refused("Nobody answered.")
    return ToolOutcome({"answer": said, "comment": comment} if comment else {"answer": said})


REPEATED = 5
"""The same call so often in a row is not made again."""
_UNKNOWN: Mapping[str, object] = {
    "outcome": UNKNOWN,
    "error": "Coterie was cut off while this ran: it may have run wholly, in part or not at all. "
    "It was not run again. Look at the state of things before you do anything about it.",
}
_BROKEN_OFF = "The user broke the turn off while this ran; what it had done by then is done."
_BROKEN_OFF_BEFORE = "It was not run: the user broke the turn off."
_LEFT = "It was not run: the turn ended before."
_NOT_KEPT = "It was not run: it held a secret, which is not kept. Make the call again."
_AGAIN = (
    "You have made this same call {count} times in a row, so it was not made again. "
    "Its result will not change: do something else, or say what keeps you from going on."
)


@dataclass
class BuiltinCalls:
    """Serves the calls of one turn."""

    _services: TurnServices
    _thread: BuiltinThread
    _breaker: Breaker
    _answers: Answers
    _checks: dict[str, PreparedCall | ToolOutcome] = field(default_factory=dict[str, Any])
    """By id: calls that were looked at when they were put on record."""

    def started(self, request: ToolCallRequest) -> ToolCallStarted:
        """A call as the audit has it, before anything is done about it."""
        checked = self._checks[request.id] = self._checked(request)
        effect = checked.action.effect if isinstance(checked, PreparedCall) else "read"
        return ToolCallStarted(request.id, request.name, request.arguments, effect)

    def serve(self, pending: Pending, *, resumed: bool) -> AsyncGenerator[Update]:
        """Give a call of the last reply its result.

        `resumed`: the reply is from before a crash, so what has begun is unknown and what has not
        is known not to have.
        """
        request = pending.request
        if pending.begun:
            return self._told(request, ToolOutcome(_UNKNOWN, is_error=True))
        checked = self._checks.pop(request.id, None) or self._checked(request)
        checked = self._repeated(request) or checked
        if resumed and MASK.search(str(request.arguments)):
            checked = ToolOutcome.not_run(_NOT_KEPT)
        if isinstance(checked, ToolOutcome):
            return self._told(request, checked)
        match checked.tool:
            case AskUser():
                return self._ask(request, checked)
            case AssignSubtask():
                return self._hand_out(request, checked)
            case _:
                return self._use(request, checked, resumed=resumed)

    def broken_off(self) -> list[Remembered]:
        """The results of calls that the user broke off."""
        return self._without_end(ToolOutcome.refused(_BROKEN_OFF), _BROKEN_OFF_BEFORE)

    def left_over(self) -> list[Remembered]:
        """The results of calls of an earlier turn that never came to its end."""
        return self._without_end(ToolOutcome(_UNKNOWN, is_error=True), _LEFT)

    def _without_end(self, begun: ToolOutcome, otherwise: str) -> list[Remembered]:
        return [
            self._ended(one.request, begun if one.begun else ToolOutcome.not_run(otherwise))
            for one in self._thread.pending()
        ]

    def _ended(self, request: ToolCallRequest, outcome: ToolOutcome) -> Remembered:
        finished = ToolCallFinished(request.id, outcome.is_error, outcome.output, request.name)
        entry = Returned(request.id, outcome.output, outcome.is_error)
        return self._thread.remember(entry, calls=(finished,))

    async def _told(self, request: ToolCallRequest, outcome: ToolOutcome) -> AsyncGenerator[Update]:
        yield self._ended(request, outcome)

    def _checked(self, request: ToolCallRequest) -> PreparedCall | ToolOutcome:
        if request.problem:
            return ToolOutcome.not_run(request.problem)
        return self._services.toolbox.check(request.name, request.arguments)

    def _repeated(self, request: ToolCallRequest) -> ToolOutcome | None:
        """A word to the model about a call that it makes over and over; the end, if that is all
        it does after having been told."""
        streak = self._thread.streak(request)
        if streak.before >= REPEATED:
            message = f"the model makes the same call over and over: {request.name}"
            hint = "Say in other words what you want, or try another model."
            raise ModelTrouble(TurnFailed("model", message, retry=False, hint=hint))
        if streak.length >= REPEATED:
            return ToolOutcome.not_run(_AGAIN.format(count=streak.length))
        return None

    async def _use(
        self, request: ToolCallRequest, prepared: PreparedCall, *, resumed: bool
    ) -> AsyncGenerator[Update]:
        toolbox = self._services.toolbox
        diff = ""
        if prepared.tool.previews:
            foreseen = await self._breaker.run(partial(toolbox.preview, prepared))
            if foreseen.is_error:
                yield self._ended(request, foreseen)
                return
            diff = str(foreseen.output.get("diff", ""))
        action = prepared.action
        call = PendingCall(
            call_id=request.id,
            name=request.name,
            input=prepared.given,
            cwd=action.cwd,
            action=action,
            said=self._thread.replies[-1].text.strip()[:LONGEST_SAID],
            note=toolbox.sandbox.description if action.effect == "run" else "",
            is_untouched=resumed,
            must_ask=prepared.must_ask,
            diff=diff,
        )
        asked = permission(request.id, call)
        yield asked
        response = self._answers.pop(asked.key, None)
        self._breaker.check()
        if response is None or not response.approves:
            yield self._ended(request, refused(response))
            return
        if response.is_read_only:
            prepared = replace(prepared, tool=prepared.tool.only_looking())
        if not prepared.tool.read_only:
            yield self._thread.remember(Begun(request.id), gates=True)
        yield self._ended(request, await self._breaker.run(partial(toolbox.run, prepared)))

    async def _ask(
        self, request: ToolCallRequest, prepared: PreparedCall
    ) -> AsyncGenerator[Update]:
        asked = question(request, prepared.given)
        yield asked
        response = self._answers.pop(asked.key, None)
        self._breaker.check()
        yield self._ended(request, answer_to(asked, response))

    async def _hand_out(
        self, request: ToolCallRequest, prepared: PreparedCall
    ) -> AsyncGenerator[Update]:
        asked = Delegated(
            key=f"subtask.{request.id}",
            goal=str(prepared.given["goal"]),
            member=str(prepared.given["member"]) or None,
        )
        yield asked
        response = self._answers.pop(asked.key, None)
        self._breaker.check()
        if response is None or response.selected_option_id in (None, REJECT):
            yield self._ended(request, refused(response))
            return
        done = {"member": response.selected_option_id, "report": response.input_value or ""}
        yield self._ended(request, ToolOutcome(done))
