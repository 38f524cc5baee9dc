"""Two tools that a CLI member has besides its agent's own: to ask the human, and to hand over."""
