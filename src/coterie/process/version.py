"""Asking an installed program about itself: its version, and questions with yes or no."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence

PATIENCE = 10.0
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?")


def says_yes(words: Sequence[str]) -> bool:
    """Whether a command ends with 0.  Blocks."""
    try:
        asked = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return False
    return asked.returncode == 0


def version_of(command: str, search_path: str) -> str | None:
    """The version a program prints when asked; None when it cannot be asked.  Blocks.

    Asked in a home that is thrown away: some leave files behind even then.
    """
    try:
        with tempfile.TemporaryDirectory() as home:
            asked = subprocess.run(
                [command, "--version"],
                env={"HOME": home, "TMPDIR": home, "PATH": search_path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    found = _VERSION.search((asked.stdout + asked.stderr).decode("utf-8", "replace"))
    return found[0] if found and asked.returncode == 0 else None
