"""What every `ports.Storage` must do.

Subclass `StorageContract`, give it `open`, and pytest runs the whole suite.  It needs anyio's
plugin in auto mode and a fixture `anyio_backend` that says "asyncio".
"""

from __future__ import annotations

from coterie.testing.contracts.storage_processes import (
    InboxContract,
    LeasesContract,
    WakeupContract,
)
from coterie.testing.contracts.storage_records import RecordsContract, TicketsContract
from coterie.testing.contracts.storage_values import ValuesContract
from coterie.testing.contracts.storage_writes import WritesContract


class StorageContract(
    WritesContract,
    RecordsContract,
    ValuesContract,
    TicketsContract,
    InboxContract,
    LeasesContract,
    WakeupContract,
):
    """The whole suite."""
