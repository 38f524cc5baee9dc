"""The tools of the built-in agent: what it can do to the world, and what keeps it within bounds."""
