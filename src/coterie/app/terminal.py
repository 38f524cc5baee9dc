"""What the user's environment says of their terminal; cheap to import, as every command does."""

from __future__ import annotations


def terminal_type() -> str | None:
    """TERM, if it is set."""
    from coterie.config.project import passthrough

    return passthrough().get("TERM")


def wants_no_colour() -> bool:
    """Whether NO_COLOR is set."""
    from coterie.config.project import passthrough

    return bool(passthrough(("NO_COLOR",)).get("NO_COLOR"))
