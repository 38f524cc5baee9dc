"""A storage whose process dies at a chosen moment, to prove that nothing is ever lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from functools import partial
from inspect import ismethod
from typing import Any

from coterie.model.journal import Fence, Write
from coterie.ports import Storage


class Crashed(BaseException):
    """The process is gone: nothing it still does reaches the disk."""


@dataclass(frozen=True)
class CrashPoint:
    """When to crash: at the n-th call, before or after it takes effect, with or without the
    writes that are only queued."""

    call: int
    took_effect: bool
    queued_kept: bool


@dataclass
class CrashingStorage:
    """Forwards everything to a real storage until the crash; implements `ports.Storage`."""

    real: Storage
    crash: CrashPoint | None
    calls: int = 0
    dead: bool = False
    _queued: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    events: Any = field(init=False)
    audit: Any = field(init=False)
    conversation: Any = field(init=False)
    journal: Any = field(init=False)
    tickets: Any = field(init=False)
    inbox: Any = field(init=False)
    leases: Any = field(init=False)
    reservations: Any = field(init=False)
    timeline: Any = field(init=False)
    notifications: Any = field(init=False)
    create: Any = field(init=False)
    history: Any = field(init=False)
    commit: Any = field(init=False)
    member_states: Any = field(init=False)
    problems: Any = field(init=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            if not each.init:
                part = getattr(self.real, each.name)
                crashing = (
                    partial(self.call_through, part)
                    if ismethod(part)
                    else _CrashingPart(self, part)
                )
                setattr(self, each.name, crashing)

    def post(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        """Hold writes until the next call, as a process holds them until the next commit."""
        self.queue(lambda: self.real.post(fence, *writes, after=after))

    def queue(self, call: Callable[..., None], *arguments: object) -> None:
        """Queue a call that nobody waits for."""
        if self.dead:
            raise Crashed
        self._queued.append(partial(call, *arguments))

    async def changed(self, seen: int) -> int:
        """Wait for a change; this does not count as a call."""
        self._flush()
        return await self.real.changed(seen)

    async def close(self) -> None:
        self._flush()
        await self.real.close()

    async def call_through(
        self, call: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        """Make one call, which may be the last."""
        if self.dead:
            raise Crashed
        self.calls += 1
        dying = self.crash is not None and self.calls == self.crash.call
        if self.crash is not None and dying and not self.crash.took_effect:
            await self._die(self.crash)
        self._flush()
        result = await call(*args, **options)
        if self.crash is not None and dying:
            await self._die(self.crash)
        return result

    async def _die(self, crash: CrashPoint) -> None:
        if crash.queued_kept:
            self._flush()
            await self.real.commit(None)  # or it might land after the next process's writes
        self._queued.clear()
        self.dead = True
        raise Crashed

    def _flush(self) -> None:
        if not self.dead:
            for put in self._queued:
                put()
            self._queued.clear()


class _CrashingPart:
    """One part of a crashing storage."""

    def __init__(self, storage: CrashingStorage, real: object) -> None:
        self._storage = storage
        self._real = real

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name == "drop":
            return partial(self._storage.queue, call)
        posts = name in ("set_child_pid", "drop_child")
        return call if posts else partial(self._storage.call_through, call)
