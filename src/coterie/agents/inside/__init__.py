"""Two tools that a CLI member has besides its agent's own: to ask the human, and to hand over."""

from coterie.agents.inside.serving import Result, Serving
from coterie.agents.inside.tools import is_ours

__all__ = ["Result", "Serving", "is_ours"]
