"""An output that does not flicker: lines are taken away, printed above and drawn anew at once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output


class SteadyOutput(Vt100_Output):
    """Keeps what is written to itself for as long as it is told to."""

    _is_held: bool = False

    def flush(self) -> None:
        """Write what was kept, unless more is to come."""
        if not self._is_held:
            super().flush()

    @contextmanager
    def held(self) -> Generator[None]:
        """All that is written in the block reaches the terminal as one piece, after it."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.flush()


@contextmanager
def at_once(output: Output) -> Generator[None]:
    """The block's output as one piece, where the output can do that."""
    if isinstance(output, SteadyOutput):
        with output.held():
            yield
    else:
        yield
