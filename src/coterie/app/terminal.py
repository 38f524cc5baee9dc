"""What the user's environment says of their terminal; cheap to import, as every command does."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def terminal_type() -> str | None:
    """TERM, if it is set."""
    from coterie.config.project import passthrough

    return passthrough().get("TERM")


def wants_no_colour() -> bool:
    """Whether NO_COLOR is set."""
    from coterie.config.project import passthrough

    return bool(passthrough(("NO_COLOR",)).get("NO_COLOR"))


def has_desktop() -> bool:
    """Whether a browser would open beside the terminal, and not in it."""
    from coterie.config.project import passthrough

    shown = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(passthrough(shown).get(name) for name in shown)


def open_streams() -> None:
    """Put something in the place of streams that the shell closed, which are None."""
    # In this order: what is opened next must not get the number of one that is closed, or a child
    # would inherit a file of ours as its stdin.
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
