"""What version a program says it is."""

from __future__ import annotations

import re
import subprocess

PATIENCE = 10.0
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?")


def version_of(command: str) -> str | None:
    """The version a program prints when asked; None when it cannot be asked.  Blocks."""
    try:
        asked = subprocess.run(
            [command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    found = _VERSION.search((asked.stdout + asked.stderr).decode("utf-8", "replace"))
    return found[0] if found and asked.returncode == 0 else None
