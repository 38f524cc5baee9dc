"""The arguments that a registry entry and a team file give, as the adapter passes them on."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.agents.codex.home import toml_value
from coterie.agents.words import without

_CHOSEN = {
    "-": 0,
    "app-server": 0,
    "e": 0,
    "exec": 0,
    "--dangerously-bypass-approvals-and-sandbox": 0,
    "--dangerously-bypass-hook-trust": 0,
    "--experimental-json": 0,
    "--full-auto": 0,
    "--json": 0,
    "--skip-git-repo-check": 0,
    "--yolo": 0,
    "-C": 1,
    "--cd": 1,
    "--color": 1,
    "-a": 1,
    "--ask-for-approval": 1,
    "-o": 1,
    "--output-last-message": 1,
    "-s": 1,
    "--sandbox": 1,
}
"""What the adapter chooses itself, and how many words more belong to each."""
_MODEL = ("-m", "--model")


def passed_on(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments without those; a model as a setting, which every way of calling takes."""
    kept: list[str] = []
    rest = list(without(arguments, _CHOSEN))
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag in _MODEL:
            model = value if equals or not rest else rest.pop(0)
            kept += ["-c", f"model={toml_value(model)}"]
        else:
            kept.append(flag + equals + value)
    return tuple(kept)
