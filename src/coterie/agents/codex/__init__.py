"""Codex: its app-server as a long-lived process, `codex exec` where there is none."""

from coterie.agents.codex.adapter import CodexAdapter

__all__ = ["CodexAdapter"]
