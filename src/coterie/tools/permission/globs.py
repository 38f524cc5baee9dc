"""Patterns of paths: `*` within a name, `**` across folders, counted from the work folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache

from coterie.tools.permission.paths import Place, at_home, is_below, locate

_WILD = re.compile(r"[*?]")


@dataclass(frozen=True)
class Glob:
    """A pattern of paths; `~` and absolute ones name places anywhere."""

    text: str

    def allows(self, place: Place, root: str, guarded: frozenset[str]) -> bool:
        """Whether the pattern covers where the path really leads.

        What is guarded must be named by the pattern itself: `**` does not reach into it.
        """
        if not place.sure:
            return False
        # A folder of the work folder that became a link is not what the pattern was written for.
        anywhere = self.text.startswith(("/", "~"))
        readings = self._readings(root) if anywhere else (_anchored(self.text, root),)
        for anchored in readings:
            named = frozenset(name.casefold() for name in anchored.split("/"))
            prefix = "/" + "/".join(_literal(anchored))
            if _matcher(anchored, below=False).fullmatch(place.real):
                return not place.touches(guarded - named, prefix)
        return False

    def forbids(self, place: Place, root: str) -> bool:
        """Whether the path, as named or as it really is, may be something the pattern covers."""
        return any(
            _matcher(anchored, below=True).fullmatch(path)
            for anchored in self._readings(root)
            for path in (place.named, place.real)
        )

    def lies_in(self, folder: str, root: str) -> bool:
        """Whether something that the pattern covers may be in a folder."""
        for anchored in self._readings(root):
            literal = "/" + "/".join(_literal(anchored))
            if is_below(literal, folder) or (_WILD.search(anchored) and is_below(folder, literal)):
                return True
        return False

    @property
    def is_hidden(self) -> bool:
        """Whether all that it covers has a name with a dot in front on its way."""
        return any(re.match(r"\.[^./]", name) for name in self.text.split("/"))

    def hinted_in(self, text: str) -> bool:
        """Whether a text that nobody can take apart speaks of what the pattern covers."""
        names = [name for name in self.text.split("/") if name not in ("", ".", "..", "~", "**")]
        if not names:
            return True
        plain = [name for name in names if not _WILD.search(name)]
        if plain:
            return mentions(text, plain[-1])
        longest = max(_WILD.split(names[-1]), key=len)
        return longest in text

    def _readings(self, root: str) -> tuple[str, ...]:
        """The pattern as written, and with the links in its fixed part followed."""
        anchored = _anchored(self.text, root)
        literal = _literal(anchored)
        rest = anchored.split("/")[len(literal) + 1 :]
        real = locate("/" + "/".join(literal), "/").real
        return (anchored, "/".join([real.rstrip("/"), *rest]) or "/")


def mentions(text: str, name: str) -> bool:
    """Whether a name stands in a text as a word of its own."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text) is not None


def _anchored(text: str, root: str) -> str:
    path = at_home(text)
    folder = path.endswith("/")
    whole = "/" + os.path.normpath(os.path.join(root, path)).lstrip("/")  # noqa: PTH118
    return f"{whole.rstrip('/')}/**" if folder else whole


def _literal(anchored: str) -> list[str]:
    """The names before the first wildcard."""
    names: list[str] = []
    for name in anchored.strip("/").split("/"):
        if _WILD.search(name):
            break
        names.append(name)
    return names


@lru_cache(maxsize=512)
def _matcher(anchored: str, *, below: bool) -> re.Pattern[str]:
    """`below`: what is covered takes all below it along, and `x/**` the folder `x` itself."""
    names = anchored.strip("/").split("/")
    last = len(names) - 1
    parts: list[str] = []
    for place, name in enumerate(names):
        if name == "**":
            parts.append("(?:/[^/]+)+" if place == last and not below else "(?:/[^/]+)*")
        else:
            parts.append("/" + _translated(name))
    return re.compile("".join(parts) + ("(?:/.*)?" if below else ""), re.DOTALL)


def _translated(name: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(char) or re.escape(char) for char in name)
