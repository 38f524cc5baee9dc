"""The tool calls of a turn: asked about where needed, made, and reported."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pydantic import Field

from coterie.agents.builtin.conversation import (
    UNKNOWN,
    CallBegunEntry,
    ModelTrouble,
    ResultEntry,
    ToolCallRequest,
)
from coterie.agents.builtin.services import Answers, Interrupter, TurnServices
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
    ThreadAppended,
    ToolCallFinished,
    ToolCallStarted,
    TurnFailed,
    Update,
)
from coterie.tools.toolbox import PreparedCall, Tool, ToolInput, ToolOutcome, Utf8Text


class AskUserInput(ToolInput):
    """Ask the person for something you need to know and cannot find out yourself; waits for the
    answer."""

    question: Utf8Text = Field(
        min_length=1, description="The question, with everything needed to answer it."
    )
    options: list[Utf8Text] = Field(
        default=[], max_length=9, description="The possible answers, if there are only a few."
    )


class AssignSubtaskInput(ToolInput):
    """Delegate part of the work to another member of the team and wait for its report. The person
    decides who does it. The other member knows nothing but the goal you write."""

    goal: Utf8Text = Field(
        min_length=1, description="What to do, with everything the other member needs to know."
    )
    member: Utf8Text = Field("", description="The id of the member who should do it, if you know.")


_Input = TypeVar("_Input", bound=ToolInput)


@dataclass(frozen=True)
class _TurnTool(Tool[_Input]):
    """A tool that the turn serves itself; it touches nothing."""

    def action(self, arguments: _Input, cwd: str) -> Action:
        return Action("read", self.name, cwd)

    async def run(self, arguments: _Input) -> ToolOutcome:
        return ToolOutcome.refused(f"{self.name} can only be used during a turn.")


@dataclass(frozen=True)
class AskUser(_TurnTool[AskUserInput]):
    """Asks the person; the answer is the result."""

    name = "askUser"
    inputs = AskUserInput


@dataclass(frozen=True)
class AssignSubtask(_TurnTool[AssignSubtaskInput]):
    """Hands part of the work to another member; its final reply is the result."""

    name = "assignSubtask"
    inputs = AssignSubtaskInput


def refused(response: Response | None) -> ToolOutcome:
    """Return what the model is told when the answer is no."""
    word = response.comment or response.input_value if response is not None else None
    if response is None or (response.selected_option_id is None and not word):
        return ToolOutcome.not_run("Nobody answered, so permission was denied. It was not run.")
    why = f": {word}" if word else "."
    return ToolOutcome.not_run(f"It was not run; permission was denied{why}")


def question(request: ToolCallRequest, given: Mapping[str, object]) -> Asked:
    """Return the question that the model puts to the person."""
    # Keyed by the id of the call: after a crash it is the same question.
    key, display = f"ask.{request.id}", Display(title=str(given["question"]))
    return information(key, display, choices_of(strings(given.get("options"))))


def answer_to(asked: Asked, response: Response | None) -> ToolOutcome:
    """Return the person's answer as the result of the call."""
    labels = {option.id: option.label for option in asked.options}
    answer, comment = None, None
    if response is not None:
        chosen = labels.get(response.selected_option_id or "")
        answer, comment = chosen if labels else response.input_value, response.comment
    if not answer:
        return ToolOutcome.refused("Nobody answered.")
    return ToolOutcome({"answer": answer, "comment": comment} if comment else {"answer": answer})


REPEATED = 5
"""The same call is not made again after this many times in a row."""
_UNKNOWN: Mapping[str, object] = {
    "outcome": UNKNOWN,
    "error": "Coterie was cut off while this ran: it may have run completely, partly or not at "
    "all. It was not run again. Check the current state before you do anything about it.",
}
_INTERRUPTED = "The user interrupted the turn while this ran; what it had done by then remains."
_INTERRUPTED_BEFORE = "It was not run: the user interrupted the turn."
_TURN_ENDED = "It was not run: the turn ended first."
_NOT_KEPT = (
    "It was not run: it contained a secret, and secrets are not stored. Make the call again."
)
_AGAIN = (
    "You have made this same call {count} times in a row, so it was not made again. "
    "Its result will not change: do something else, or say what is blocking you."
)


