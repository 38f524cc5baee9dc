"""One turn of Claude: what it says, the calls it makes, what it cost, and when it is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from coterie.agents.claude import failures
from coterie.agents.claude.permissions import effect_of
from coterie.agents.fields import bounded, mapping, mappings, number, text, texts, verbatim
from coterie.agents.process import Object
from coterie.agents.program import CallLedger, CallUpdate
from coterie.model import update
from coterie.model.instant import seconds_until

GAP = "\n\n"


class ReplyText:
    """The texts of one turn.

    A broken stream is sent again from its beginning, so only complete texts count; what was
    streamed of a text that was never completed counts if the turn is cut off there.
    """

    def __init__(self) -> None:
        self._complete: list[str] = []
        self._streamed = ""
        self._shown = False

    @property
    def text(self) -> str:
        return GAP.join(part for part in (*self._complete, self._streamed) if part.strip())

    @property
    def last(self) -> str:
        """The last text that was said."""
        return self._streamed.strip() or (self._complete[-1].strip() if self._complete else "")

    def begin(self) -> None:
        """Begin a new message of the model; one that broke off is forgotten."""
        self._streamed = ""

    def stream(self, piece: str) -> str:
        """Add a piece of an incomplete text; return what to show of it."""
        gap = GAP if self._shown and not self._streamed else ""
        self._streamed += piece
        self._shown = True
        return gap + piece

    def tell(self, text: str) -> str:
        """Add a complete text; return what to show of it, if anything."""
        streamed, self._streamed = self._streamed, ""
        if not text:
            return ""
        self._complete.append(text)
        if streamed and text.startswith(streamed):
            return text[len(streamed) :]
        gap = GAP if self._shown else ""
        self._shown = True
        return gap + text


class ClaudeCalls(CallLedger):
    """Which calls the model has proposed, and which of them have been reported."""

    def __init__(self) -> None:
        super().__init__()
        self._proposed: dict[str, update.ToolCallStarted] = {}
        self._folders: dict[str, str] = {}

    def propose(self, block: Object) -> None:
        """Record that the model wants to use a tool; nothing has happened yet."""
        call = _call(block.get("id"), block.get("name"), block.get("input"))
        self._proposed[call.call_id] = call

    def begin(self, hook: Object) -> update.ToolCallStarted:
        """Record a call that is about to be made, or to need permission."""
        call = _call(hook.get("tool_use_id"), hook.get("tool_name"), hook.get("tool_input"))
        self.started[call.call_id] = call
        self._folders[call.call_id] = text(hook.get("cwd"))
        return call

    def folder_of(self, call_id: str) -> str:
        """Return the folder that a call is made in; empty if unknown."""
        return self._folders.get(call_id, "")

    def end(self, message: Object) -> Iterator[CallUpdate]:
        """Report the results in a message."""
        metas = {text(meta.get("id")): meta for meta in mappings(message.get("tool_result_meta"))}
        for block in mappings(mapping(message.get("message")).get("content")):
            if block.get("type") != "tool_result":
                continue
            call_id = text(block.get("tool_use_id"))
            unknown = update.ToolCallStarted(call_id, "unknown")
            yield from self.start(self._proposed.get(call_id, unknown))
            output = {"content": bounded(texts(block.get("content")))}
            output |= _decision(metas.get(call_id, {}))
            yield from self.finish(call_id, block.get("is_error") is True, output)


def _call(call_id: object, name: object, given: object) -> update.ToolCallStarted:
    tool_input = cast("Object", verbatim(mapping(given)))
    tool = text(name) or "unknown"
    return update.ToolCallStarted(text(call_id), tool, tool_input, effect_of(tool))


def _decision(meta: Object) -> dict[str, object]:
    """Return who let the call run, or why it did not."""
    decision = {
        "permission": bounded(mapping(meta.get("permission_decision"))),
        "not_run": text(meta.get("non_execution_kind")),
    }
    return {name: value for name, value in decision.items() if value}


_SINCE = "model_usage_since_last_result"


def usage_of(results: Sequence[Object]) -> update.Usage:
    """Return the input tokens, including cached ones, the output tokens, and Claude's own price."""
    if any(_SINCE in result for result in results):
        used = [mapping(model) for each in results for model in mapping(each.get(_SINCE)).values()]
        tokens_in = _sum(used, "inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        cost = sum(number(model.get("costUSD")) for model in used)
        return update.Usage(tokens_in, _sum(used, "outputTokens"), cost, "claude")
    # An old version only gives a total price since the thread began, so there is none for a turn.
    used = [mapping(result.get("usage")) for result in results]
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return update.Usage(_sum(used, *names), _sum(used, "output_tokens"), source="claude")


def _sum(used: Sequence[Object], *names: str) -> int:
    return int(sum(number(each.get(name)) for each in used for name in names))


_Handler = Callable[[Object], Iterable[update.Update]]

_DONE = frozenset({"completed", "cancelled"})
_STOPPED = frozenset({"stopped", "killed"})
_MOST_REFUSALS = 2
"""A key refused this many times will be refused again; a login may be refreshed in between."""
_LONGEST_RETRY = 60.0
"""Claude itself waits at most this long before a retry, so it cannot outlast a longer limit."""


class ClaudeTurn:
    """The state of the current turn."""

    def __init__(self, message_id: str, cwd: str) -> None:
        self.message_id = message_id
        self.cwd = cwd
        self.speech: ReplyText = ReplyText()
        self.calls: ClaudeCalls = ClaudeCalls()
        self.interrupted = False
        self.deadline: float = math.inf
        """When an interrupted turn has to be over."""
        self.failure: update.TurnFailed | None = None
        """A failure that is certain although Claude is still retrying."""
        self.tasks: Mapping[str, str] = {}
        """What runs in the background: descriptions by task id."""
        self._results: list[Object] = []
        self._trouble = failures.ApiTrouble()
        self._lifecycle = ""
        self._state = ""
        self._report_pending = False
        """Whether something in the background has ended and Claude is about to report on it."""
        self._handlers: Mapping[str, _Handler] = {
            "stream_event": self._stream,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "command_lifecycle": self._lifecycle_changed,
            "tool_progress": self._progress,
            "rate_limit_event": self._rate_limit,
            "system/init": self._init,
            "system/session_state_changed": self._state_changed,
            "system/background_tasks_changed": self._tasks_changed,
            "system/task_notification": self._task_ended,
            "system/api_retry": self._retry,
        }

    @property
    def answered(self) -> bool:
        """Whether the message has been dealt with, whatever is left in the background."""
        done = self._lifecycle in _DONE if self._lifecycle else bool(self._results)
        return done and self._state in ("", "idle")

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.answered and not self.tasks and not self._report_pending

    def give_up_background(self) -> None:
        """Stop waiting for what runs in the background."""
        self.tasks, self._report_pending = {}, False

    def end(self) -> update.End:
        if self.failure is not None:
            return self.failure
        if self.interrupted:
            return update.TurnInterrupted(self.speech.text)
        if not self._results:
            return update.TurnFailed("protocol", "claude accepted the message but gave no result")
        own = self._results[0]  # later ones were triggered by something in the background
        if own.get("is_error") is True:
            return failures.failed(own, self._trouble)
        return update.TurnCompleted(
            self.speech.text or text(own.get("result")), usage_of(self._results)
        )

    def handle(self, message: Object) -> Iterable[update.Update]:
        """Return the updates in a message; an unknown message is a sign of life."""
        kind = text(message.get("type"))
        if kind == "system":
            kind = f"system/{text(message.get('subtype'))}"
        handler = self._handlers.get(kind)
        return (handler(message) if handler else ()) or (update.Activity(),)

    def _stream(self, message: Object) -> Iterable[update.Update]:
        event = mapping(message.get("event"))
        if message.get("parent_tool_use_id") is not None:
            return ()  # from a subagent, not the agent
        if event.get("type") == "message_start":
            self.speech.begin()
        delta = mapping(event.get("delta"))
        if event.get("type") == "content_block_delta" and delta.get("type") == "text_delta":
            return _shown(self.speech.stream(text(delta.get("text"))))
        return ()

    def _assistant(self, message: Object) -> Iterable[update.Update]:
        if word := text(message.get("error")):
            # An unchanged limit does not come as an event again, but it does come here.
            limit = mapping(mapping(message.get("api_error_params")).get("rate_limit_info"))
            self._trouble = failures.ApiTrouble(word, failures.end_of(limit) or self._trouble.until)
            return ()
        own = message.get("parent_tool_use_id") is None
        updates: list[update.Update] = []
        for block in mappings(mapping(message.get("message")).get("content")):
            if block.get("type") == "tool_use":
                self.calls.propose(block)
            elif block.get("type") == "text" and own:
                updates += _shown(self.speech.tell(text(block.get("text"))))
        return updates

    def _user(self, message: Object) -> Iterable[update.Update]:
        return list(self.calls.end(message))

    def _result(self, message: Object) -> Iterable[update.Update]:
        self._results.append(message)
        return ()

    def _lifecycle_changed(self, message: Object) -> Iterable[update.Update]:
        if message.get("command_uuid") == self.message_id:
            self._lifecycle = text(message.get("state"))
        return ()

    def _progress(self, message: Object) -> Iterable[update.Update]:
        return (update.Waiting("command", text(message.get("tool_name"))),)

    def _rate_limit(self, message: Object) -> Iterable[update.Update]:
        info = mapping(message.get("rate_limit_info"))
        self._trouble = failures.ApiTrouble(self._trouble.word, failures.end_of(info))
        return ()

    def _init(self, message: Object) -> Iterable[update.Update]:
        self.cwd: str = text(message.get("cwd")) or self.cwd
        return ()

    def _state_changed(self, message: Object) -> Iterable[update.Update]:
        self._state = text(message.get("state"))
        if self._state != "idle":
            self._report_pending = False
        elif self.tasks:
            return (update.Waiting("command", ", ".join(self.tasks.values())),)
        return ()

    def _tasks_changed(self, message: Object) -> Iterable[update.Update]:
        listed = mappings(message.get("tasks"))
        self.tasks = {text(task.get("task_id")): text(task.get("description")) for task in listed}
        return ()

    def _task_ended(self, message: Object) -> Iterable[update.Update]:
        # While Claude works, it picks up such news by itself, and is not idle before it has.
        self._report_pending = self._state == "idle" and message.get("status") not in _STOPPED
        return ()

    def _retry(self, message: Object) -> Iterable[update.Update]:
        status, word = int(number(message.get("error_status"))), text(message.get("error"))
        tried, most = number(message.get("attempt")), number(message.get("max_retries"))
        until = self._trouble.until
        if word == "authentication_failed" and tried >= _MOST_REFUSALS:
            self.failure = failures.failure_of(failures.BAD_KEY, status)
        elif word == "rate_limit" and until and seconds_until(until) > _LONGEST_RETRY:
            self.failure = failures.failure_of(failures.LIMIT, status, until=until)
        what = status or (word if word != "unknown" else "no answer")
        return (update.Waiting("model", f"{what}, retry {tried} of {most}"),)


def _shown(piece: str) -> tuple[update.Update, ...]:
    return (update.TextDelta(piece),) if piece else ()
