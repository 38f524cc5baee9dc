"""Whether somebody has signed in to Claude, by its own word, before anything is said to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import anyio

from coterie.agents.wire import Starting, Wire, WireEnded

ASK = ("--setting-sources=user", "--strict-mcp-config", "auth", "status")
"""Without the first word a repository could say for the user that there is a key."""
PATIENCE = 10.0
"""How long Claude may take to tell; in practice a third of a second."""
_NO = re.compile(r'"loggedIn":\s*false')
_UNSEEN = ("ANTHROPIC_CUSTOM_HEADERS", "--settings")
"""Where a key may be that the status knows nothing of: a header, settings of the member's own."""


async def is_signed_out(asking: Starting, words: Sequence[str]) -> bool:
    """Whether Claude says so; `words` are what the member's own Claude is started with.

    What it does not say for sure is left to the first turn, which then fails in its own words.
    """
    if any(word.startswith(_UNSEEN) for word in (*asking.env, *words)):
        return False
    wire = await Wire.open(asking)
    try:
        wire.child.close_stdin()
        with anyio.move_on_after(PATIENCE):
            while True:
                await wire.receive()
    except WireEnded as end:
        return end.exit_code != 0 and _NO.search(end.tail) is not None
    finally:
        with anyio.CancelScope(shield=True):
            await wire.close()
    return False
