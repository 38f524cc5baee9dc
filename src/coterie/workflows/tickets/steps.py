"""The names of steps that others look for: what they gave is a fact about the session."""

from __future__ import annotations

GROUND = "ground"
"""The commit at which a session began; empty where there is no git."""
FINAL = "final/commit"
"""The commit with which it ended: that one is accepted, and no other."""
