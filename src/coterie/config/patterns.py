"""What texts in a file may look like, and how that is said to a person."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.model.team import NAME_PATTERN

LINE = r"^[^\x00-\x1f\x7f-\x9f\[\]]{1,80}$"
"""A name that is printed, and written in `[NEXT: name]`."""
LABEL = r"^[^\x00-\x1f\x7f-\x9f]{0,200}$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
ARGUMENT = r"^[^\x00]*$"
"""What the system can pass to a process at all."""
PATH = r"^[^\x00]+$"
MODEL = r"^[^\x00-\x20\x7f-][^\x00-\x20\x7f]*$"
"""It follows a flag on the command line, so it must not look like another."""
DURATION = r"^[1-9][0-9]{0,8}(ms|s|m|h)$"

WORDS: Mapping[str, str] = {
    NAME_PATTERN: "letters, digits, . _ or -, at most 64, the first a letter or digit",
    LINE: "one line of at most 80 characters without [ or ]",
    LABEL: "one line of at most 200 characters",
    VARIABLE: "letters, digits and _, the first no digit",
    ARGUMENT: "text without null characters",
    PATH: "a path",
    MODEL: "a model's name without spaces, not beginning with -",
    DURATION: "a time such as 90s, 5m or 1h",
}
