"""What is asked of a ground, without holding up the rest of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio.to_thread

from coterie.workspace.ticket_worktrees import SharedFolder, TicketFolders

T = TypeVar("T")
Given = TypeVarTuple("Given")


async def aside(ground: TicketFolders, call: Callable[[*Given], T], *given: *Given) -> T:
    """Call something of a ground: in a thread, unless nothing of it ever waits for git."""
    if isinstance(ground, SharedFolder):
        return call(*given)
    return await anyio.to_thread.run_sync(call, *given)
