"""A storage whose process dies at a chosen moment: for proving that no moment loses anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from functools import partial
from inspect import ismethod
from typing import Any

from coterie.model.journal import Fence, Write
from coterie.ports import Storage


class Died(BaseException):
    """The process is gone: nothing it does any more reaches the disk."""


@dataclass(frozen=True)
class Death:
    """When to die: at the n-th call, before or after it took effect, with or without what was
    only queued."""

    call: int
    took_effect: bool
    queued_kept: bool


@dataclass
class MortalStorage:
    """Passes everything on to a real storage until death; implements `ports.Storage`."""

    real: Storage
    death: Death | None
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
                mortal = partial(self.live, part) if ismethod(part) else _Mortal(self, part)
                setattr(self, each.name, mortal)

    def post(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        """Keep it until the next call, as a process keeps it until the next commit."""
        self.queue(lambda: self.real.post(fence, *writes, after=after))

    def queue(self, call: Callable[..., None], *given: object) -> None:
        """Keep a call that nobody waits for."""
        if self.dead:
            raise Died
        self._queued.append(partial(call, *given))

    async def changed(self, seen: int) -> int:
        """Waiting is no moment of its own."""
        self._flush()
        return await self.real.changed(seen)

    async def close(self) -> None:
        self._flush()
        await self.real.close()

    async def live(self, call: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """One call, which may be the last."""
        if self.dead:
            raise Died
        self.calls += 1
        dying = self.death is not None and self.calls == self.death.call
        if self.death is not None and dying and not self.death.took_effect:
            await self._die(self.death)
        self._flush()
        result = await call(*args, **options)
        if self.death is not None and dying:
            await self._die(self.death)
        return result

    async def _die(self, death: Death) -> None:
        if death.queued_kept:
            self._flush()
            await self.real.commit(None)  # else it might come after what another does then
        self._queued.clear()
        self.dead = True
        raise Died

    def _flush(self) -> None:
        if not self.dead:
            for put in self._queued:
                put()
            self._queued.clear()


class _Mortal:
    """A part of a mortal storage."""

    def __init__(self, storage: MortalStorage, real: object) -> None:
        self._storage = storage
        self._real = real

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name == "drop":
            return partial(self._storage.queue, call)
        posts = name in ("set_child_pid", "drop_child")
        return call if posts else partial(self._storage.live, call)
