"""Use cases: what a surface can do is one call here; only this code names concrete classes."""
