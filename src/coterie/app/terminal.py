"""What the environment says about the user's terminal; cheap, as every command imports it."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def terminal_type() -> str | None:
    """Return TERM, if it is set."""
    from coterie.config.project import passthrough

    return passthrough().get("TERM")


def wants_no_colour() -> bool:
    """Whether NO_COLOR is set."""
    from coterie.config.project import passthrough

    return bool(passthrough(("NO_COLOR",)).get("NO_COLOR"))


def has_desktop() -> bool:
    """Whether a browser would open next to the terminal, not inside it."""
    from coterie.config.project import passthrough

    shown = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(passthrough(shown).get(name) for name in shown)


def open_streams() -> None:
    """Replace standard streams that the shell closed, which are None."""
    # In this order, so that each gets its usual descriptor: a file opened later must not take that
    # of a closed stream, or a child would inherit it as its stdin.
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
