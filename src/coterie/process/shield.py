"""What must not be cut half-way: starting a child, and ending one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def shielded(call: Callable[[], Awaitable[T]]) -> T:
    """Run to the end even if the caller is cancelled meanwhile; whatever it does is bounded."""
    result: list[T] = []
    with anyio.CancelScope(shield=True):
        result.append(await call())
    return result[0]
