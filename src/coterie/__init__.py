"""Coterie: the coding agents you already have, as one team that you can leave alone.

Names listed in `__all__` are the public surface; everything else may change without notice.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
