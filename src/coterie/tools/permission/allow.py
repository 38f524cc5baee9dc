"""The parts of an action, and which allow rule covers each: every file and every command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from coterie.model.tool_call import Action
from coterie.tools.permission import paths
from coterie.tools.permission.nested_commands import without_shell, without_wrappers
from coterie.tools.permission.read_only import ReadAccess, is_read_only_program, read_access
from coterie.tools.permission.rules import AddressPattern, CommandPattern, Rule, ToolPattern
from coterie.tools.permission.shell_parser import CommandLine, Redirection, SimpleCommand, parse

PartKind = Literal["read", "read_elsewhere", "edit", "act"]
"""Reads in the work folder; reads anything else; edits a file in it; does more than that."""
_P = TypeVar("_P", CommandPattern, paths.PathPattern, AddressPattern, ToolPattern)


@dataclass(frozen=True)
class ActionPart:
    """A part of an action; all parts must be allowed."""

    kind: PartKind
    rule: str | None = None
    """The rule that allows it, as written in the team file."""


@dataclass(frozen=True)
class AllowRules:
    """The rules that allow, and the folders that they apply to."""

    root: str
    """The work folder, without links."""
    cwd: str
    """Where the action happens, without links."""
    rules: Sequence[tuple[str, Rule]]
    """Each with its text for the ruling."""
    unread: Sequence[paths.PathPattern]
    """What deny rules forbid to read."""
    guarded: frozenset[str] = paths.GUARDED
    """Names that permission to edit files does not reach."""
    through_link: bool = False
    """Whether the shell may have entered its folder through a link."""

    def reading(self, place: paths.ResolvedPath) -> ActionPart:
        """Reading a file, or the names in a folder."""
        rule, free = self._for_path("read", place, paths.PRIVATE)
        return ActionPart("read" if rule or free else "read_elsewhere", rule)

    def writing(self, place: paths.ResolvedPath) -> ActionPart:
        rule, free = self._for_path("write", place, self.guarded)
        return ActionPart("edit" if rule or free else "act", rule)

    def reading_all(self, folder: str, access: ReadAccess) -> ActionPart:
        """Reading all files below a folder."""
        private = any(os.path.lexists(f"{folder}/{name}") for name in paths.PRIVATE)
        if private and access.skips == "nothing":
            return ActionPart("read_elsewhere")
        unread = any(glob.lies_in(folder, self.root) for glob in self.unread if access.reads(glob))
        return ActionPart("read_elsewhere" if unread else "read")

    def fetching(self, target: str) -> ActionPart:
        rule = self._first("fetch", AddressPattern, lambda about: about.allows(target))
        return ActionPart("act", rule)

    def using(self, tool: str) -> str | None:
        """The rule that allows all that a tool does."""
        return self._first("tool", ToolPattern, lambda about: about.matches(tool))

    def running(self, command: SimpleCommand, folders: Sequence[str]) -> str | None:
        """The rule that allows a command in all these folders, which must be in the work folder."""
        if not all(paths.is_below(folder, self.root) for folder in folders):
            return None
        root = self.root
        return self._first(
            "run", CommandPattern, lambda words: words.allows(command, folders, root)
        )

    def _for_path(
        self, kind: str, place: paths.ResolvedPath, guarded: frozenset[str]
    ) -> tuple[str | None, bool]:
        """The rule for a path, and whether it is one of the work folder that is not guarded."""
        root = self.root
        rule = self._first(kind, paths.PathPattern, lambda glob: glob.allows(place, root, guarded))
        return rule, place.within(root) and not place.touches(guarded, root)

    def _first(self, kind: str, pattern: type[_P], fits: Callable[[_P], bool]) -> str | None:
        for text, rule in self.rules:
            if rule.kind == kind and isinstance(rule.about, pattern) and fits(rule.about):
                return text
        return None


MOST_FOLDERS = 20

_TOOL = ReadAccess((), skips="hidden")
"""A tool that is given a folder may search it; such tools skip hidden files."""


def parts_of(action: Action, allowed: AllowRules) -> list[ActionPart]:
    """The parts of an action."""
    rule = allowed.using(action.tool)
    if rule:
        return [ActionPart("act", rule)]
    if action.command:
        return _LineWalk(without_shell(parse(action.command)), allowed).parts()
    if action.effect == "read":
        return [part for path in action.paths or (".",) for part in _tool_reads(path, allowed)]
    if action.effect == "write" and action.paths:
        return [allowed.writing(paths.resolve(path, allowed.cwd)) for path in action.paths]
    if action.effect == "fetch":
        return [allowed.fetching(action.target)]
    return [ActionPart("act")]


def _tool_reads(path: str, allowed: AllowRules) -> Iterator[ActionPart]:
    place = paths.resolve(path, allowed.cwd)
    part = allowed.reading(place)
    yield part
    if part.rule is None and os.path.isdir(place.real):  # noqa: PTH112 - Path minds a long name
        yield allowed.reading_all(place.real, _TOOL)


class _LineWalk:
    """Goes through a command line, tracking which folders each command may run in."""

    def __init__(self, line: CommandLine, allowed: AllowRules) -> None:
        self._line = line
        self._allowed = allowed
        self._folders = [allowed.cwd]
        self._lost = False
        """Whether the current folder is unknown."""
        self._through_link = allowed.through_link
        self._files_fixed = all(map(_changes_no_file, line.commands))
        self._sure = _in_sequence(line.commands)

    def parts(self) -> list[ActionPart]:
        if not (self._line.clear and self._line.understood):
            return [ActionPart("act")]
        numbered = enumerate(self._line.commands)
        found = [part for place, command in numbered for part in self._of(place, command)]
        return found or [ActionPart("read")]

    def _of(self, place: int, command: SimpleCommand) -> Iterator[ActionPart]:
        for opened in command.redirections:
            if opened.target.text not in paths.FREE:
                yield from self._opens(opened)
        if command.words or command.assignments:
            yield from self._runs(place, command)

    def _opens(self, opened: Redirection) -> Iterable[ActionPart]:
        if self._lost:
            return [ActionPart("act")]
        opens = self._allowed.reading if opened.effect == "read" else self._allowed.writing
        return [opens(paths.resolve(opened.target.text, folder)) for folder in self._folders]

    def _runs(self, place: int, command: SimpleCommand) -> Iterable[ActionPart]:
        if self._lost:
            return [ActionPart("act")]
        bare = without_wrappers(command)
        rules = (self._allowed.running(one, self._folders) for one in (command, bare))
        rule = next(filter(None, rules), None)
        if bare.texts[:1] in (("cd",), ("pushd",), ("popd",)):
            return [self._enters(command, rule, sure=place in self._sure)]
        return [ActionPart("act", rule)] if rule else self._reads(bare)

    def _enters(self, command: SimpleCommand, rule: str | None, *, sure: bool) -> ActionPart:
        """`cd`: unless its success is certain, what follows may run in the old folder too."""
        target = command.words[-1].text
        simple = len(command.words) == 2 and command.texts[0] == "cd" and not command.assignments
        if not simple or command.words[-1].glob or target.startswith("-") or not target:
            self._lost = True
            return ActionPart("act", rule)
        places = [paths.resolve(target, folder) for folder in self._folders]
        self._through_link |= any(place.named != place.real for place in places)
        entered = [place.real for place in places]
        self._folders = list(dict.fromkeys(entered if sure else self._folders + entered))
        # In a folder reached through a link, `..` is not the same to a shell and to the system.
        confusing = self._through_link and ".." in target.split("/")
        self._lost = confusing or len(self._folders) > MOST_FOLDERS
        within = not self._lost and all(place.within(self._allowed.root) for place in places)
        return ActionPart("read" if within else "read_elsewhere", rule)

    def _reads(self, command: SimpleCommand) -> list[ActionPart]:
        parts: list[ActionPart] = []
        for folder in self._folders:
            arguments = self._arguments(command, folder)
            access = None if arguments is None else read_access(command, arguments, folder)
            if access is None:
                return [ActionPart("act")]
            parts += self._parts_of_access(access, folder)
        return parts

    def _arguments(self, command: SimpleCommand, folder: str) -> tuple[str, ...] | None:
        """The arguments, globs expanded; None where they may match files that do not exist yet."""
        arguments: list[str] = []
        for word in command.words[1:]:
            names = paths.expand_glob(word.text, folder) if word.glob and self._files_fixed else ()
            if names is None or (word.glob and not self._files_fixed):
                return None
            arguments += names or (word.text,)
        return tuple(arguments)

    def _parts_of_access(self, access: ReadAccess, folder: str) -> Iterator[ActionPart]:
        yield ActionPart("read")
        for file in access.files:
            if not file.startswith("/") or paths.exists_at_top(file):
                yield self._allowed.reading(paths.resolve(file, folder))
        for each in access.folders(folder):
            yield self._allowed.reading_all(each, access)


def _in_sequence(commands: tuple[SimpleCommand, ...]) -> frozenset[int]:
    """The indexes of commands that must succeed for later ones to run: `cd src && npm test`."""
    if not all(command.before in ("", "&&", "|") for command in commands):
        return frozenset()
    piped = {place for place, command in enumerate(commands) if command.before == "|"}
    piped |= {place for place, (_, after) in enumerate(pairwise(commands)) if after.before == "|"}
    return frozenset(range(len(commands))) - piped


def _changes_no_file(command: SimpleCommand) -> bool:
    opens = command.redirections
    writes = any(one.effect == "write" and one.target.text not in paths.FREE for one in opens)
    program = without_wrappers(command).texts[:1]
    return not writes and (not program or program[0] == "cd" or is_read_only_program(program[0]))
