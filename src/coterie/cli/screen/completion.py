"""What Tab completes: names after `@`, commands after `/` at the start of a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

COMMANDS = {
    "/help": "this",
    "/who": "the members, and what each does",
    "/tasks": "every task of this project",
    "/stop": "stop and keep (as ^C)",
    "/end": "end the conversation",
}


class Words(Completer):
    """Completes the word before the cursor."""

    def __init__(self, names: Sequence[str], commands: Callable[[], Iterable[str]]) -> None:
        self._names = names
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before.split()[-1] if before and not before[-1].isspace() else ""
        if word.startswith("@"):
            known = [f"@{name}" for name in self._names]
        elif word.startswith("/") and word == before:
            known = list(self._commands())
        else:
            return
        for text in known:
            if text.lower().startswith(word.lower()):
                yield Completion(text, start_position=-len(word))
