"""Load what other packages provide by entry points, however broken they may be."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from coterie.errors import UsageError


def load_entry_point(point: EntryPoint, what: str) -> Any:
    """Load the object of an entry point; raises UsageError if its package is broken.

    `what` names its kind in the message: `workflow`, `agent`.
    """
    try:
        return point.load()
    except Exception as error:
        said = f"The {what} {point.name} ({point.value}) cannot be loaded: {error}."
        package = f" {point.dist.name}" if point.dist else ""
        raise UsageError(said, f"Fix or remove the package{package}.") from error
