"""Every seam of Coterie, as a Protocol with its promise."""

from coterie.ports.agents import Adapter, Channel, ChildLog, StderrLog
from coterie.ports.running import (
    AttendedObserver,
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
    NotificationStore,
    Storage,
    TicketStore,
    TimelineStore,
)

__all__ = [
    "Adapter",
    "AttendedObserver",
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
    "NotificationStore",
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
