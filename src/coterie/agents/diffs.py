"""Changes of files as people read them."""

from __future__ import annotations

import difflib

NOTHING = "/dev/null"


def unified(path: str, old: str, new: str) -> str:
    """The change of one file; an empty text stands for no file.  To compare may take a while."""
    names = (path if old else NOTHING, path if new else NOTHING)
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
    # A change that no line shows is still one.
    return "\n".join(lines) or f"--- {path}\n+++ {path}\n(the ends of lines alone)"
