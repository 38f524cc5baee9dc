"""Turning this process into another program, for a person who wants to use it directly."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn


def become(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> NoReturn:
    """Run a program in our place, in that folder and with that environment; OSError if not."""
    os.chdir(cwd)
    os.execvpe(words[0], list(words), dict(env))  # noqa: S606 - no shell is wanted
