"""Which deny rule forbids an action; where that is in doubt, it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from coterie.model.tool_call import Action
from coterie.tools.permission.nested_commands import ExpandedLine, expand, program
from coterie.tools.permission.paths import (
    FREE,
    PathPattern,
    ResolvedPath,
    expand_glob,
    expand_home,
    glob_folder,
    resolve,
)
from coterie.tools.permission.read_only import ReadAccess, read_access
from coterie.tools.permission.rules import AddressPattern, CommandPattern, Rule, ToolPattern
from coterie.tools.permission.shell_lexer import Word, name_set
from coterie.tools.permission.shell_parser import SimpleCommand, parse

_RECURSIVE = name_set("chmod chown mv rm rmdir rsync shred unlink")
"""Programs that act on all that is in a folder they are given."""
_CD_COMMANDS = frozenset({"cd", "pushd", "chdir"})


def denying_rule(
    action: Action, rules: Sequence[Rule], root: str, cwd: str, *, nobody_asks: bool
) -> Rule | None:
    """The first rule that forbids an action, if one does.

    Where nobody would be asked, searching a folder is forbidden for a single file in it.
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
    """A path that an action may read or write."""

    place: ResolvedPath
    reads: bool
    writes: bool
    whole: bool = False
    """Whether it is a folder with all that is in it."""


class _Reach:
    """All that an action may do, worked out once for all rules."""

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
        """Whether a command reads all of a folder that contains something forbidden."""
        glob = rule.about
        return (
            isinstance(glob, PathPattern)
            and rule.kind == "read"
            and any(
                glob.lies_in(each, self._root)
                for command in self._expanded.commands
                for folder in self._folders
                if (access := self._known_access(command)) and access.reads(glob)
                for each in access.folders(folder)
            )
        )

    @cached_property
    def _expanded(self) -> ExpandedLine:
        return expand(parse(self._action.command))

    # -- commands ------------------------------------------------------------------------------

    def _runs(self, pattern: CommandPattern) -> bool:
        if any(pattern.forbids(command.words) for command in self._expanded.commands):
            return True
        return not self._expanded.sure and pattern.mentioned_in(self._expanded.said)

    # -- addresses -----------------------------------------------------------------------------

    def _fetches(self, address: AddressPattern) -> bool:
        action = self._action
        if action.effect == "fetch" and (not action.target or address.host == "*"):
            return True
        if action.target and address.forbids(action.target):
            return True
        return bool(action.command) and any(
            address.forbids_words(command.texts)
            for command in self._expanded.commands
            if self._access(command) is None
        )

    # -- paths ---------------------------------------------------------------------------------

    def _touches(self, glob: PathPattern, *, writing: bool) -> bool:
        for touched in self._touched:
            if not (touched.writes if writing else touched.reads):
                continue
            if glob.forbids(touched.place, self._root):
                return True
            if touched.whole and glob.lies_in(touched.place.real, self._root):
                return True
        return not self._all_known and glob.mentioned_in(self._expanded.said)

    @cached_property
    def _all_known(self) -> bool:
        """Whether no path can come from an expansion, or from the text of a script."""
        return self._expanded.sure and all(
            word.known
            for command in self._expanded.commands
            for word in (
                *command.words,
                *command.assignments,
                *(opened.target for opened in command.redirections),
            )
        )

    @cached_property
    def _touched(self) -> tuple[_TouchedPath, ...]:
        action = self._action
        reads, writes = action.effect != "write", action.effect != "read"
        tools = [
            _TouchedPath(resolve(text, self._cwd), reads, writes)
            for path in action.paths
            for text in {path, expand_home(path), path.strip(), path.removeprefix("file://")}
        ]
        return (*tools, *self._in_words(), *self._in_redirections())

    def _in_words(self) -> Iterator[_TouchedPath]:
        # A command and those that it runs share words.
        once: dict[tuple[Word, bool, bool], None] = {}
        for command in self._expanded.commands:
            how = self._access(command) is None, program(command.words) in _RECURSIVE
            once |= dict.fromkeys((word, *how) for word in command.words + command.assignments)
        for word, writes, recursive in once:
            for place in self._places(word):
                yield _TouchedPath(place, True, writes)
                if recursive:
                    yield _TouchedPath(place, False, True, whole=True)
            for place in self._wide_globs(word):
                yield _TouchedPath(place, True, writes, whole=True)

    def _in_redirections(self) -> Iterator[_TouchedPath]:
        for command in self._expanded.commands:
            for opened in command.redirections:
                if opened.target.text not in FREE:
                    for place in self._places(opened.target):
                        yield _TouchedPath(place, opened.effect == "read", opened.effect == "write")

    def _access(self, command: SimpleCommand) -> ReadAccess | None:
        plain = all(word.known and not word.glob for word in command.words)
        return read_access(command, command.texts[1:], self._cwd) if plain else None

    def _known_access(self, command: SimpleCommand) -> ReadAccess | None:
        """What it reads as far as is known; unknown words can only add to it."""
        known = tuple(word for word in command.words if word.known)
        return self._access(replace(command, words=known))

    def _places(self, word: Word) -> Iterator[ResolvedPath]:
        for text in _spellings(word.text):
            for folder in self._folders:
                yield resolve(text, folder)
                if word.glob:
                    for file in expand_glob(text, folder) or ():
                        yield resolve(file, folder)

    def _wide_globs(self, word: Word) -> Iterator[ResolvedPath]:
        """The folders in which a glob matches too many files to expand."""
        for folder in self._folders if word.glob else ():
            for text in _spellings(word.text):
                if expand_glob(text, folder) is None:
                    yield resolve(glob_folder(text), folder)

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        """Every folder that the command line may enter."""
        folders = {self._cwd: None}
        for command in self._expanded.commands:
            if program(command.words) in _CD_COMMANDS and len(command.words) > 1:
                target = command.words[-1].text
                folders |= {
                    resolve(expand_home(target), folder).real: None for folder in [*folders]
                }
        return tuple(folders)[:20]


def _spellings(text: str) -> set[str]:
    """What may be a path in a word: all of it, a value, what is attached to an option."""
    texts = {text, text.partition("=")[2], text.rpartition("=")[2], text.lstrip("@")}
    texts |= {text.partition(":")[2], text.rpartition(":")[2]}
    if text.startswith("-"):
        texts.add(text[2:])
    texts |= {one.lstrip("@") for one in texts}
    texts |= {expand_home(one) for one in texts}
    return texts - {""}
