"""An observer that prints records as the objects of `--json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.cli.lines import Surface
from coterie.model.as_json import fields_of
from coterie.model.record import DeltaRecord, Record, ResultRecord
from coterie.model.team import YOU

if TYPE_CHECKING:
    from coterie.app.project import App


class JsonLines(Surface):
    """An observer that prints every record as a line, the result last."""

    def __init__(self, emit: Callable[[str, dict[str, object], str | None], None]) -> None:
        self._emit = emit

    def show_goal(self, goal: str, author: str = YOU) -> None:
        """Print nothing: the goal came from the user."""

    def saw(self, record: Record) -> None:
        if not isinstance(record, DeltaRecord | ResultRecord):
            self._emit(record.type, fields_of(record), getattr(record, "at", None) or None)

    async def finished(self, app: App, result: ResultRecord) -> None:
        self._emit(result.type, fields_of(result), None)
