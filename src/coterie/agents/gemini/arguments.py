"""The arguments that a registry entry and a team file give, as the adapter passes them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.agents.words import without

_CHOSEN: Mapping[str, int] = {
    "--acp": 0,
    "--experimental-acp": 0,
    "--list-sessions": 0,
    "--skip-trust": 0,
    "-y": 0,
    "--yolo": 0,
    "--approval-mode": 1,
    "--delete-session": 1,
    "-i": 1,
    "--prompt-interactive": 1,
    "-o": 1,
    "--output-format": 1,
    "-p": 1,
    "--prompt": 1,
    "-r": 1,
    "--resume": 1,
    "--session-id": 1,
}
"""What is not for others to choose, and how many words more belong to each."""


def passed_on(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments without those."""
    return without(arguments, _CHOSEN)
