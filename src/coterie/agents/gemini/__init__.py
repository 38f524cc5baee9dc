"""Gemini CLI: the Agent Client Protocol on one long-lived process, headless where it has none."""

from coterie.agents.gemini.adapter import GeminiAdapter

__all__ = ["GeminiAdapter"]