@dataclass
class BuiltinCalls:
    """Serves the calls of one turn."""

    _services: TurnServices
    _thread: BuiltinThread
    _interrupter: Interrupter
    _answers: Answers
    _checks: dict[str, PreparedCall | ToolOutcome] = field(default_factory=dict[str, Any])
    """By id: calls that were checked when they were recorded."""

    def started(self, request: ToolCallRequest) -> ToolCallStarted:
        """Return a call as the audit records it, before anything is done about it."""
        checked = self._checks[request.id] = self._checked(request)
        effect = checked.action.effect if isinstance(checked, PreparedCall) else "read"
        return ToolCallStarted(request.id, request.name, request.arguments, effect)

    def serve(self, pending: Pending, *, resumed: bool) -> AsyncGenerator[Update]:
        """Give a call of the last reply its result.

        `resumed`: the reply is from before a crash, so the outcome of a call that had begun is
        unknown, and any other call is known not to have begun.
        """
        request = pending.request
        if pending.begun:
            return self._conclude(request, ToolOutcome(_UNKNOWN, is_error=True))
        checked = self._checks.pop(request.id, None) or self._checked(request)
        checked = self._repeated(request) or checked
        if resumed and MASK.search(str(request.arguments)):
            checked = ToolOutcome.not_run(_NOT_KEPT)
        if isinstance(checked, ToolOutcome):
            return self._conclude(request, checked)
        match checked.tool:
            case AskUser():
                return self._ask(request, checked)
            case AssignSubtask():
                return self._hand_out(request, checked)
            case _:
                return self._use(request, checked, resumed=resumed)

    def end_interrupted(self) -> list[ThreadAppended]:
        """Return the results of calls that the user interrupted."""
        return self._without_end(ToolOutcome.refused(_INTERRUPTED), _INTERRUPTED_BEFORE)

    def left_over(self) -> list[ThreadAppended]:
        """Return the results of calls of a turn that never reached its end."""
        return self._without_end(ToolOutcome(_UNKNOWN, is_error=True), _TURN_ENDED)

    def _without_end(self, begun: ToolOutcome, otherwise: str) -> list[ThreadAppended]:
        return [
            self._ended(one.request, begun if one.begun else ToolOutcome.not_run(otherwise))
            for one in self._thread.pending()
        ]

    def _ended(self, request: ToolCallRequest, outcome: ToolOutcome) -> ThreadAppended:
        finished = ToolCallFinished(request.id, outcome.is_error, outcome.output, request.name)
        entry = ResultEntry(request.id, outcome.output, outcome.is_error)
        return self._thread.append(entry, calls=(finished,))

    async def _conclude(
        self, request: ToolCallRequest, outcome: ToolOutcome
    ) -> AsyncGenerator[Update]:
        yield self._ended(request, outcome)

    def _checked(self, request: ToolCallRequest) -> PreparedCall | ToolOutcome:
        if request.problem:
            return ToolOutcome.not_run(request.problem)
        return self._services.toolbox.check(request.name, request.arguments)

    def _repeated(self, request: ToolCallRequest) -> ToolOutcome | None:
        """Return what to tell the model about a call that it keeps repeating; raises ModelTrouble
        if it does nothing else after being told."""
        streak = self._thread.streak(request)
        if streak.before >= REPEATED:
            message = f"the model keeps repeating the same call: {request.name}"
            hint = "Rephrase the request, or try another model."
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
            preview = await self._interrupter.run(partial(toolbox.preview, prepared))
            if preview.is_error:
                yield self._ended(request, preview)
                return
            diff = str(preview.output.get("diff", ""))
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
        self._interrupter.check()
        if response is None or not response.approves:
            yield self._ended(request, refused(response))
            return
        if response.is_read_only:
            prepared = replace(prepared, tool=prepared.tool.read_only_variant())
        if not prepared.tool.read_only:
            yield self._thread.append(CallBegunEntry(request.id), gates=True)
        yield self._ended(request, await self._interrupter.run(partial(toolbox.run, prepared)))

    async def _ask(
        self, request: ToolCallRequest, prepared: PreparedCall
    ) -> AsyncGenerator[Update]:
        asked = question(request, prepared.given)
        yield asked
        response = self._answers.pop(asked.key, None)
        self._interrupter.check()
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
        self._interrupter.check()
        if response is None or response.selected_option_id in (None, REJECT):
            yield self._ended(request, refused(response))
            return
        done = {"member": response.selected_option_id, "report": response.input_value or ""}
        yield self._ended(request, ToolOutcome(done))
