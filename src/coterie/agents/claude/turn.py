"""One turn as it is told, message by message: what was said and done, and whether it is over.

A `result` ends one answer of the model, not always the turn: work in the background starts a
further one by itself.  So the turn is over when the message we sent is done with, Claude is
idle, and nothing is left in the background.  A version that tells less is believed earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from coterie.agents.claude.calls import Calls
from coterie.agents.claude.failures import (
    Trouble,
    end_of,
    failed,
    key_refused,
    limited,
    unanswered,
)
from coterie.agents.claude.speech import Speech
from coterie.agents.claude.usage import usage_of
from coterie.agents.fields import mapping, mappings, number, text
from coterie.agents.wire import Object
from coterie.model.instant import seconds_until
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Waiting,
)

_Hearing = Callable[[Object], Iterable[Update]]

_DONE = frozenset({"completed", "cancelled"})
_STOPPED = frozenset({"stopped", "killed"})
_HOPELESS = 2
"""A key that was refused so often will be refused again; a login may be refreshed in between."""
_LONG = 60.0
"""Claude itself waits no longer before a try, so it cannot outlast a limit that does."""


class Turn:
    """What is known of the turn that runs now."""

    def __init__(self, message_id: str, cwd: str) -> None:
        self.message_id = message_id
        self.cwd = cwd
        self.version = ""
        self.speech: Speech = Speech()
        self.calls: Calls = Calls()
        self.interrupted = False
        self.deadline: float = math.inf
        """When a turn that is to break off has to be over."""
        self.failure: TurnFailed | None = None
        """A failure that is certain while Claude still tries."""
        self.tasks: Mapping[str, str] = {}
        """What runs in the background, by its id: what it is."""
        self._results: list[Object] = []
        self._trouble = Trouble()
        self._lifecycle = ""
        self._state = ""
        self._owed = False
        """Something in the background has ended, and Claude is about to speak of it."""
        self._hearing: Mapping[str, _Hearing] = {
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

    # -- how it ends ---------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        """Whether the message is done with, whatever is left in the background."""
        done = self._lifecycle in _DONE if self._lifecycle else bool(self._results)
        return done and self._state in ("", "idle")

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.answered and not self.tasks and not self._owed

    def give_up_background(self) -> None:
        """Wait no longer for what runs in the background."""
        self.tasks, self._owed = {}, False

    def end(self) -> End:
        """How it ended."""
        if self.failure is not None:
            return self.failure
        if self.interrupted:
            return TurnInterrupted(self.speech.text)
        if not self._results:
            return unanswered()
        own = self._results[0]  # what follows was started by something in the background
        if own.get("is_error") is True:
            return failed(own, self._trouble)
        return TurnCompleted(self.speech.text or text(own.get("result")), usage_of(self._results))

    # -- what is told --------------------------------------------------------------------------

    def hear(self, message: Object) -> Iterable[Update]:
        """The updates in a message; one that is not known is a sign of life."""
        kind = text(message.get("type"))
        if kind == "system":
            kind = f"system/{text(message.get('subtype'))}"
        hearing = self._hearing.get(kind)
        return (hearing(message) if hearing else ()) or (Activity(),)

    def _stream(self, message: Object) -> Iterable[Update]:
        event = mapping(message.get("event"))
        if message.get("parent_tool_use_id") is not None:
            return ()  # a helper of the agent speaks, not the agent
        if event.get("type") == "message_start":
            self.speech.begin()
        delta = mapping(event.get("delta"))
        if event.get("type") == "content_block_delta" and delta.get("type") == "text_delta":
            return _shown(self.speech.stream(text(delta.get("text"))))
        return ()

    def _assistant(self, message: Object) -> Iterable[Update]:
        if word := text(message.get("error")):
            # A limit that is still the same is not told as an event again, but here it is.
            told = mapping(mapping(message.get("api_error_params")).get("rate_limit_info"))
            self._trouble = Trouble(word, end_of(told) or self._trouble.until)
            return ()
        own = message.get("parent_tool_use_id") is None
        updates: list[Update] = []
        for block in mappings(mapping(message.get("message")).get("content")):
            if block.get("type") == "tool_use":
                self.calls.propose(block)
            elif block.get("type") == "text" and own:
                updates += _shown(self.speech.tell(text(block.get("text"))))
        return updates

    def _user(self, message: Object) -> Iterable[Update]:
        return list(self.calls.end(message))

    def _result(self, message: Object) -> Iterable[Update]:
        self._results.append(message)
        return ()

    def _lifecycle_changed(self, message: Object) -> Iterable[Update]:
        if message.get("command_uuid") == self.message_id:
            self._lifecycle = text(message.get("state"))
        return ()

    def _progress(self, message: Object) -> Iterable[Update]:
        seconds = number(message.get("elapsed_time_seconds"))
        return (Waiting(f"command: {text(message.get('tool_name'))}, {seconds:.0f} s so far"),)

    def _rate_limit(self, message: Object) -> Iterable[Update]:
        info = mapping(message.get("rate_limit_info"))
        self._trouble = Trouble(self._trouble.word, end_of(info))
        return ()

    # -- what Claude says of itself ------------------------------------------------------------

    def _init(self, message: Object) -> Iterable[Update]:
        self.cwd: str = text(message.get("cwd")) or self.cwd
        self.version: str = text(message.get("claude_code_version"))
        return ()

    def _state_changed(self, message: Object) -> Iterable[Update]:
        self._state = text(message.get("state"))
        if self._state != "idle":
            self._owed = False
        elif self.tasks:
            return (Waiting(f"background: {', '.join(self.tasks.values())}"),)
        return ()

    def _tasks_changed(self, message: Object) -> Iterable[Update]:
        listed = mappings(message.get("tasks"))
        self.tasks = {text(task.get("task_id")): text(task.get("description")) for task in listed}
        return ()

    def _task_ended(self, message: Object) -> Iterable[Update]:
        # While Claude works it takes such news in by itself, and is not idle before it has.
        self._owed = self._state == "idle" and message.get("status") not in _STOPPED
        return ()

    def _retry(self, message: Object) -> Iterable[Update]:
        status, word = int(number(message.get("error_status"))), text(message.get("error"))
        tried, most = number(message.get("attempt")), number(message.get("max_retries"))
        until = self._trouble.until
        if word == "authentication_failed" and tried >= _HOPELESS:
            self.failure = key_refused(status)
        elif word == "rate_limit" and until and seconds_until(until) > _LONG:
            self.failure = limited(status, until)
        what = status or (word if word != "unknown" else "no answer")
        return (Waiting(f"model: {what}, retry {tried} of {most}"),)


def _shown(piece: str) -> tuple[Update, ...]:
    return (TextDelta(piece),) if piece else ()
