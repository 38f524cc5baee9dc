"""What other packages bring by entry points, whatever may be wrong with them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from coterie.errors import UsageError


def load_entry_point(point: EntryPoint, what: str) -> Any:
    """What an entry point stands for; raises UsageError where its package is broken.

    `what` is what it would be, for the message: `workflow`, `agent`.
    """
    try:
        return point.load()
    except Exception as error:
        said = f"The {what} {point.name} ({point.value}) cannot be loaded: {error}."
        package = f" {point.dist.name}" if point.dist else ""
        raise UsageError(said, f"Mend or remove the package{package}.") from error
