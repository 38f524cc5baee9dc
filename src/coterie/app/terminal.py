"""What the user's environment says of their terminal."""

from __future__ import annotations

from coterie.config.environment import passthrough


def terminal_type() -> str | None:
    """TERM, if it is set."""
    return passthrough().get("TERM")


def wants_no_colour() -> bool:
    """Whether NO_COLOR is set."""
    return bool(passthrough(("NO_COLOR",)).get("NO_COLOR"))
