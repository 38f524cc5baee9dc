"""Making the calls that a model asked for, one after the other, each on record before it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from coterie.agents.builtin.asking import Around, answer_to, permission, question, refused
from coterie.agents.builtin.breaker import Breaker
from coterie.agents.builtin.entries import Begun, Returned
from coterie.agents.builtin.kit import Answers, Kit
from coterie.agents.builtin.own_tools import AskUser, AssignSubtask
from coterie.agents.builtin.speech import ToolCallRequest, Trouble
from coterie.agents.builtin.thread import Pending, Thread
from coterie.model.interaction import REJECT
from coterie.model.redaction import REDACTED
from coterie.model.update import (
    Delegated,
    Remembered,
    ToolCallFinished,
    ToolCallStarted,
    TurnFailed,
    Update,
)
from coterie.tools.toolbox import PreparedCall, ToolOutcome

REPEATED = 5
"""The same call so often in a row is not made again."""
_UNKNOWN: Mapping[str, object] = {
    "outcome": "unknown",
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


class Calls:
    """Serves the calls of one turn."""

    def __init__(self, kit: Kit, thread: Thread, breaker: Breaker, answers: Answers) -> None:
        self._kit = kit
        self._thread = thread
        self._breaker = breaker
        self._answers = answers
        self._checks: dict[str, PreparedCall | ToolOutcome] = {}
        """By id: calls that were looked at when they were put on record."""

    def started(self, request: ToolCallRequest) -> ToolCallStarted:
        """A call as the audit has it, before anything is done about it."""
        checked = self._checks[request.id] = self._checked(request)
        effect = checked.action.effect if isinstance(checked, PreparedCall) else "read"
        return ToolCallStarted(request.id, request.name, request.arguments, effect)

    async def make(self, *, resumed: bool) -> AsyncGenerator[Update]:
        """Give every call of the last reply its result.

        `resumed`: the reply is from before a crash, so what has begun is unknown and what has not
        is known not to have.
        """
        for pending in self._thread.pending():
            async with aclosing(self._one(pending, resumed=resumed)) as updates:
                async for update in updates:
                    yield update

    def broken_off(self) -> list[Remembered]:
        """The results of calls that the user broke off."""
        return self._without_end(ToolOutcome.refused(_BROKEN_OFF), _BROKEN_OFF_BEFORE)

    def left_over(self) -> list[Remembered]:
        """The results of calls of an earlier turn that never came to its end."""
        return self._without_end(ToolOutcome(_UNKNOWN, is_error=True), _LEFT)

    def _without_end(self, begun: ToolOutcome, otherwise: str) -> list[Remembered]:
        return [
            self._ended(one.request, begun if one.begun else ToolOutcome.refused(otherwise))
            for one in self._thread.pending()
        ]

    def _ended(self, request: ToolCallRequest, outcome: ToolOutcome) -> Remembered:
        finished = ToolCallFinished(request.id, outcome.is_error, outcome.output, request.name)
        entry = Returned(request.id, outcome.output, outcome.is_error)
        return self._thread.remember(entry, calls=(finished,))

    # -- one call ------------------------------------------------------------------------------

    async def _one(self, pending: Pending, *, resumed: bool) -> AsyncGenerator[Update]:
        request = pending.request
        if pending.begun:
            yield self._ended(request, ToolOutcome(_UNKNOWN, is_error=True))
            return
        checked = self._checks.pop(request.id, None) or self._checked(request)
        checked = self._repeated(request) or checked
        if resumed and REDACTED in str(request.arguments):
            checked = ToolOutcome.refused(_NOT_KEPT)
        if isinstance(checked, ToolOutcome):
            yield self._ended(request, checked)
            return
        match checked.tool:
            case AskUser():
                updates = self._ask(request, checked)
            case AssignSubtask():
                updates = self._hand_out(request, checked)
            case _:
                updates = self._use(request, checked, resumed=resumed)
        async with aclosing(updates):
            async for update in updates:
                yield update

    def _checked(self, request: ToolCallRequest) -> PreparedCall | ToolOutcome:
        if request.problem:
            return ToolOutcome.refused(request.problem)
        return self._kit.toolbox.check(request.name, request.arguments)

    def _repeated(self, request: ToolCallRequest) -> ToolOutcome | None:
        """A word to the model about a call that it makes over and over; the end, if that is all
        it does after having been told."""
        streak = self._thread.streak(request)
        if streak.before >= REPEATED:
            message = f"the model makes the same call over and over: {request.name}"
            hint = "Say in other words what you want, or try another model."
            raise Trouble(TurnFailed("model", message, retry=False, hint=hint))
        if streak.length >= REPEATED:
            return ToolOutcome.refused(_AGAIN.format(count=streak.length))
        return None

    async def _use(
        self, request: ToolCallRequest, prepared: PreparedCall, *, resumed: bool
    ) -> AsyncGenerator[Update]:
        toolbox = self._kit.toolbox
        diff = ""
        if toolbox.can_preview(prepared):
            foreseen = await self._breaker.run(partial(toolbox.preview, prepared))
            if foreseen.is_error:
                yield self._ended(request, foreseen)
                return
            diff = str(foreseen.output.get("diff", ""))
        said = self._thread.replies[-1].text
        around = Around(said, toolbox.sandbox.description, diff, is_untouched=resumed)
        asked = permission(request, prepared, around)
        yield asked
        response = self._answers.take(asked.key)
        self._breaker.check()
        if response is None or not response.approves:
            yield self._ended(request, refused(response))
            return
        if not prepared.tool.read_only:
            yield self._thread.remember(Begun(request.id), gates=True)
        yield self._ended(request, await self._breaker.run(partial(toolbox.run, prepared)))

    async def _ask(
        self, request: ToolCallRequest, prepared: PreparedCall
    ) -> AsyncGenerator[Update]:
        asked = question(request, prepared.given)
        yield asked
        response = self._answers.take(asked.key)
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
        response = self._answers.take(asked.key)
        self._breaker.check()
        if response is None or response.selected_option_id in (None, REJECT):
            yield self._ended(request, refused(response))
            return
        done = {"member": response.selected_option_id, "report": response.input_value or ""}
        yield self._ended(request, ToolOutcome(done))
