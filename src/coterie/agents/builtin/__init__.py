"""The built-in agent: a model, our own tools and a loop that survives a crash at any point."""

from coterie.agents.builtin.adapter import BuiltinAdapter

__all__ = ["BuiltinAdapter"]
