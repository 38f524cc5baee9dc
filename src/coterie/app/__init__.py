"""Use cases: each operation of a surface is one call here; only here are concrete classes named."""
