"""Where a search looks, by what its tool was given."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import PurePath

_WILD = frozenset("*?[{")
_BRACED = re.compile(r"\{[^}]*/")
ANYWHERE = "/"


def searched(folder: str, pattern: str = "") -> str:
    """The folder that a search is in: the one it was given, or where its pattern itself leads."""
    names = pattern.split("/")
    if ".." in names or _BRACED.search(pattern):
        return ANYWHERE
    fixed = takewhile(lambda name: not _WILD.intersection(name), names[:-1])
    root = "/" if pattern.startswith("/") else ""
    return str(PurePath(folder or ".", root + "/".join(fixed).lstrip("/")))
