"""The parts of an action, and which allow rule covers each: every file and every command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from coterie.model.action import Action
from coterie.tools.permission.nested_commands import without_shell, without_wrappers
from coterie.tools.permission.paths import (
    FREE,
    GUARDED,
    PRIVATE,
    PathPattern,
    ResolvedPath,
    exists_at_top,
    files_named,
    is_below,
    resolve,
)
from coterie.tools.permission.read_only import ReadAccess, is_read_only_program, read_access
from coterie.tools.permission.rules import AddressPattern, CommandPattern, Rule, ToolPattern
from coterie.tools.permission.shell_parser import CommandLine, Redirection, SimpleCommand, parse

PartKind = Literal["look", "peek", "edit", "act"]
"""Looks at what is in the work folder; at anything else; changes a file in it; does more."""


@dataclass(frozen=True)
class ActionPart:
    """A part of an action; all parts must be allowed."""

    kind: PartKind
    rule: str | None = None
    """What allows it, in the words of the team file."""


@dataclass(frozen=True)
class AllowRules:
    """What is allowed by rules, where."""

    root: str
    """The work folder, without links."""
    cwd: str
    """Where the action happens, without links."""
    rules: Sequence[tuple[str, Rule]]
    """Each with how to say it."""
    unread: Sequence[PathPattern]
    """What must not be read."""
    by_link: bool = False
    """Whether the shell may have got to its folder through a link."""

    def reading(self, path: str, folder: str) -> ActionPart:
        """The part that is reading a file, or the names in a folder."""
        return self.looking_at(resolve(path, folder))

    def looking_at(self, place: ResolvedPath) -> ActionPart:
        """The same of what a path leads to."""
        rule = self._for_path("read", place, PRIVATE)
        open_to_all = place.within(self.root) and not place.touches(PRIVATE, self.root)
        return ActionPart("look" if rule or open_to_all else "peek", rule)

    def writing(self, path: str, folder: str) -> ActionPart:
        """The part that is changing a file."""
        place = resolve(path, folder)
        rule = self._for_path("write", place, GUARDED)
        free = place.within(self.root) and not place.touches(GUARDED, self.root)
        return ActionPart("edit" if rule or free else "act", rule)

    def looking_through(self, folder: str, look: ReadAccess) -> ActionPart:
        """The part that is reading all files of a folder."""
        private = any(os.path.lexists(f"{folder}/{name}") for name in PRIVATE)
        if private and look.leaves_out == "nothing":
            return ActionPart("peek")
        unread = any(glob.lies_in(folder, self.root) for glob in self.unread if look.reads(glob))
        return ActionPart("peek" if unread else "look")

    def fetching(self, target: str) -> ActionPart:
        """The part that is reaching an address."""
        return ActionPart(
            "act",
            self._first(
                lambda rule: isinstance(rule.about, AddressPattern) and rule.about.allows(target)
            ),
        )

    def using(self, tool: str) -> str | None:
        """The rule that allows all that a tool does."""
        return self._first(
            lambda rule: isinstance(rule.about, ToolPattern) and rule.about.matches(tool)
        )

    def running(self, command: SimpleCommand, folders: Sequence[str]) -> str | None:
        """The rule that allows a command in all these folders; it holds in the work folder."""
        if not all(is_below(folder, self.root) for folder in folders):
            return None
        return self._first(
            lambda rule: (
                isinstance(rule.about, CommandPattern)
                and rule.about.allows(command, folders, self.root)
            )
        )

    def _for_path(self, kind: str, place: ResolvedPath, guarded: frozenset[str]) -> str | None:
        return self._first(
            lambda rule: (
                rule.kind == kind
                and isinstance(rule.about, PathPattern)
                and rule.about.allows(place, self.root, guarded)
            )
        )

    def _first(self, fits: Callable[[Rule], bool]) -> str | None:
        return next((words for words, rule in self.rules if fits(rule)), None)


MOST_FOLDERS = 20

_TOOL = ReadAccess((), leaves_out="hidden")
"""A tool that is given a folder may look through it; such tools leave out what is hidden."""


def parts_of(action: Action, allowance: AllowRules) -> list[ActionPart]:
    """The parts of an action."""
    rule = allowance.using(action.tool)
    if rule:
        return [ActionPart("act", rule)]
    if action.command:
        return _Walk(without_shell(parse(action.command)), allowance).parts()
    if action.effect == "read":
        return [part for path in action.paths or (".",) for part in _tool_reads(path, allowance)]
    if action.effect == "write" and action.paths:
        return [allowance.writing(path, allowance.cwd) for path in action.paths]
    if action.effect == "fetch":
        return [allowance.fetching(action.target)]
    return [ActionPart("act")]


def _tool_reads(path: str, allowance: AllowRules) -> Iterator[ActionPart]:
    place = resolve(path, allowance.cwd)
    part = allowance.looking_at(place)
    yield part
    if part.rule is None and os.path.isdir(place.real):  # noqa: PTH112 - Path minds a long name
        yield allowance.looking_through(place.real, _TOOL)


class _Walk:
    """Through a command line, knowing which folders it may be in at each command."""

    def __init__(self, line: CommandLine, allowance: AllowRules) -> None:
        self._line = line
        self._allowance = allowance
        self._folders = [allowance.cwd]
        self._lost = False
        """Whether it may be anywhere."""
        self._by_link = allowance.by_link
        self._still = all(map(_changes_no_file, line.commands))
        self._sure = _in_sequence(line.commands)

    def parts(self) -> list[ActionPart]:
        if not (self._line.clear and self._line.understood):
            return [ActionPart("act")]
        numbered = enumerate(self._line.commands)
        found = [part for place, command in numbered for part in self._of(place, command)]
        return found or [ActionPart("look")]

    def _of(self, place: int, command: SimpleCommand) -> Iterator[ActionPart]:
        for opened in command.redirections:
            if opened.target.text not in FREE:
                yield from self._opens(opened)
        if command.words or command.assignments:
            yield from self._runs(place, command)

    def _opens(self, opened: Redirection) -> Iterable[ActionPart]:
        if self._lost:
            return [ActionPart("act")]
        opens = self._allowance.reading if opened.effect == "read" else self._allowance.writing
        return [opens(opened.target.text, folder) for folder in self._folders]

    def _runs(self, place: int, command: SimpleCommand) -> Iterable[ActionPart]:
        if self._lost:
            return [ActionPart("act")]
        bare = without_wrappers(command)
        rules = (self._allowance.running(one, self._folders) for one in (command, bare))
        rule = next(filter(None, rules), None)
        if bare.texts[:1] in (("cd",), ("pushd",), ("popd",)):
            return [self._enters(command, rule, sure=place in self._sure)]
        return [ActionPart("act", rule)] if rule else self._looks(bare)

    def _enters(self, command: SimpleCommand, rule: str | None, *, sure: bool) -> ActionPart:
        """A folder is entered or, where that may have failed, not: what follows runs in either."""
        target = command.words[-1].text
        simple = len(command.words) == 2 and command.texts[0] == "cd" and not command.assignments
        if not simple or command.words[-1].glob or target.startswith("-") or not target:
            self._lost = True
            return ActionPart("act", rule)
        places = [resolve(target, folder) for folder in self._folders]
        self._by_link = self._by_link or any(place.named != place.real for place in places)
        entered = [place.real for place in places]
        self._folders = list(dict.fromkeys(entered if sure else self._folders + entered))
        # From a folder reached through a link, `..` is one thing to a shell, another to the system.
        confusing = self._by_link and ".." in target.split("/")
        self._lost = confusing or len(self._folders) > MOST_FOLDERS
        within = not self._lost and all(place.within(self._allowance.root) for place in places)
        return ActionPart("look" if within else "peek", rule)

    def _looks(self, command: SimpleCommand) -> list[ActionPart]:
        parts: list[ActionPart] = []
        for folder in self._folders:
            arguments = self._arguments(command, folder)
            look = None if arguments is None else read_access(command, arguments, folder)
            if look is None:
                return [ActionPart("act")]
            parts += self._looks_at(look, folder)
        return parts

    def _arguments(self, command: SimpleCommand, folder: str) -> tuple[str, ...] | None:
        """What the program gets; None where files that do not exist yet may be among it."""
        arguments: list[str] = []
        for word in command.words[1:]:
            names = files_named(word.text, folder) if word.glob and self._still else ()
            if names is None or (word.glob and not self._still):
                return None
            arguments += names or (word.text,)
        return tuple(arguments)

    def _looks_at(self, look: ReadAccess, folder: str) -> Iterator[ActionPart]:
        yield ActionPart("look")
        for file in look.files:
            if not file.startswith("/") or exists_at_top(file):
                yield self._allowance.reading(file, folder)
        for each in look.folders(folder):
            yield self._allowance.looking_through(each, look)


def _in_sequence(commands: tuple[SimpleCommand, ...]) -> frozenset[int]:
    """The places of commands without whose success no later one runs: `cd src && npm test`."""
    if not all(command.before in ("", "&&", "|") for command in commands):
        return frozenset()
    piped = {place for place, command in enumerate(commands) if command.before == "|"}
    piped |= {place for place, (_, after) in enumerate(pairwise(commands)) if after.before == "|"}
    return frozenset(range(len(commands))) - piped


def _changes_no_file(command: SimpleCommand) -> bool:
    writes = any(
        opened.effect == "write" and opened.target.text not in FREE
        for opened in command.redirections
    )
    program = without_wrappers(command).texts[:1]
    return not writes and (not program or program[0] == "cd" or is_read_only_program(program[0]))
