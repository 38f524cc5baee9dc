"""Two tools that a CLI member gets on top of its agent's own: ask the human, and hand over."""
