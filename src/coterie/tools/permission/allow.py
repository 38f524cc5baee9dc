"""Allow rules: which one covers each part of an action, that is, every file and every command.

Also suggests a rule that a person can grant instead of approving each time, unless that is unsafe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

from coterie.model.tool_call import Action
from coterie.tools.permission import nested_commands, paths, shell_parser
from coterie.tools.permission.git_folders import in_repository, repository_above
from coterie.tools.permission.nested_commands import without_shell, without_wrappers
from coterie.tools.permission.option_table import exact_access
from coterie.tools.permission.read_only import ReadAccess, read_access
from coterie.tools.permission.rules import AddressPattern, CommandPattern, Rule, ToolPattern
from coterie.tools.permission.shell_lexer import name_set
from coterie.tools.permission.shell_parser import CommandLine, Redirection, SimpleCommand, parse

PartKind = Literal["read", "enter", "look", "read_elsewhere", "edit", "act"]
"""In order: certainly reads within the work folder; enters a folder in it; seems to do no more than
that; reads anything else; edits a file in it; does anything more."""
_P = TypeVar("_P", CommandPattern, paths.PathPattern, AddressPattern, ToolPattern)


@dataclass(frozen=True)
class ActionPart:
    """A part of an action; all parts must be allowed."""

    kind: PartKind
    rule: str | None = None
    """The rule that allows it, as written in the team file."""


@dataclass(frozen=True)
class AllowRules:
    """The allow rules, and the folders they apply to."""

    root: str
    """The work folder, with links resolved."""
    cwd: str
    """The action's working directory, with links resolved."""
    rules: Sequence[tuple[str, Rule]]
    """Each rule with the text that the ruling cites."""
    unread: Sequence[paths.PathPattern]
    """The patterns that deny rules forbid reading."""
    guarded: frozenset[str] = paths.GUARDED
    """Names that permission to edit files does not cover."""
    through_link: bool = False
    """Whether the shell may have entered its folder through a link."""
    unasked: bool = False
    """Whether nobody is asked whatever is found."""
    walk: paths.FolderWalk = field(default_factory=paths.FolderWalk)

    def reading(self, place: paths.ResolvedPath) -> ActionPart:
        """Classify reading a file, or listing a folder."""
        rule, free = self._for_path("read", place, paths.PRIVATE)
        return ActionPart("read" if rule or free else "read_elsewhere", rule)

    def writing(self, place: paths.ResolvedPath) -> ActionPart:
        rule, free = self._for_path("write", place, self.guarded)
        return ActionPart("edit" if rule or free else "act", rule)

    def reading_all(self, folder: str, access: ReadAccess) -> ActionPart:
        """Classify reading all files below a folder."""
        if self.unasked:
            return ActionPart("read")
        unread = any(glob.lies_in(folder, self.root) for glob in self.unread)
        bare = access.skips == "ignored" and not in_repository(folder)
        if unread or ((bare or access.skips == "nothing") and self._holds_private(folder)):
            return ActionPart("read_elsewhere")
        return ActionPart("read")

    def _holds_private(self, folder: str) -> bool:
        return self.walk.may_find(paths.PRIVATE, folder)

    def is_open(self, place: paths.ResolvedPath) -> bool:
        """Whether a folder is in the work folder and not private."""
        return place.within(self.root) and not place.touches(paths.PRIVATE, self.root)

    def fetching(self, target: str) -> ActionPart:
        rule = self._first("fetch", AddressPattern, lambda about: about.allows(target))
        return ActionPart("act", rule)

    def using(self, tool: str) -> str | None:
        """Return the rule that allows everything a tool does, if any."""
        return self._first("tool", ToolPattern, lambda about: about.matches(tool))

    def running(self, command: SimpleCommand, folders: Sequence[str]) -> str | None:
        """Return the rule that allows a command in all `folders`; None if one is outside `root`."""
        if not all(paths.is_below(folder, self.root) for folder in folders):
            return None
        root = self.root
        return self._first(
            "run", CommandPattern, lambda words: words.allows(command, folders, root)
        )

    def _for_path(
        self, kind: str, place: paths.ResolvedPath, guarded: frozenset[str]
    ) -> tuple[str | None, bool]:
        """Return the rule for a path, and whether it is in the work folder and not guarded."""
        root = self.root
        rule = self._first(kind, paths.PathPattern, lambda glob: glob.allows(place, root, guarded))
        return rule, place.within(root) and not place.touches(guarded, root)

    def _first(self, kind: str, pattern: type[_P], fits: Callable[[_P], bool]) -> str | None:
        for text, rule in self.rules:
            if rule.kind == kind and isinstance(rule.about, pattern) and fits(rule.about):
                return text
        return None


MAX_FOLDERS = 20

_OURS, _THEIRS = ReadAccess((), skips="hidden"), ReadAccess((), skips="ignored")
"""What our own tools and those of agents skip in a folder that they search."""


