"""A member as it is shown: who it is, its agent, and in red that it never asks."""

from __future__ import annotations

from coterie.cli.text import Paint
from coterie.model.message import YOU
from coterie.model.team import Member

FULL = "full"


def about(member: Member) -> str:
    """A member's agent, and its permissions where they are not the usual ones."""
    mode = "" if member.permissions.mode == "ask" else f" · {member.permissions.mode}"
    return f"{member.agent or YOU}{mode}"


def asking(member: Member | None, name: str) -> str:
    """Who asks: `ada (claude)`, or Coterie itself; nobody when it is a human's own turn."""
    if member is None:
        return "" if name == YOU else name
    return f"{member.id} ({about(member)})" if member.agent else ""


def painted(shown: str, paint: Paint) -> str:
    """What `about` said, quiet but for the word that must be seen."""
    if shown != FULL and not shown.endswith(f" {FULL}"):
        return paint(shown, "dim")
    return paint(shown.removesuffix(FULL), "dim") + paint(FULL, "bad")


def warned(shown: str, paint: Paint) -> str:
    """A cell of a table, with `full` at its end in red."""
    if shown != FULL and not shown.endswith(f" {FULL}"):
        return shown
    return shown.removesuffix(FULL) + paint(FULL, "bad")
