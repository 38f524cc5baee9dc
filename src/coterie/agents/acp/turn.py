"""One turn of an agent: its updates as they come, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from coterie.agents.acp.calls import AcpCall, AcpCalls, Told
from coterie.agents.acp.failures import Failures
from coterie.agents.fields import mapping, number, text
from coterie.agents.process import Object, RpcError, result_of
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    TurnCompleted,
    TurnInterrupted,
    Update,
    Usage,
)


class AcpUsage:
    """What an agent has told of the cost of its turns.

    The answer to a prompt has it (`usage`; Gemini: `_meta.quota`), or every answer of the model
    does (Qwen: `_meta.usage`).  The price, where there is one, runs on for the whole thread.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._told: list[Object] = []
        self._price: float | None = None
        self._paid = 0.0

    def begin(self) -> None:
        """A turn begins."""
        self._told.clear()
        self._paid = self._price or 0.0

    def hear(self, meta: Object) -> None:
        """The cost of one answer of the model."""
        if told := mapping(meta.get("usage")):
            self._told.append(told)

    def priced(self, cost: Object) -> None:
        """What the thread has cost up to now."""
        if cost.get("currency") == "USD":
            self._price = float(number(cost.get("amount")))

    def usage(self, result: Object) -> Usage | None:
        """The cost of the turn that this answer ends; None where nothing was told."""
        told = mapping(result.get("usage"))
        quota = mapping(mapping(mapping(result.get("_meta")).get("quota")).get("token_count"))
        if told:
            return self._sum([told])
        if quota:
            named = {"inputTokens": quota.get("input_tokens")}
            return self._sum([named | {"outputTokens": quota.get("output_tokens")}])
        return self._sum(self._told) if self._told else None

    def _sum(self, told: Sequence[Object]) -> Usage:
        return Usage(
            input_tokens=sum(map(_input, told)),
            output_tokens=sum(int(number(each.get("outputTokens"))) for each in told),
            cost_usd=None if self._price is None else self._price - self._paid,
            source=self._source,
        )


def _input(told: Object) -> int:
    """Tokens that went in, cached ones too, which some count apart and others do not."""
    given, made, thought, total = (
        int(number(told.get(f"{name}Tokens"))) for name in ("input", "output", "thought", "total")
    )
    return max(given, total - made - thought)


# -- one turn as it is told, update by update --------------------------------------------------


GAP = "\n\n"


class AcpTurn:
    """What is known of the turn that runs now."""

    def __init__(self, prompt: int, failures: Failures, spent: AcpUsage) -> None:
        self.prompt = prompt
        """The number of the request whose answer ends the turn."""
        self.interrupted = False
        """Whether the user broke it off."""
        self.end: End | None = None
        self.calls: AcpCalls = AcpCalls()
        self.told: list[Told] = []
        """What is to be told besides what the agent says: the end of a call that got a no."""
        self._failures = failures
        self._spent = spent
        self._texts: list[list[str]] = []
        """What it said, text by text, each in the pieces in which it came."""
        self._message = ""
        self._apart = True
        """Whether what is said next is a text of its own."""
        self._hearing: Mapping[str, Callable[[Object], Iterable[Update]]] = {
            "agent_message_chunk": self._said,
            "tool_call": self._called,
            "tool_call_update": self._called,
            "usage_update": self._used,
        }

    @property
    def text(self) -> str:
        """All that was said so far."""
        texts = ("".join(pieces) for pieces in self._texts)
        return GAP.join(said for said in texts if said.strip())

    @property
    def last(self) -> str:
        """The last thing that was said."""
        return "".join(self._texts[-1]).strip() if self._texts else ""

    def hear(self, update: Object) -> Iterable[Update]:
        """The updates in one of the agent's; whatever it is, it is a sign of life."""
        heard = self._hearing.get(text(update.get("sessionUpdate")))
        return (list(heard(update)) if heard else []) or [Activity()]

    def answered(self, message: Object) -> Iterable[Update]:
        """The answer to the prompt, which ends the turn."""
        try:
            result = result_of("session/prompt", message)
        except RpcError as error:
            failure = self._failures.failed(error)
            self.end = TurnInterrupted(self.text) if self.interrupted else failure
        else:
            self.end = self._ended(result)
        return self.calls.leave(broken_off=self.interrupted)

    def asked(self, call: AcpCall) -> list[Told]:
        """Leave is asked for a call, which not every agent has told of before."""
        self._apart = True
        call.asked += 1
        return list(self.calls.begin(call))

    def reject(self, call: AcpCall, why: str) -> None:
        """A call got a no: not every agent tells that it is over."""
        told = {"status": "rejected", "reason": why} if why else {"status": "rejected"}
        self.told += self.calls.end(call, told, failed=True)

    def rest(self) -> Iterable[Update]:
        """What is to be told now besides, once."""
        told, self.told = self.told, []
        return told

    # -- hearing -------------------------------------------------------------------------------

    def _said(self, update: Object) -> Iterable[Update]:
        self._spent.hear(mapping(update.get("_meta")))
        piece = text(mapping(update.get("content")).get("text"))
        message = text(update.get("messageId"))
        if not piece:
            return
        gap = ""
        if self._apart or message != self._message:
            gap = GAP if self._texts else ""
            self._texts.append([])
        self._apart = False
        self._message = message
        self._texts[-1].append(piece)
        yield TextDelta(gap + piece)

    def _called(self, update: Object) -> Iterable[Update]:
        self._apart = True
        yield from self.calls.hear(update, broken_off=self.interrupted)

    def _used(self, update: Object) -> Iterable[Update]:
        self._spent.priced(mapping(update.get("cost")))
        yield Activity()

    # -- the end -------------------------------------------------------------------------------

    def _ended(self, result: Object) -> End:
        reason = text(result.get("stopReason"))
        if self.interrupted:
            return TurnInterrupted(self.text)
        failure = self._failures.stopped(reason)
        if failure is None and not (self.text or self.calls.any):
            failure = self._failures.empty()
        return failure or TurnCompleted(self.text, self._spent.usage(result))
