"""The live lines and keys on a real terminal: everything that depends on prompt_toolkit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    get_common_complete_suffix,
)
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output

from coterie.cli.text import clip, for_stream
from coterie.model.redaction import Redactor

CARD_KEYS = "sdel*"
"""Letters that act as keys while a card is open and nothing has been typed."""


class Controls(Protocol):
    """What the keys do; the screen decides, the prompt only calls."""

    def typed(self, line: str) -> None: ...
    def stop(self) -> None: ...
    def escape(self) -> None: ...
    def open_question(self) -> None: ...
    def pressed(self, key: str) -> None: ...
    @property
    def card_open(self) -> bool: ...
    @property
    def choosing(self) -> bool: ...


class LiveText(Protocol):
    """The current text of the live lines, for a given width."""

    def card(self, width: int, height: int) -> list[str]: ...
    def table(self, width: int, height: int) -> list[str]: ...
    def status(self, width: int) -> str: ...
    def hint(self, width: int) -> str: ...
    def prompt(self) -> str: ...
    def commands(self) -> Sequence[str]: ...


class _Lines(Application[None]):
    """The application; it allows for terminals folding long lines when they get narrower."""

    def _on_resize(self) -> None:
        above = self._folded_rows()
        if above:
            # What is erased next begins this many rows above where it was drawn.
            self.output.cursor_up(above)
        super()._on_resize()

    def _folded_rows(self) -> int:
        """By how many rows the lines above the cursor have grown at the new width."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return 0
        width = max(self.output.get_size().columns, 1)
        cursor = screen.get_cursor_position(self.layout.current_window)
        grown = cursor.x // width
        for number in range(cursor.y):
            row = screen.data_buffer[number]
            used = max((x + 1 for x, cell in row.items() if cell.char.strip()), default=1)
            grown += (used - 1) // width
        return grown


class _WordCompleter(Completer):
    """Completes names after `@`, and commands after `/` at the start of a line."""

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


class BufferedOutput(Vt100_Output):
    """Holds back what is written while it is told to."""

    _is_held: bool = False

    def flush(self) -> None:
        """Write what was buffered, unless it is still held."""
        if not self._is_held:
            super().flush()

    @contextmanager
    def held(self) -> Generator[None]:
        """Send all that is written in the block to the terminal in one piece, at its end."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.flush()


class TypedHistory(FileHistory):
    """What was typed, kept for later runs; secrets are redacted before they are written."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        super().__init__(str(path))
        self._redactor = redactor

    def store_string(self, string: str) -> None:
        super().store_string(self._redactor.text(string))