def searches(action: Action, path: str) -> bool:
    """Whether a tool that is given a path may read all that is below it."""
    reads = action.effect == "read" and not action.names_only
    return reads and os.path.isdir(path)  # noqa: PTH112 - Path minds a long name


def parts_of(action: Action, allowed: AllowRules) -> list[ActionPart]:
    """The parts of an action."""
    rule = allowed.using(action.tool)
    if rule:
        return [ActionPart("act", rule)]
    if action.command:
        return _LineWalk(without_shell(parse(action.command)), allowed).parts()
    if action.effect == "read":
        if not action.paths:
            return [allowed.reading(paths.resolve(".", allowed.cwd))]
        return [part for path in action.paths for part in _tool_reads(path, action, allowed)]
    if action.effect == "write" and action.paths:
        return [allowed.writing(paths.resolve(path, allowed.cwd)) for path in action.paths]
    if action.effect == "fetch":
        return [allowed.fetching(action.target)]
    return [ActionPart("act")]


def _tool_reads(path: str, action: Action, allowed: AllowRules) -> Iterator[ActionPart]:
    place = paths.resolve(path, allowed.cwd)
    part = allowed.reading(place)
    yield part
    if part.rule is None and searches(action, place.real):
        yield allowed.reading_all(place.real, _OURS if action.confined else _THEIRS)


class _LineWalk:
    """Walks a command line, tracking which folders each command may run in."""

    def __init__(self, line: CommandLine, allowed: AllowRules) -> None:
        self._line = line
        self._allowed = allowed
        self._folders = [allowed.cwd]
        self._lost = False
        """Whether the current folder is unknown."""
        self._through_link = allowed.through_link
        self._sure = _in_sequence(line.commands)

    def parts(self) -> list[ActionPart]:
        if not (self._line.clear and self._line.understood):
            return [ActionPart("act")]
        numbered = enumerate(self._line.commands)
        parts = [part for place, command in numbered for part in self._of(place, command)]
        return parts or [ActionPart("read")]

    def _of(self, place: int, command: SimpleCommand) -> Iterator[ActionPart]:
        for opened in command.redirections:
            if opened.target.text not in paths.STANDARD_DEVICES:
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
        """Handle `cd`: unless it surely succeeds, what follows may also run in the old folder."""
        target = command.words[-1].text
        simple = len(command.words) == 2 and command.texts[0] == "cd" and not command.assignments
        # `-` and, in zsh, `+1` mean a folder of its own list.
        if not simple or command.words[-1].glob or target.startswith(("-", "+")) or not target:
            self._lost = True
            return ActionPart("act", rule)
        places = [paths.resolve(target, folder) for folder in self._folders]
        self._through_link |= any(place.named != place.real for place in places)
        entered = [place.real for place in places]
        self._folders = list(dict.fromkeys(entered if sure else self._folders + entered))
        # In a folder reached through a link, the shell and the system disagree about `..`.
        confusing = self._through_link and ".." in target.split("/")
        self._lost = confusing or len(self._folders) > MAX_FOLDERS
        within = not self._lost and all(map(self._allowed.is_open, places))
        return ActionPart("enter" if within else "read_elsewhere", rule)

    def _reads(self, command: SimpleCommand) -> list[ActionPart]:
        parts: list[ActionPart] = []
        for folder in self._folders:
            exact = self._exactly(command, folder)
            access = read_access(command, command.texts[1:], folder) if exact is None else None
            if exact is None and access is None:
                return [ActionPart("act")]
            parts += exact or []
            parts += self._parts_of_access(access, folder) if access else []
            above = command.texts[0] == "git" and repository_above(folder, self._allowed.root)
            if above or not self._allowed.is_open(paths.resolve(folder, "/")):
                parts.append(ActionPart("read_elsewhere"))
        # Only the shell knows what a glob expands to: one of them may be denied.
        hidden = any(word.glob for word in command.words) and self._allowed.unread
        return [*parts, ActionPart("read_elsewhere")] if hidden else parts

    def _exactly(self, command: SimpleCommand, folder: str) -> list[ActionPart] | None:
        """Return the parts for exactly the files that it reads; None if they are uncertain."""
        literal = bool(command.words) and not command.assignments
        if not literal or any(word.glob for word in command.words):
            return None
        exact = exact_access(command.texts)
        if exact is None:
            return None
        places = [paths.resolve(file, folder) for file in exact.files if file != "-"]
        if any(place.named != place.real for place in places):
            return None  # a link may lead elsewhere by the time it is followed
        parts = [ActionPart("read"), *map(self._allowed.reading, places)]
        folders = (place.real for place in places) if exact.deep else ()
        return self._with_all_in(folders, ReadAccess(()), parts)

    def _parts_of_access(self, access: ReadAccess, folder: str) -> list[ActionPart]:
        files = (one for one in access.files if not one.startswith("/") or paths.exists_at_top(one))
        places = (paths.resolve(file, folder) for file in files)
        parts = [ActionPart("look"), *map(self._allowed.reading, places)]
        return self._with_all_in(access.folders(folder), access, parts)

    def _with_all_in(
        self, folders: Iterable[str], access: ReadAccess, parts: list[ActionPart]
    ) -> list[ActionPart]:
        """Add reading everything in folders; they are not searched if the answer is known."""
        for each in folders:
            if ActionPart("read_elsewhere") not in parts:
                parts.append(self._allowed.reading_all(each, access))
        return parts


