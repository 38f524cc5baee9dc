"""Every seam of Coterie, as a Protocol with its promise."""

from coterie.ports.agents import Adapter, Channel, ChildLog, StderrLog
from coterie.ports.running import (
    Channels,
    Checks,
    Context,
    Observer,
    Parked,
    Reaper,
    SessionFiles,
    Snapshots,
    Workflow,
)
from coterie.ports.stores import (
    AuditLog,
    ConversationStore,
    EventStore,
    InboxStore,
    JournalStore,
    LeaseStore,
    Storage,
    TicketStore,
    TimelineStore,
)

__all__ = [
    "Adapter",
    "AuditLog",
    "Channel",
    "Channels",
    "Checks",
    "ChildLog",
    "Context",
    "ConversationStore",
    "EventStore",
    "InboxStore",
    "JournalStore",
    "LeaseStore",
    "Observer",
    "Parked",
    "Reaper",
    "SessionFiles",
    "Snapshots",
    "StderrLog",
    "Storage",
    "TicketStore",
    "TimelineStore",
    "Workflow",
]
