"""Which rule allows a part of an action; and what kind of part it is, for where none does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from coterie.tools.permission.addresses import Address
from coterie.tools.permission.commands import Pattern
from coterie.tools.permission.globs import Glob
from coterie.tools.permission.looking import Look
from coterie.tools.permission.paths import GUARDED, PRIVATE, Place, is_below, locate
from coterie.tools.permission.rule import Rule, Tool
from coterie.tools.permission.shell import Command

Kind = Literal["look", "peek", "edit", "act"]
"""Looks at what is in the work folder; at anything else; changes a file in it; does more."""


@dataclass(frozen=True)
class Part:
    """A part of an action; all parts must be allowed."""

    kind: Kind
    rule: str | None = None
    """What allows it, in the words of the team file."""


@dataclass(frozen=True)
class Allowance:
    """What is allowed by rules, where."""

    root: str
    """The work folder, without links."""
    cwd: str
    """Where the action happens, without links."""
    rules: Sequence[tuple[str, Rule]]
    """Each with how to say it."""
    unread: Sequence[Glob]
    """What must not be read."""
    by_link: bool = False
    """Whether the shell may have got to its folder through a link."""

    def reading(self, path: str, folder: str) -> Part:
        """The part that is reading a file, or the names in a folder."""
        return self.looking_at(locate(path, folder))

    def looking_at(self, place: Place) -> Part:
        """The same of what a path leads to."""
        rule = self._for_path("read", place, PRIVATE)
        open_to_all = place.within(self.root) and not place.touches(PRIVATE, self.root)
        return Part("look" if rule or open_to_all else "peek", rule)

    def writing(self, path: str, folder: str) -> Part:
        """The part that is changing a file."""
        place = locate(path, folder)
        rule = self._for_path("write", place, GUARDED)
        free = place.within(self.root) and not place.touches(GUARDED, self.root)
        return Part("edit" if rule or free else "act", rule)

    def looking_through(self, folder: str, look: Look) -> Part:
        """The part that is reading all files of a folder."""
        private = any(os.path.lexists(f"{folder}/{name}") for name in PRIVATE)
        if private and look.leaves_out == "nothing":
            return Part("peek")
        unread = any(glob.lies_in(folder, self.root) for glob in self.unread if look.reads(glob))
        return Part("peek" if unread else "look")

    def fetching(self, target: str) -> Part:
        """The part that is reaching an address."""
        return Part(
            "act",
            self._first(lambda rule: isinstance(rule.about, Address) and rule.about.allows(target)),
        )

    def using(self, tool: str) -> str | None:
        """The rule that allows all that a tool does."""
        return self._first(lambda rule: isinstance(rule.about, Tool) and rule.about.matches(tool))

    def running(self, command: Command, folders: Sequence[str]) -> str | None:
        """The rule that allows a command in all these folders; it holds in the work folder."""
        if not all(is_below(folder, self.root) for folder in folders):
            return None
        return self._first(
            lambda rule: (
                isinstance(rule.about, Pattern) and rule.about.allows(command, folders, self.root)
            )
        )

    def _for_path(self, kind: str, place: Place, guarded: frozenset[str]) -> str | None:
        return self._first(
            lambda rule: (
                rule.kind == kind
                and isinstance(rule.about, Glob)
                and rule.about.allows(place, self.root, guarded)
            )
        )

    def _first(self, fits: Callable[[Rule], bool]) -> str | None:
        return next((words for words, rule in self.rules if fits(rule)), None)
