"""Claude Code: one long-lived process per member, JSON lines both ways."""

from coterie.agents.claude.adapter import ClaudeAdapter

__all__ = ["ClaudeAdapter"]
