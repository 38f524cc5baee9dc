"""A session's envelopes as files, for people and other programs.

They are written from the rows, after the commit, and put right wherever they differ: after a
crash, or when somebody changed them.  The rows are what counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from coterie.ports import TicketStore
from coterie.stores.ledger_files import LedgerFiles
from coterie.stores.sqlite.failures import from_system
from coterie.workspace.session_files import check_signatures, session_key

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope


class Ledger:
    """`ports.Ledger`: one session's folder below `logs/`, for whoever holds the session's lease."""

    def __init__(
        self, folder: Path, store: TicketStore, session: str, *, signed: bool = False
    ) -> None:
        """`folder` is the project's `.coterie`; `signed`: every envelope must bear a signature."""
        self._folder = folder
        self._store = store
        self._session = session
        self._signed = signed
        self._files = LedgerFiles(folder / "logs" / session)
        self._last = 0
        """The number of the last envelope that is in the files; 0: all are to be looked at."""
        self._writing = anyio.Lock()
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Something was recorded; costs nothing here and now."""
        self._woken.set()

    async def follow(self) -> None:
        """Write what is recorded, as it comes; does not end by itself."""
        while True:
            await self.flush()
            await self._woken.wait()
            self._woken = anyio.Event()

    async def flush(self) -> None:
        """Write all that is recorded by now; the first time, all that is there is looked at.

        Raises EnvelopeForged where a signature is wrong or missing, and StorageError.
        """
        async with self._writing:
            while True:
                rows = await self._store.envelopes(self._session, self._last)
                if not rows or await anyio.to_thread.run_sync(self._write, rows):
                    return
                self._last = 0  # somebody changed the files while we were at it

    def _write(self, rows: Sequence[tuple[int, Envelope]]) -> bool:
        if self._signed:
            check_signatures(self._session, rows, session_key(self._folder, self._session))
        try:
            if self._last == 0:
                self._files.put_right(rows)
            elif not self._files.add(rows):
                return False
        except OSError as error:
            raise from_system(error, self._files.folder) from error
        self._last = rows[-1][0]
        return True
