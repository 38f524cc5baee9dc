"""One login for all members of an agent: locked while a CLI may renew it.

A vendor may issue a new refresh token with every renewal and revoke the old one, so that if two
members renew at once, one of them is signed out, and everybody with it.  Some CLIs lock the file
themselves, some do not.  So while a login is about to expire, only one member at a time, across all
processes, is started or begins a turn, until its model has answered; the others then find the login
renewed.  The lock is on the file itself: nothing is written next to it, and it ends with the
process that holds it.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import anyio
import anyio.to_thread

from coterie.model import instant
from coterie.model.agent import LoginFacts
from coterie.model.conversation import Limits, Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import Activity, TurnInterrupted, Update, Waiting
from coterie.model.workspace import Workspace
from coterie.ports import Adapter, Channel

MARGIN = 600.0
"""Seconds before expiry from which a renewal is expected: CLIs renew some minutes early."""
TIMEOUT = 60.0
"""How many seconds the others wait for a renewal before they try by themselves."""
_POLL_INTERVAL = 0.05
_MILLISECONDS = 1e11
"""A timestamp beyond this is in milliseconds."""


@dataclass(frozen=True)
class Login:
    """The login file that signing in left in the user's home."""

    path: Path
    facts: LoginFacts

    def is_due(self) -> bool:
        """Whether a CLI that uses it now may renew it.  Blocks."""
        try:
            data = cast("object", json.loads(self.path.read_bytes()))
        except (OSError, ValueError, RecursionError):
            return False
        expiries = [
            at for at in map(_instant, _values_at(data, self.facts.expiry)) if at is not None
        ]
        return bool(expiries) and min(expiries) - _now() < MARGIN

    @asynccontextmanager
    async def held(
        self, is_given_up: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[LoginLock | None]:
        """Hold the lock for the block; yields None if none is needed, or waiting for it took too
        long or is given up."""
        held = await anyio.to_thread.run_sync(self._try)
        with anyio.move_on_after(TIMEOUT):
            while held == "busy" and not is_given_up():
                await anyio.sleep(_POLL_INTERVAL)
                held = await anyio.to_thread.run_sync(self._try)
        if not isinstance(held, LoginLock):
            yield None
            return
        try:
            yield held
        finally:
            held.release()

    def _try(self) -> LoginLock | Literal["busy", "not due"]:
        """Take the lock, unless somebody else holds it or no renewal is due."""
        if not self.is_due():
            return "not due"
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return "not due"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return "busy"
        held = LoginLock(descriptor)
        if not self.is_due():  # renewed meanwhile, perhaps by replacing the file
            held.release()
            return "not due"
        return held


class LoginLock:
    """The lock on a login, held until it is released."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _now() -> float:
    return instant.seconds_between("1970-01-01T00:00:00.000Z", instant.now())


def _values_at(data: object, path: tuple[str, ...]) -> Iterator[object]:
    """Yield the values at this path of nested names; `*` matches any name."""
    if not path:
        yield data
    elif isinstance(data, dict):
        entries = cast("dict[str, object]", data)
        name, *rest = path
        for key in entries if name == "*" else (name,):
            yield from _values_at(entries.get(key), tuple(rest))


def _instant(value: object) -> float | None:
    """Return an expiry in seconds: from a number, or from a token's own claims."""
    if isinstance(value, str) and value.count(".") == 2:
        body = value.split(".")[1]
        try:
            claims = cast(
                "object", json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            )
        except ValueError:
            return None
        value = cast("dict[str, object]", claims).get("exp") if isinstance(claims, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if value > _MILLISECONDS else float(value)


@dataclass(frozen=True)
class LoginAdapter:
    """`ports.Adapter` for an agent that people sign in to."""

    inner: Adapter
    facts: LoginFacts

    def limits(self, member: Member) -> Limits:
        """Return the limits of the agent itself."""
        return self.inner.limits(member)

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> Channel:
        """Open a channel; the login is locked meanwhile, and at the start of each turn."""
        if workspace.user_home is None or workspace.rehearsal is not None:
            return await self.inner.open(member, workspace, thread)
        login = Login(workspace.user_home / self.facts.file, self.facts)
        async with login.held():
            return LoginChannel(await self.inner.open(member, workspace, thread), login)


@dataclass(eq=False)
class LoginChannel:
    """`ports.Channel` to an agent that people sign in to."""

    inner: Channel
    login: Login
    _interrupted: bool = False

    @property
    def thread(self) -> str | None:
        return self.inner.thread

    @property
    def holds_past(self) -> bool:
        return self.inner.holds_past

    @property
    def asks_first(self) -> bool:
        return bool(getattr(self.inner, "asks_first", False))

    @property
    def pid(self) -> int | None:
        return self.inner.pid

    @property
    def alive(self) -> bool:
        return self.inner.alive

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Take a turn; the login is released once the agent has heard from the model."""
        self._interrupted = False
        turn = self.inner.take_turn(prompt)
        async with self.login.held(lambda: self._interrupted) as held, aclosing(turn) as updates:
            if self._interrupted:  # while it waited: nothing has been sent
                yield TurnInterrupted()
                return
            async for update in updates:
                if held is not None and not isinstance(update, Activity | Waiting):
                    held.release()
                yield update

    async def answer(self, key: str, response: Response) -> None:
        await self.inner.answer(key, response)

    async def interrupt(self) -> None:
        self._interrupted = True
        await self.inner.interrupt()

    async def close(self) -> None:
        await self.inner.close()
