"""Two tools that a CLI member has besides its agent's own: to ask the human, and to hand over."""

from coterie.agents.team_tools.serving import Result, Serving, is_ours

__all__ = ["Result", "Serving", "is_ours"]