class PromptArea:
    """Rule, status, input and hint below the scrollback; above them the table or the open card."""

    def __init__(
        self,
        live: LiveText,
        controls: Controls,
        names: Sequence[str],
        history: History | None,
        *,
        colour: bool,
        streams: tuple[Input, Output] | None = None,
    ) -> None:
        self._live = live
        self._controls = controls
        self._pending: list[str] = []
        self._wake = anyio.Event()
        self._words = _WordCompleter(names, live.commands)
        self.buffer: Buffer = Buffer(
            completer=self._words,
            history=history or InMemoryHistory(),
            multiline=False,
            accept_handler=self._accept,
        )
        pair = streams or _terminal()
        self.application: _Lines = _Lines(
            layout=Layout(self._rows()),
            key_bindings=self._keys(),
            input=pair[0],
            output=pair[1],
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            refresh_interval=1.0,
            erase_when_done=True,
        )
        self._last_key = time.monotonic()
        self.application.key_processor.before_key_press += self._note_key
        self.application.ttimeoutlen = 0.05  # Esc is a key of its own here
        self.application.timeoutlen = 0.1

    async def run(self) -> None:
        """Show the lines until `close`, then restore the terminal."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._print_above)
            try:
                await self.application.run_async(handle_sigint=False, set_exception_handler=False)
            except EOFError:
                self._controls.stop()
            group.cancel_scope.cancel()

    def close(self) -> None:
        if self.application.is_running and not self.application.is_done:
            self.application.exit()

    def print(self, lines: Sequence[str]) -> None:
        """Queue lines for the scrollback."""
        self._pending += map(_shown, lines)
        self._wake.set()

    def leftover(self) -> list[str]:
        """Take the lines that have not been printed yet."""
        rest, self._pending = self._pending, []
        return rest

    def fill(self, line: str) -> None:
        """Put a line into the prompt, to be edited; what is being typed is left alone."""
        if self.buffer.text:
            return
        self.buffer.text = line
        self.buffer.cursor_position = len(line)

    def redraw(self) -> None:
        self.application.invalidate()

    def _note_key(self, _: KeyProcessor) -> None:
        self._last_key = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """How long ago the last key was pressed."""
        return time.monotonic() - self._last_key

    @property
    def width(self) -> int:
        return self.application.output.get_size().columns

    async def _print_above(self) -> None:
        # in_terminal suspends the application that it finds in the context.
        with set_app(self.application):
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                if self._pending and self.application.is_running:
                    output = self.application.output
                    with output.held() if isinstance(output, BufferedOutput) else nullcontext():
                        async with in_terminal():
                            output.write_raw("".join(f"{line}\r\n" for line in self.leftover()))
                            output.flush()

    def _rows(self) -> HSplit:
        entry = BufferControl(self.buffer, input_processors=[BeforeInput(self._live.prompt)])
        return HSplit(
            [
                ConditionalContainer(
                    Window(FormattedTextControl(self._card), dont_extend_height=True),
                    Condition(lambda: self._controls.card_open),
                ),
                self._row(self._rule),
                ConditionalContainer(
                    HSplit(
                        [
                            Window(
                                FormattedTextControl(lambda: ANSI(self._table())),
                                dont_extend_height=True,
                            ),
                            self._row(self._rule),
                        ]
                    ),
                    Condition(lambda: not self._controls.card_open and bool(self._table())),
                ),
                self._row(self._live.status),
                Window(
                    entry, height=Dimension(min=1, max=5), wrap_lines=True, dont_extend_height=True
                ),
                self._row(self._hint),
            ]
        )

    def _row(self, shown: Callable[[int], str]) -> Window:
        # One column stays free: a full last column makes some terminals wrap when they shrink.
        control = FormattedTextControl(lambda: ANSI(_shown(shown(max(self.width - 1, 8)))))
        return Window(control, height=1, dont_extend_height=True, always_hide_cursor=True)

    def _card(self) -> ANSI:
        size = self.application.output.get_size()
        return ANSI(_shown("\n".join(self._live.card(size.columns - 1, max(size.rows - 5, 4)))))

    def _rule(self, width: int) -> str:
        return "─" * width

    def _table(self) -> str:
        size = self.application.output.get_size()
        return _shown("\n".join(self._live.table(size.columns - 1, size.rows - 9)))

    def _hint(self, width: int) -> str:
        state = self.buffer.complete_state
        if state is None or not state.completions:
            return self._live.hint(width)
        shown = "  ".join(
            f"[{one.text}]" if one is state.current_completion else one.text
            for one in state.completions
        )
        return clip(f" {shown}", width)

    def _accept(self, buffer: Buffer) -> bool:
        if buffer.text.strip():
            self._controls.typed(buffer.text)
        return False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        controls = self._controls
        empty = Condition(lambda: not self.buffer.text)
        card = Condition(lambda: controls.card_open)
        choosing = Condition(lambda: controls.choosing)

        def add(key: str, action: Callable[[], None], condition: Condition | None = None) -> None:
            def press(_: KeyPressEvent) -> None:
                action()

            keys.add(key, filter=True if condition is None else condition, eager=True)(press)

        add("c-c", controls.stop)
        add("<sigint>", controls.stop)
        add("c-d", controls.stop, empty)
        add("escape", self._escape)
        add("c-z", self._suspend)
        for key in CARD_KEYS:
            add(key, partial(controls.pressed, key), empty & card & choosing)  # type: ignore[arg-type]
        add("tab", self._complete, ~empty)  # type: ignore[arg-type]
        add("tab", controls.open_question, empty)
        return keys

    def _suspend(self) -> None:
        """Suspend to the shell; `fg` resumes."""
        self.application.suspend_to_background()

    def _escape(self) -> None:
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        else:
            self._controls.escape()

    def _complete(self) -> None:
        if self.buffer.complete_state is not None:
            self.buffer.complete_next()
            return
        # Not in the background, where the next key would overtake it.
        document, event = self.buffer.document, CompleteEvent(completion_requested=True)
        completions = list(self._words.get_completions(document, event))
        if len(completions) == 1:
            self.buffer.apply_completion(completions[0])
        elif common := get_common_complete_suffix(document, completions):
            self.buffer.insert_text(common)
        else:
            self.buffer.start_completion()


def _shown(text: str) -> str:
    """Return the text in a form that the terminal can show."""
    return for_stream(text, sys.stdout)


def _terminal() -> tuple[Input, Output]:
    import os

    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.input import create_input

    from coterie.app.terminal import terminal_type

    def size() -> Size:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        return Size(rows=rows or 24, columns=columns or 80)

    # Without cursor position requests: a late reply to one would be typed into the shell.
    output = BufferedOutput(
        sys.stdout, size, term=terminal_type(), enable_bell=False, enable_cpr=False
    )
    return create_input(), output
