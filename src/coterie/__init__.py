"""Coterie: the coding agents you already have, as one team that you can leave alone.

Names listed in `__all__` are the public surface; everything else may change without notice.
Each is imported from its module on first use, so that `import coterie` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.app.open_project import OpenProject, open_project
    from coterie.app.teams import TeamView
    from coterie.errors import (
        AgentError,
        AgentMissing,
        AnswerRefused,
        ConfigError,
        CoterieError,
        NotFound,
        NotOurs,
        NotTrusted,
        StorageError,
        TaskBusy,
        UsageError,
    )
    from coterie.model.about import AgentQuestion
    from coterie.model.agent import AdapterFacts, AgentDefinition, AgentFacts
    from coterie.model.conversation import Brief, Limits, Message, Prompt
    from coterie.model.interaction import Answer, Ask, Display, Interaction, Option, Response
    from coterie.model.record import (
        DeltaRecord,
        Entry,
        ErrorRecord,
        InteractionRecord,
        MemberRecord,
        MessageRecord,
        PhaseRecord,
        QuestionView,
        Record,
        ResultRecord,
        TaskDetail,
        TaskRecord,
        TaskView,
        TicketRecord,
        ToolCallRecord,
    )
    from coterie.model.task import Caps, Ended, Stopped, TaskCreated
    from coterie.model.team import Member, Permissions, Team
    from coterie.model.tool_call import Action
    from coterie.model.update import (
        Activity,
        Asked,
        PendingCall,
        TextDelta,
        ToolCallFinished,
        ToolCallStarted,
        TurnCompleted,
        TurnFailed,
        TurnInterrupted,
        Update,
        Usage,
        Waiting,
    )
    from coterie.model.workspace import Workspace
    from coterie.ports import Adapter, Channel, ChildLog, Context, Storage, Workflow

__all__ = [
    "Action",
    "Activity",
    "Adapter",
    "AdapterFacts",
    "AgentDefinition",
    "AgentError",
    "AgentFacts",
    "AgentMissing",
    "AgentQuestion",
    "Answer",
    "AnswerRefused",
    "Ask",
    "Asked",
    "Brief",
    "Caps",
    "Channel",
    "ChildLog",
    "ConfigError",
    "Context",
    "CoterieError",
    "DeltaRecord",
    "Display",
    "Ended",
    "Entry",
    "ErrorRecord",
    "Interaction",
    "InteractionRecord",
    "Limits",
    "Member",
    "MemberRecord",
    "Message",
    "MessageRecord",
    "NotFound",
    "NotOurs",
    "NotTrusted",
    "OpenProject",
    "Option",
    "PendingCall",
    "Permissions",
    "PhaseRecord",
    "Prompt",
    "QuestionView",
    "Record",
    "Response",
    "ResultRecord",
    "Stopped",
    "Storage",
    "StorageError",
    "TaskBusy",
    "TaskCreated",
    "TaskDetail",
    "TaskRecord",
    "TaskView",
    "Team",
    "TeamView",
    "TextDelta",
    "TicketRecord",
    "ToolCallFinished",
    "ToolCallRecord",
    "ToolCallStarted",
    "TurnCompleted",
    "TurnFailed",
    "TurnInterrupted",
    "Update",
    "Usage",
    "UsageError",
    "Waiting",
    "Workflow",
    "Workspace",
    "__version__",
    "open_project",
]

__version__ = "0.1.0"

_MODULES = (
    "errors",
    "model.team",
    "model.conversation",
    "model.interaction",
    "model.about",
    "model.agent",
    "model.record",
    "model.task",
    "model.tool_call",
    "model.update",
    "model.workspace",
    "ports",
    "app.open_project",
    "app.teams",
)
"""The modules that define the public names, the cheapest to import first."""

if not TYPE_CHECKING:  # type checkers use the imports above, and must report unknown names

    def __getattr__(name):
        modules = _MODULES if name in __all__ else ()
        for module in (import_module(f"{__name__}.{module}") for module in modules):
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return __all__
