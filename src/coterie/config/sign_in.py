"""Whether an agent is signed in: a key in the environment, its own word, or its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.config.environment import passthrough, user_home
from coterie.config.known_agents import KnownAgent

Asks = Callable[[Sequence[str]], bool]
"""Runs a command; whether it ended with 0."""


def has_key(known: KnownAgent) -> bool:
    """Whether the user's environment holds something that opens its model."""
    given = passthrough(known.keys)
    return any(given.get(key) for key in known.keys)


def signed_in(known: KnownAgent, command: str, asks: Asks) -> bool | None:
    """Whether an agent can reach its model; None where nothing tells."""
    if has_key(known):
        return True
    if not known.is_program:
        return False
    if known.sign_in_check is not None:
        return asks([command, *known.sign_in_check])
    home = user_home()
    if known.credentials is None or home is None:
        return None
    return (home / known.credentials).is_file()
