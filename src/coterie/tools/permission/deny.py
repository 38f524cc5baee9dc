"""Which rule forbids an action: in doubt, the one that may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from coterie.model.action import Action
from coterie.tools.permission.nested_commands import ExpandedLine, expand, program
from coterie.tools.permission.paths import (
    FREE,
    PathPattern,
    ResolvedPath,
    at_home,
    files_named,
    folder_of,
    resolve,
)
from coterie.tools.permission.read_only import ReadAccess, read_access
from coterie.tools.permission.rules import AddressPattern, CommandPattern, Rule, ToolPattern
from coterie.tools.permission.shell_lexer import Word, name_set
from coterie.tools.permission.shell_parser import SimpleCommand, parse

_UPROOTING = name_set("chmod chown mv rm rmdir rsync shred unlink")
"""What these do to a folder they do to all that is in it."""
_ENTERING = frozenset({"cd", "pushd", "chdir"})


def denying_rule(
    action: Action, rules: Sequence[Rule], root: str, cwd: str, *, nobody_asks: bool
) -> Rule | None:
    """The first rule that forbids an action, if one does.

    Where nobody would be asked, a search through a folder is forbidden for one file in it.
    """
    seen = _Reach(action, root, cwd)
    found = (
        rule
        for rule in rules
        if seen.is_forbidden_by(rule) or (nobody_asks and seen.searches_through(rule))
    )
    return next(found, None)


@dataclass(frozen=True)
class _TouchedPath:
    """A place that a command has to do with."""

    place: ResolvedPath
    reads: bool
    writes: bool
    whole: bool = False
    """Whether it is a folder and all in it is meant."""


class _Reach:
    """An action with all that it may do, found out once for all rules."""

    def __init__(self, action: Action, root: str, cwd: str) -> None:
        self._action = action
        self._root = root
        self._cwd = cwd

    def is_forbidden_by(self, rule: Rule) -> bool:
        match rule.about:
            case ToolPattern():
                return ToolPattern(rule.about.name.casefold()).matches(self._action.tool.casefold())
            case CommandPattern():
                return bool(self._action.command) and self._runs(rule.about)
            case AddressPattern():
                return self._fetches(rule.about)
            case PathPattern():
                return self._touches(rule.about, writing=rule.kind == "write")

    def searches_through(self, rule: Rule) -> bool:
        """Whether a command reads all of a folder in which something must not be read."""
        glob = rule.about
        return (
            isinstance(glob, PathPattern)
            and rule.kind == "read"
            and any(
                glob.lies_in(each, self._root)
                for command in self._unfolded.commands
                for folder in self._folders
                if (look := self._search(command)) and look.reads(glob)
                for each in look.folders(folder)
            )
        )

    @cached_property
    def _unfolded(self) -> ExpandedLine:
        return expand(parse(self._action.command))

    # -- commands ------------------------------------------------------------------------------

    def _runs(self, pattern: CommandPattern) -> bool:
        if any(pattern.forbids(command.words) for command in self._unfolded.commands):
            return True
        return not self._unfolded.sure and pattern.hinted_in(self._unfolded.said)

    # -- addresses -----------------------------------------------------------------------------

    def _fetches(self, address: AddressPattern) -> bool:
        action = self._action
        if action.effect == "fetch" and (not action.target or address.host == "*"):
            return True
        if action.target and address.forbids(action.target):
            return True
        return bool(action.command) and any(
            address.forbids_words(command.texts)
            for command in self._unfolded.commands
            if self._look(command) is None
        )

    # -- paths ---------------------------------------------------------------------------------

    def _touches(self, glob: PathPattern, *, writing: bool) -> bool:
        for named in self._named:
            if not (named.writes if writing else named.reads):
                continue
            if glob.forbids(named.place, self._root):
                return True
            if named.whole and glob.lies_in(named.place.real, self._root):
                return True
        return not self._all_named and glob.hinted_in(self._unfolded.said)

    @cached_property
    def _all_named(self) -> bool:
        """Whether no path can come out of an expansion, or out of a program's text."""
        return self._unfolded.sure and all(
            word.known
            for command in self._unfolded.commands
            for word in (
                *command.words,
                *command.assignments,
                *(opened.target for opened in command.redirections),
            )
        )

    @cached_property
    def _named(self) -> tuple[_TouchedPath, ...]:
        action = self._action
        reads, writes = action.effect != "write", action.effect != "read"
        tools = [
            _TouchedPath(resolve(text, self._cwd), reads, writes)
            for path in action.paths
            for text in {path, at_home(path), path.strip(), path.removeprefix("file://")}
        ]
        return (*tools, *self._in_words(), *self._in_redirections())

    def _in_words(self) -> Iterator[_TouchedPath]:
        # The same words stand in a command and in those that it runs.
        once: dict[tuple[Word, bool, bool], None] = {}
        for command in self._unfolded.commands:
            how = self._look(command) is None, program(command.words) in _UPROOTING
            once |= dict.fromkeys((word, *how) for word in command.words + command.assignments)
        for word, writes, uproots in once:
            for place in self._places(word):
                yield _TouchedPath(place, True, writes)
                if uproots:
                    yield _TouchedPath(place, False, True, whole=True)
            for place in self._wide(word):
                yield _TouchedPath(place, True, writes, whole=True)

    def _in_redirections(self) -> Iterator[_TouchedPath]:
        for command in self._unfolded.commands:
            for opened in command.redirections:
                if opened.target.text not in FREE:
                    for place in self._places(opened.target):
                        yield _TouchedPath(place, opened.effect == "read", opened.effect == "write")

    def _look(self, command: SimpleCommand) -> ReadAccess | None:
        plain = all(word.known and not word.glob for word in command.words)
        return read_access(command, command.texts[1:], self._cwd) if plain else None

    def _search(self, command: SimpleCommand) -> ReadAccess | None:
        """What it looks at as far as is known: what is not may only add to it."""
        known = tuple(word for word in command.words if word.known)
        return self._look(replace(command, words=known))

    def _places(self, word: Word) -> Iterator[ResolvedPath]:
        for text in _spellings(word.text):
            for folder in self._folders:
                yield resolve(text, folder)
                if word.glob:
                    for file in files_named(text, folder) or ():
                        yield resolve(file, folder)

    def _wide(self, word: Word) -> Iterator[ResolvedPath]:
        """The folders in which a word names files too many to look at each."""
        for folder in self._folders if word.glob else ():
            for text in _spellings(word.text):
                if files_named(text, folder) is None:
                    yield resolve(folder_of(text), folder)

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        """Every folder that the command line may be in at some time."""
        folders = {self._cwd: None}
        for command in self._unfolded.commands:
            if program(command.words) in _ENTERING and len(command.words) > 1:
                target = command.words[-1].text
                folders |= {resolve(at_home(target), folder).real: None for folder in [*folders]}
        return tuple(folders)[:20]


def _spellings(text: str) -> set[str]:
    """What of a word may be a path: all of it, a value, what is glued to an option."""
    texts = {text, text.partition("=")[2], text.rpartition("=")[2], text.lstrip("@")}
    texts |= {text.partition(":")[2], text.rpartition(":")[2]}
    if text.startswith("-"):
        texts.add(text[2:])
    texts |= {one.lstrip("@") for one in texts}
    texts |= {at_home(one) for one in texts}
    return texts - {""}
