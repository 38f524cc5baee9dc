"""The decision on an action: deny rules first, then allow rules, then the mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action, Ruling, Verdict
from coterie.tools.permission import paths, rules
from coterie.tools.permission.allow import ActionPart, AllowRules, PartKind, parts_of, searches
from coterie.tools.permission.nested_commands import ExpandedLine, program
from coterie.tools.permission.paths import PathPattern, ResolvedPath
from coterie.tools.permission.read_only import ReadAccess, read_access
from coterie.tools.permission.rules import Rule
from coterie.tools.permission.shell_lexer import Word, name_set
from coterie.tools.permission.shell_parser import FileEffect, SimpleCommand, parse

_READS: Mapping[PartKind, Verdict] = {
    "read": "allow",
    "enter": "allow",
    "look": "ask",
    "read_elsewhere": "ask",
}
DEFAULTS: Mapping[Mode, Mapping[PartKind, Verdict]] = {
    "read": {**_READS, "edit": "deny", "act": "deny"},
    "ask": {**_READS, "edit": "ask", "act": "ask"},
    "accept-edits": {**_READS, "edit": "allow", "act": "ask"},
    "full": dict.fromkeys(("read", "enter", "look", "read_elsewhere", "edit", "act"), "allow"),
}
"""The verdict of each mode where no rule applies."""

_STRICTEST_FIRST: Sequence[Verdict] = ("deny", "ask", "allow_read_only", "allow")
_LOOK = ActionPart("look")
_LOOKS = frozenset({ActionPart("read"), ActionPart("enter"), _LOOK})


def decide(
    action: Action,
    permissions: Permissions,
    team: Permissions | None,
    root: Path,
    granted: Sequence[str] = (),
    guarded: frozenset[str] = frozenset(),
) -> Ruling:
    """Decide whether a member may do something unasked.

    `team` holds the rules for everybody, `root` is the member's work folder, `granted` are rules
    that the user granted for this task, `guarded` are names that agents read settings from.  Reads
    the file system, so do not call it on the event loop.
    """
    both = (permissions, team) if team else (permissions,)
    deny, broken = _read(text for one in both for text in one.deny)
    top = paths.resolve(str(root), "/").real
    cwd = paths.resolve(action.cwd or ".", top)
    reach, nobody_asks = _Reach(action, top, cwd.real), permissions.mode == "full"
    for rule in deny:
        # Where nobody is asked, one forbidden file forbids searching the folder it is in.
        if reach.is_forbidden_by(rule) or (nobody_asks and reach.searches_through(rule)):
            return Ruling("deny", f"deny {rule}")
    globs = (rule.about for rule in deny if rule.kind == "read")
    allow_rules = AllowRules(
        top,
        cwd.real,
        [
            *((f"allow {rule}", rule) for one in both for rule in _read(one.allow)[0]),
            *((f"granted {rule}", rule) for rule in _read(granted)[0]),
        ],
        [glob for glob in globs if isinstance(glob, PathPattern)],
        paths.GUARDED | guarded,
        through_link=cwd.named != cwd.real,
        unasked=nobody_asks,
    )
    parts = parts_of(action, allow_rules)
    entering = action.keeps_folder and ActionPart("enter") in parts and _LOOK not in parts
    looking = action.read_only_sandbox and _LOOKS.issuperset(parts) and not entering
    if looking and not nobody_asks:
        ruling = Ruling("allow_read_only", f"mode {permissions.mode}")
    else:
        ruling = _combined(parts, permissions.mode)
    if broken and ruling.verdict in ("allow", "allow_read_only"):
        return Ruling("ask", f"deny {broken[0]} (not a valid rule)")
    return ruling


def decide_at_once(
    action: Action, permissions: Permissions, team: Permissions | None
) -> Ruling | None:
    """Decide without the file system, for a tool confined to the work folder that only reads, if
    there are no deny rules.  Returns None if `decide` is needed."""
    both = (permissions, team) if team else (permissions,)
    if not (action.confined and action.effect == "read") or any(one.deny for one in both):
        return None
    if any(name in path.casefold() for path in action.paths for name in paths.PRIVATE):
        return None
    return Ruling(DEFAULTS[permissions.mode]["read"], f"mode {permissions.mode}")


def _read(texts: Iterable[str]) -> tuple[list[Rule], list[str]]:
    """Return the rules, and the invalid texts: a task may predate the current syntax."""
    parsed: list[Rule] = []
    broken: list[str] = []
    for text in texts:
        try:
            parsed.append(Rule.parse(text))
        except rules.RuleError:
            broken.append(text)
    return parsed, broken


def _combined(parts: Sequence[ActionPart], mode: Mode) -> Ruling:
    """Take the strictest verdict of all parts, with each reason once, rules before the mode."""
    verdicts: dict[ActionPart, Verdict] = {
        part: "allow" if part.rule else DEFAULTS[mode][part.kind] for part in parts
    }
    strictest = min(verdicts.values(), key=_STRICTEST_FIRST.index)
    decisive = [part.rule for part, verdict in verdicts.items() if verdict == strictest]
    reasons = [*dict.fromkeys(filter(None, decisive)), *([f"mode {mode}"] * (None in decisive))]
    return Ruling(strictest, ", ".join(reasons))


_RECURSIVE = name_set("chmod chown mv rm rmdir rsync shred unlink")
"""Programs that act on everything in a folder they are given."""
_CD_COMMANDS = frozenset({"cd", "pushd", "chdir"})
_BOTH: Sequence[FileEffect] = ("read", "write")


@dataclass(frozen=True)
class _TouchedPath:
    """A path that an action may read or write."""

    place: ResolvedPath
    effects: Sequence[FileEffect]
    whole: bool = False
    """Whether it is a folder with everything in it."""


class _Reach:
    """Everything that an action may reach, computed once for all rules."""

    def __init__(self, action: Action, root: str, cwd: str) -> None:
        self._action = action
        self._root = root
        self._cwd = cwd

    def is_forbidden_by(self, rule: Rule) -> bool:
        match rule.about:
            case rules.ToolPattern():
                pattern = rules.ToolPattern(rule.about.name.casefold())
                return pattern.matches(self._action.tool.casefold())
            case rules.CommandPattern():
                return bool(self._action.command) and self._runs(rule.about)
            case rules.AddressPattern():
                return self._fetches(rule.about)
            case PathPattern():
                return self._touches(rule.about, "write" if rule.kind == "write" else "read")

    def searches_through(self, rule: Rule) -> bool:
        """Whether it reads all of a folder that contains something forbidden."""
        glob = rule.about
        return (
            isinstance(glob, PathPattern)
            and rule.kind == "read"
            and any(glob.lies_in(each, self._root) for each in self._searched)
        )

    @cached_property
    def _searched(self) -> tuple[str, ...]:
        """The folders that it reads entirely."""
        named = (place.real for path in self._action.paths for place in self._places_of(path))
        by_tool = (each for each in named if searches(self._action, each))
        by_command = (
            each
            for command in self._expanded.commands
            for folder in self._folders
            if (access := self._known_access(command, folder))
            for each in access.folders(folder)
        )
        return tuple(dict.fromkeys((*by_tool, *by_command)))

    def _places_of(self, path: str) -> Iterator[ResolvedPath]:
        """Where a path that a tool is given may lead."""
        for text in {path, paths.expand_home(path), path.strip(), path.removeprefix("file://")}:
            yield paths.resolve(text, self._cwd)

    @cached_property
    def _expanded(self) -> ExpandedLine:
        return ExpandedLine(parse(self._action.command))

    def _runs(self, pattern: rules.CommandPattern) -> bool:
        if any(pattern.forbids(command.words) for command in self._expanded.commands):
            return True
        return not self._expanded.sure and pattern.mentioned_in(self._expanded.search_text)

    def _fetches(self, address: rules.AddressPattern) -> bool:
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

    def _touches(self, glob: PathPattern, effect: FileEffect) -> bool:
        for touched in self._touched:
            if effect not in touched.effects:
                continue
            if glob.forbids(touched.place, self._root):
                return True
            if touched.whole and glob.lies_in(touched.place.real, self._root):
                return True
        return not self._all_known and glob.mentioned_in(self._expanded.search_text)

    @cached_property
    def _all_known(self) -> bool:
        """Whether no path can come from an expansion, or from the text of a script."""
        commands = self._expanded.commands
        words = [word for each in commands for word in (*each.words, *each.assignments)]
        words += [opened.target for each in commands for opened in each.redirections]
        return self._expanded.sure and all(word.known for word in words)

    @cached_property
    def _touched(self) -> tuple[_TouchedPath, ...]:
        action = self._action
        effects: Sequence[FileEffect] = tuple(one for one in _BOTH if one == action.effect) or _BOTH
        tools = [
            _TouchedPath(place, effects) for path in action.paths for place in self._places_of(path)
        ]
        return (*tools, *self._in_words(), *self._in_redirections())

    def _in_words(self) -> Iterator[_TouchedPath]:
        # A command and the commands nested in it share words.
        once: dict[tuple[Word, bool, bool], None] = {}
        for command in self._expanded.commands:
            how = self._access(command) is None, program(command.words) in _RECURSIVE
            once |= dict.fromkeys((word, *how) for word in command.words + command.assignments)
        for word, writes, recursive in once:
            effects = _BOTH if writes else ("read",)
            for place in self._places(word):
                yield _TouchedPath(place, effects)
                if recursive:
                    yield _TouchedPath(place, ("write",), whole=True)
            for place in self._wide_globs(word):
                yield _TouchedPath(place, effects, whole=True)

    def _in_redirections(self) -> Iterator[_TouchedPath]:
        opened = [one for each in self._expanded.commands for one in each.redirections]
        for one in opened:
            if one.target.text not in paths.STANDARD_DEVICES:
                for place in self._places(one.target):
                    yield _TouchedPath(place, (one.effect,))

    def _access(self, command: SimpleCommand) -> ReadAccess | None:
        plain = all(word.known and not word.glob for word in command.words)
        return read_access(command, command.texts[1:], self._cwd) if plain else None

    def _known_access(self, command: SimpleCommand, folder: str) -> ReadAccess | None:
        """Return what a command reads as far as known; unknown words can only add to it."""
        known = tuple(_without_glob(word) for word in command.words if word.known)
        command = replace(command, words=known, assignments=())
        return read_access(command, command.texts[1:], folder)

    def _places(self, word: Word) -> Iterator[ResolvedPath]:
        for text in _spellings(word.text):
            for folder in self._folders:
                yield paths.resolve(text, folder)
                if word.glob:
                    for file in paths.expand_glob(text, folder) or ():
                        yield paths.resolve(file, folder)

    def _wide_globs(self, word: Word) -> Iterator[ResolvedPath]:
        """The folders in which a glob matches too many files to expand."""
        for folder in self._folders if word.glob else ():
            for text in _spellings(word.text):
                if paths.expand_glob(text, folder) is None:
                    yield paths.resolve(paths.glob_folder(text), folder)

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        """Every folder that the command line may enter."""
        folders = {self._cwd: None}
        for command in self._expanded.commands:
            if program(command.words) in _CD_COMMANDS and len(command.words) > 1:
                target = paths.expand_home(command.words[-1].text)
                folders |= dict.fromkeys([paths.resolve(target, each).real for each in folders])
        return tuple(folders)[:20]


def _without_glob(word: Word) -> Word:
    """Return the folder in which a glob matches; options are as written."""
    wild = word.glob and not word.text.startswith("-")
    return replace(word, text=paths.glob_folder(word.text)) if wild else word


_LONGEST_CLUSTER = 12


def _spellings(text: str) -> set[str]:
    """Return what may be a path in a word: the whole, a value, or what is attached to an option."""
    texts = {text, text.partition("=")[2], text.rpartition("=")[2], text.lstrip("@")}
    texts |= {text.partition(":")[2], text.rpartition(":")[2]}
    if text.startswith("-"):  # `-f.env`, and `-honf.env`
        texts |= {text[start:] for start in range(2, min(len(text), _LONGEST_CLUSTER))}
    texts |= {one.lstrip("@") for one in texts}
    texts |= {paths.expand_home(one) for one in texts}
    return texts - {""}
