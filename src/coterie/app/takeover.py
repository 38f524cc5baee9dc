"""What is done before the tasks of a silent machine are taken over: by the user's settings."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.to_thread

from coterie.config.project import environment, user_home
from coterie.config.settings import Settings, load_settings
from coterie.model.machine import OwnerRow
from coterie.process.launch import capture

LIMIT = 60.0
"""How many seconds the command of the setting `fence` has."""
_OUTPUT = 1 << 16


def fencing(home: Path | None) -> Callable[[OwnerRow], Awaitable[bool]]:
    """Whether a silent owner may be declared dead: `takeover: ask` leaves that to the user, and
    `fence` must have ended its machine."""

    async def fenced(row: OwnerRow) -> bool:
        settings = (await anyio.to_thread.run_sync(load_settings, None, home)).values
        if settings.takeover == "ask":
            return False
        return settings.fence is None or await _ended(settings, row.machine)

    return fenced


async def _ended(settings: Settings, machine: str) -> bool:
    words = [word.replace("{machine}", machine) for word in shlex.split(settings.fence or "")]
    place = str(user_home() or Path("/"))
    try:
        ran = await capture(words, place, environment(), most=_OUTPUT, patience=LIMIT, given=b"")
    except (OSError, ValueError):
        return False
    return ran.status == 0
