"""What the user's environment says of their terminal; cheap to import, as every command does."""

from __future__ import annotations

import io
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


def open_streams() -> None:
    """Make sure that there is something to read and write, and that any text can be."""
    # They are None where the shell closed them.  In this order: what is opened next must not get
    # the number of one that is closed, or a child would inherit a file of ours as its stdin.
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An agent may say what this terminal cannot show; that must not end a command.
            stream.reconfigure(errors="replace")
    stdin: object = sys.stdin
    if isinstance(stdin, io.TextIOWrapper):
        # As with arguments: a byte that is no text is shown for what it is.
        stdin.reconfigure(errors="surrogateescape")
