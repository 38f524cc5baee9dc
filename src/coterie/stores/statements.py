"""SQL as named data, and the seam between the stores and the database that runs it.

In a file of statements `{Message}` stands for the columns of a message, `{Message?}` for as many
values.
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
"""The name of a statement, and what it is given."""
Reading = Generator[Sequence[Query], list[list[Row]], T]
"""Asks for the rows of statements, several as of one moment, and makes a value of them."""
After = Callable[[], None] | None
_HEADER = "-- name: "


class Statements(Protocol):
    """A database that runs statements by their names, and writes."""

    @property
    def version(self) -> int:
        """For `changed`: what came later was not read."""
        ...

    async def changed(self, seen: int) -> int:
        """Wait until others may have written since `seen`."""
        ...

    def wake(self) -> None:
        """Wake those of this process who wait for a change."""
        ...

    async def read(self, reading: Reading[T]) -> T:
        """Run it after all that was submitted before."""
        ...

    async def submit(
        self, *queries: Query, fence: Fence | None = None, after: After = None
    ) -> list[Row]:
        """Run them in a transaction after all that was posted; the rows of the last, durable."""
        ...

    def post(self, *queries: Query) -> None:
        """Queue them: they ride in the next submission, or go alone a little later."""
        ...

    async def commit(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        """The same as `submit` for writes."""
        ...

    def queue(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        """The same as `post` for writes."""
        ...

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        """A new task with its lease; None if the id is taken."""
        ...

    async def respond(self, event: UserInteractionResponded, request: int | None) -> bool:
        """Append an answer to a question that is open, and take the word that it was said by."""
        ...

    async def reserve(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        """Reserve, if no more than `seen` were ever made."""
        ...

    async def close(self) -> None:
        """Write what is queued and let go of the database."""
        ...


def load(folder: Path) -> dict[str, str]:
    """The statements that all databases share, and those of the one in the folder."""
    shared = Path(__file__).with_name("queries.sql")
    return {**_statements_in(shared), **_statements_in(folder / "queries.sql")}


def _statements_in(file: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for block in file.read_text(encoding="utf-8").split(_HEADER)[1:]:
        name, _, body = block.partition("\n")
        # Up to the first empty line: what follows is a heading for the reader.
        statement = body.partition("\n\n")[0].strip()
        found[name.strip()] = re.sub(r"{(\w+)(\??)}", _columns, statement)
    return found


def _columns(found: re.Match[str]) -> str:
    columns = COLUMNS[found[1]]
    return ", ".join("?" * len(columns) if found[2] else columns)