def _in_sequence(commands: tuple[SimpleCommand, ...]) -> frozenset[int]:
    """The indexes of commands that must succeed for later ones to run: `cd src && npm test`."""
    if not all(command.before in ("", "&&", "|") for command in commands):
        return frozenset()
    piped = {place for place, command in enumerate(commands) if command.before == "|"}
    piped |= {place for place, (_, after) in enumerate(pairwise(commands)) if after.before == "|"}
    return frozenset(range(len(commands))) - piped


_UNSAFE = frozenset[str]().union(
    name_set(
        "rm rmdir unlink shred dd mv cp ln install rsync truncate tee chmod chown chgrp kill "
        "pkill killall curl wget scp sftp nc socat telnet sed find tar unzip zip gdb vim vi ed ex "
        "emacs nano crontab at mount umount mkfs reboot shutdown systemctl service passwd "
        "apt apt-get brew yum dnf apk cd pushd popd export unset declare read"
    ),
    nested_commands.SHELLS
    | nested_commands.WRAPPERS
    | nested_commands.AWKS
    | shell_parser.OPAQUE
    | shell_parser.KEYWORDS,
)
"""Programs that can do or destroy anything: no rule is ever offered for them."""

_MODULES = name_set("pytest unittest mypy ruff black build pylint flake8")
_PLAIN = re.compile(r"[\w@./+:=-]+", re.ASCII)
_LEAST_DEPTH = 3
"""Folders closer to the root than this are never offered."""


def suggest(action: Action, root: Path | None = None, guarded: frozenset[str] = frozenset()) -> str:
    """Return the rule to offer, or an empty string; `root` defaults to the action's folder."""
    top = paths.resolve(str(root or action.cwd), "/").real
    if action.command:
        rule = _for_command(action.command)
        # Rules resolve program paths from the work folder: this one would mean another program.
        elsewhere = paths.resolve(action.cwd, top).real != top
        return "" if elsewhere and "/" in rule.partition(" ")[0] else rule
    if action.effect in ("read", "write") and action.paths:
        return _for_paths(action, top, paths.GUARDED | guarded)
    if action.effect == "fetch":
        return _for_address(action.target)
    named = action.effect == "other" and _PLAIN.fullmatch(action.tool)
    return f"tool({action.tool})" if named else ""


def _for_command(text: str) -> str:
    line = without_shell(parse(text))
    if not (line.clear and line.understood) or len(line.commands) != 1:
        return ""
    command = without_wrappers(line.commands[0])
    if not command.is_bare or not command.words:
        return ""
    words = command.texts
    plain = all(_PLAIN.fullmatch(word) for word in words)
    return f"run({' '.join(words)})" if plain and _may_be_offered(words) else ""


def _may_be_offered(words: Sequence[str]) -> bool:
    """Whether the words of a command show what it does.

    The rule covers exactly these words: with open arguments most programs can run anything.
    """
    program, name = words[0], words[0].rpartition("/")[2]
    if nested_commands.INTERPRETERS.fullmatch(name) and name != "bun":
        return len(words) > 2 and words[1] == "-m" and words[2] in _MODULES and name == program
    return name not in _UNSAFE and not program.startswith(("/", "~"))


def _for_paths(action: Action, root: str, guarded: frozenset[str]) -> str:
    cwd = paths.resolve(action.cwd, root).real
    places = [paths.resolve(path, cwd) for path in action.paths]
    folders = {place.real.rpartition("/")[0] for place in places}
    if len(folders) != 1 or not all(place.sure for place in places):
        return ""
    folder = folders.pop()
    if places[0].within(root):
        touched = any(place.touches(guarded, root) for place in places)
        below = folder[len(root) :].strip("/")
        if touched or (below and not _is_path(below)):
            return ""
        return f"{action.effect}({below}/**)" if below else f"{action.effect}(*)"
    # Outside the work folder, offer only reads, and nothing hidden or near the root.
    way = folder.strip("/").split("/")
    hidden = any(name.startswith(".") for name in way)
    if action.effect == "write" or hidden or len(way) < _LEAST_DEPTH or not _is_path(folder):
        return ""
    return f"read({folder}/**)"


def _is_path(text: str) -> bool:
    return text == text.strip() and not re.search(r"^~|[*?()\x00-\x1f\x7f]", text)


def _for_address(target: str) -> str:
    host = re.match(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([A-Za-z0-9.-]+)(?=[:/?#]|$)", target)
    if host is None:
        return ""
    address = AddressPattern.of(host[1])
    return f"fetch({host[1].lower()})" if address and address.allows(target) else ""
