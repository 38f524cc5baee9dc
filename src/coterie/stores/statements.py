"""SQL as named statements, and the seam between the stores and the database that runs them.

In a file of statements, `{Message}` expands to the columns of a message and `{Message?}` to as
many placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from coterie.model.conversation import Message
from coterie.model.journal import Fence, Write
from coterie.model.task import TaskCreated, UserInteractionResponded
from coterie.model.team import Reservation
from coterie.stores.codec import COLUMNS, Row

T = TypeVar("T")
Query = tuple[Any, ...]
"""The name of a statement and its values."""
Reading = Generator[Sequence[Query], list[list[Row]], T]
"""Requests the rows of statements, several from one snapshot, and builds a value from them."""
After = Callable[[], None] | None
_HEADER = "-- name: "


class Statements(Protocol):
    """A database that runs named statements and writes."""

    @property
    def version(self) -> int:
        """For `changed`: later changes have not been read yet."""
        ...

    async def changed(self, seen: int) -> int:
        """Wait until others may have written since `seen`."""
        ...

    def wake(self) -> None:
        """Wake this process's tasks that wait for a change."""
        ...

    async def read(self, reading: Reading[T]) -> T:
        """Run a reading after everything submitted before it."""
        ...

    async def submit(
        self, *queries: Query, fence: Fence | None = None, after: After = None
    ) -> list[Row]:
        """Run queries durably, in a transaction after everything posted; the rows of the last."""
        ...

    def post(self, *queries: Query) -> None:
        """Queue queries: they join the next submission, or run alone shortly after."""
        ...

    async def commit(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        """Like `submit`, for writes."""
        ...

    def queue(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        """Like `post`, for writes."""
        ...

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        """Create a task with its lease; None if the id is taken."""
        ...

    async def respond(self, event: UserInteractionResponded, request: int | None) -> bool:
        """Answer a question and take the request that carried the answer; False if not open."""
        ...

    async def reserve(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        """Add a reservation, unless more than `seen` have been made so far."""
        ...

    async def close(self) -> None:
        """Write what is queued and close the database."""
        ...


def load(folder: Path) -> dict[str, str]:
    """Load the statements that all databases share, and those of the database in the folder."""
    shared = Path(__file__).with_name("queries.sql")
    return {**_statements_in(shared), **_statements_in(folder / "queries.sql")}


def _statements_in(file: Path) -> dict[str, str]:
    statements: dict[str, str] = {}
    for block in file.read_text(encoding="utf-8").split(_HEADER)[1:]:
        name, _, body = block.partition("\n")
        # Up to the first empty line: what follows is a heading for the reader.
        statement = body.partition("\n\n")[0].strip()
        statements[name.strip()] = re.sub(r"{(\w+)(\??)}", _columns, statement)
    return statements


def _columns(match: re.Match[str]) -> str:
    columns = COLUMNS[match[1]]
    return ", ".join("?" * len(columns) if match[2] else columns)
