"""Colours by what they mean, so that no screen picks its own."""

from __future__ import annotations

from typing import Literal

import click

Meaning = Literal["name", "dim", "good", "asks", "bad", "title", "added", "removed", "place"]

_COLOURS: dict[Meaning, tuple[str | None, bool, bool]] = {
    "name": ("cyan", True, False),
    "dim": (None, False, True),
    "good": ("green", False, False),
    "asks": ("yellow", True, False),
    "bad": ("red", True, False),
    "title": (None, True, False),
    "added": ("green", False, False),
    "removed": ("red", False, False),
    "place": ("cyan", False, False),
}


class Paint:
    """Puts colour on text where colour is wanted; without it the words say the same."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __call__(self, shown: str, meaning: Meaning) -> str:
        """The text, in its colour."""
        if not self._wanted or not shown:
            return shown
        colour, bold, dim = _COLOURS[meaning]
        return click.style(shown, fg=colour, bold=bold or None, dim=dim or None)
