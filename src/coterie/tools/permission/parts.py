"""What an action consists of: each file it touches, each command it runs, in which folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise

from coterie.model.action import Action
from coterie.tools.permission.allowance import Allowance, Part
from coterie.tools.permission.looking import Look, look_of, may_look
from coterie.tools.permission.paths import FREE, exists_at_top, files_named, locate
from coterie.tools.permission.shell import Command, Line, Redirection, parse
from coterie.tools.permission.unfolding import without_shell, without_wrappers

MOST_FOLDERS = 20

_TOOL = Look((), leaves_out="hidden")
"""A tool that is given a folder may look through it; such tools leave out what is hidden."""


def parts_of(action: Action, allowance: Allowance) -> list[Part]:
    """The parts of an action."""
    rule = allowance.using(action.tool)
    if rule:
        return [Part("act", rule)]
    if action.command:
        return _Walk(without_shell(parse(action.command)), allowance).parts()
    if action.effect == "read":
        return [part for path in action.paths or (".",) for part in _tool_reads(path, allowance)]
    if action.effect == "write" and action.paths:
        return [allowance.writing(path, allowance.cwd) for path in action.paths]
    if action.effect == "fetch":
        return [allowance.fetching(action.target)]
    return [Part("act")]


def _tool_reads(path: str, allowance: Allowance) -> Iterator[Part]:
    place = locate(path, allowance.cwd)
    part = allowance.looking_at(place)
    yield part
    if part.rule is None and os.path.isdir(place.real):  # noqa: PTH112 - Path minds a long name
        yield allowance.looking_through(place.real, _TOOL)


class _Walk:
    """Through a command line, knowing which folders it may be in at each command."""

    def __init__(self, line: Line, allowance: Allowance) -> None:
        self._line = line
        self._allowance = allowance
        self._folders = [allowance.cwd]
        self._lost = False
        """Whether it may be anywhere."""
        self._by_link = allowance.by_link
        self._still = all(map(_changes_no_file, line.commands))
        self._sure = _in_sequence(line.commands)

    def parts(self) -> list[Part]:
        if not (self._line.clear and self._line.understood):
            return [Part("act")]
        numbered = enumerate(self._line.commands)
        found = [part for place, command in numbered for part in self._of(place, command)]
        return found or [Part("look")]

    def _of(self, place: int, command: Command) -> Iterator[Part]:
        for opened in command.redirections:
            if opened.target.text not in FREE:
                yield from self._opens(opened)
        if command.words or command.assignments:
            yield from self._runs(place, command)

    def _opens(self, opened: Redirection) -> Iterable[Part]:
        if self._lost:
            return [Part("act")]
        opens = self._allowance.reading if opened.effect == "read" else self._allowance.writing
        return [opens(opened.target.text, folder) for folder in self._folders]

    def _runs(self, place: int, command: Command) -> Iterable[Part]:
        if self._lost:
            return [Part("act")]
        bare = without_wrappers(command)
        rules = (self._allowance.running(one, self._folders) for one in (command, bare))
        rule = next(filter(None, rules), None)
        if bare.texts[:1] in (("cd",), ("pushd",), ("popd",)):
            return [self._enters(command, rule, sure=place in self._sure)]
        return [Part("act", rule)] if rule else self._looks(bare)

    def _enters(self, command: Command, rule: str | None, *, sure: bool) -> Part:
        """A folder is entered or, where that may have failed, not: what follows runs in either."""
        target = command.words[-1].text
        simple = len(command.words) == 2 and command.texts[0] == "cd" and not command.assignments
        if not simple or command.words[-1].glob or target.startswith("-") or not target:
            self._lost = True
            return Part("act", rule)
        places = [locate(target, folder) for folder in self._folders]
        self._by_link = self._by_link or any(place.named != place.real for place in places)
        entered = [place.real for place in places]
        self._folders = list(dict.fromkeys(entered if sure else self._folders + entered))
        # From a folder reached through a link, `..` is one thing to a shell, another to the system.
        confusing = self._by_link and ".." in target.split("/")
        self._lost = confusing or len(self._folders) > MOST_FOLDERS
        within = not self._lost and all(place.within(self._allowance.root) for place in places)
        return Part("look" if within else "peek", rule)

    def _looks(self, command: Command) -> list[Part]:
        parts: list[Part] = []
        for folder in self._folders:
            arguments = self._arguments(command, folder)
            look = None if arguments is None else look_of(command, arguments, folder)
            if look is None:
                return [Part("act")]
            parts += self._looks_at(look, folder)
        return parts

    def _arguments(self, command: Command, folder: str) -> tuple[str, ...] | None:
        """What the program gets; None where files that do not exist yet may be among it."""
        arguments: list[str] = []
        for word in command.words[1:]:
            names = files_named(word.text, folder) if word.glob and self._still else ()
            if names is None or (word.glob and not self._still):
                return None
            arguments += names or (word.text,)
        return tuple(arguments)

    def _looks_at(self, look: Look, folder: str) -> Iterator[Part]:
        yield Part("look")
        for file in look.files:
            if not file.startswith("/") or exists_at_top(file):
                yield self._allowance.reading(file, folder)
        for each in look.folders(folder):
            yield self._allowance.looking_through(each, look)


def _in_sequence(commands: tuple[Command, ...]) -> frozenset[int]:
    """The places of commands without whose success no later one runs: `cd src && npm test`."""
    if not all(command.before in ("", "&&", "|") for command in commands):
        return frozenset()
    piped = {place for place, command in enumerate(commands) if command.before == "|"}
    piped |= {place for place, (_, after) in enumerate(pairwise(commands)) if after.before == "|"}
    return frozenset(range(len(commands))) - piped


def _changes_no_file(command: Command) -> bool:
    writes = any(
        opened.effect == "write" and opened.target.text not in FREE
        for opened in command.redirections
    )
    program = without_wrappers(command).texts[:1]
    return not writes and (not program or program[0] == "cd" or may_look(program[0]))
