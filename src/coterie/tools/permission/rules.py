"""Permission rules and their patterns for commands, addresses and tool names.

A command pattern matches one simple command, word by word, never a substring of a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import unquote

from coterie.tools.permission.paths import PathPattern, is_below, mentions, resolve
from coterie.tools.permission.shell_lexer import Word, name_set
from coterie.tools.permission.shell_parser import SimpleCommand

_PATTERN = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[A-Za-z0-9.*-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]+))?(?P<path>/[^\s\\]*)?"
)
# Stricter than any browser: an address that programs may parse differently never matches.
_TARGET = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]+))?(?P<path>/[^\s\\?#]*)?(?:[?#][^\s\\]*)?"
)
_HOSTS = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\]")
_AMBIGUOUS_PATH = re.compile(r"\.\.|//|%2e|%2f|%5c", re.IGNORECASE)
_NETWORK = name_set("aria2c curl ftp lftp nc ncat netcat scp sftp socat ssh telnet wget")


@dataclass(frozen=True)
class AddressPattern:
    """An address pattern; parts that are not given match anything."""

    scheme: str
    host: str
    port: str
    path: str

    @classmethod
    def of(cls, text: str) -> AddressPattern | None:
        match = _PATTERN.fullmatch(text)
        if match is None:
            return None
        host = match["host"].lower().rstrip(".")
        return cls(match["scheme"] or "", host, match["port"] or "", match["path"] or "")

    def allows(self, target: str) -> bool:
        """Whether an address certainly matches."""
        match = _TARGET.fullmatch(target)
        if match is None or not self._is_host(match["host"].lower().rstrip(".")):
            return False
        scheme, path = (match["scheme"] or "").lower(), match["path"] or "/"
        if self.scheme not in ("", scheme) or self.port not in ("", match["port"]):
            return False
        return not self.path or (
            not _AMBIGUOUS_PATH.search(path) and wildcard(self.path).fullmatch(path) is not None
        )

    def forbids(self, target: str) -> bool:
        """Whether the pattern's host occurs anywhere in an address or a word."""
        text = unquote(target).lower()
        return any(self._is_host(host) for host in _HOSTS.findall(text))

    def forbids_words(self, words: tuple[str, ...]) -> bool:
        """Whether a command may reach a matching address."""
        if self.host == "*":
            program = words[0].rpartition("/")[2] if words else ""
            return program in _NETWORK or any("://" in word for word in words)
        return any(self.forbids(word) for word in words)

    def _is_host(self, host: str) -> bool:
        if self.host == "*":
            return True
        wanted, given = self.host.split("."), host.split(".")
        if wanted[0] == "*" and len(given) > len(wanted):
            given = ["", *given[len(given) - len(wanted) + 1 :]]  # `*.`: any number of labels
        return len(wanted) == len(given) and all(
            wildcard(one).fullmatch(other) for one, other in zip(wanted, given, strict=True)
        )


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SHORT = re.compile(r"-[A-Za-z0-9]+")


@dataclass(frozen=True)
class CommandPattern:
    """Words; `*` in a word matches any text within it, a final `*` any further arguments."""

    assignments: tuple[str, ...]
    words: tuple[str, ...]
    open: bool
    """Whether further arguments may follow."""

    @classmethod
    def of(cls, text: str) -> CommandPattern:
        """Parse a pattern: words separated by blanks, without quoting."""
        words = text.split()
        count = 0
        while count < len(words) and _ASSIGNMENT.match(words[count]):
            count += 1
        opened = words[-1] == "*"
        fixed = words[count:-1] if opened else words[count:]
        return cls(tuple(words[:count]), tuple(fixed), opened)

    # -- allowing: everything must match exactly -----------------------------------------------

    def allows(self, command: SimpleCommand, folders: Sequence[str], root: str) -> bool:
        """Whether an unambiguous command matches, whichever of these folders it runs in."""
        words, count = command.words, len(self.words)
        if tuple(word.raw for word in command.assignments) != self.assignments:
            return False
        if not words or len(words) < count or (len(words) > count and not self.open):
            return False
        pairs = list(zip(self.words, words, strict=False))
        if any(word.glob for _, word in pairs):
            return False
        return all(
            _program_fits(wanted, word.text, folder, root)
            if place == 0
            else _word_fits(wanted, word.text, folder)
            for folder in folders
            for place, (wanted, word) in enumerate(pairs)
        )

    # -- forbidding: when in doubt, it matches -------------------------------------------------

    def forbids(self, words: Sequence[Word]) -> bool:
        """Whether a command may match the pattern, with any further arguments."""
        if not self.words:
            return True
        if not words:
            return False
        program = replace(words[0], text=words[0].text.rpartition("/")[2])  # /usr/bin/rm is rm
        if not _may_be(self.words[0].rpartition("/")[2], program):
            return False
        wanted = [word for word in self.words[1:] if not word.startswith("-")]
        options = [word for word in self.words[1:] if word.startswith("-")]
        # The words must come in sequence; options and their values in between are skipped.
        given = iter(words[1:])
        return all(_comes_next(name, given) for name in wanted) and all(
            _has_option(option, words[1:]) for option in options
        )

    def mentioned_in(self, text: str) -> bool:
        """Whether a text that cannot be parsed mentions such a command."""
        names = [word for word in self.words if not word.startswith("-") and "*" not in word]
        return all(mentions(text, name.rpartition("/")[2]) for name in names)


def _program_fits(wanted: str, given: str, folder: str, root: str) -> bool:
    """A pattern with a slash means one file; a bare name never matches a path."""
    if "/" not in wanted:
        return "/" not in given and bool(wildcard(wanted).fullmatch(given))
    if folder == root and wanted == given:
        return True
    # With `..`, a link could lead to another file of that name.
    if "/" not in given or ".." in given.split("/"):
        return False
    return _word_fits(resolve(wanted, root).named, resolve(given, folder).named, folder)


def _word_fits(wanted: str, given: str, folder: str) -> bool:
    if "*" not in wanted:
        return wanted == given
    match = wildcard(wanted).fullmatch(given)
    if match is None or any(".." in part.split("/") for part in match.groups()):
        return False
    return _stays_below(wanted, given, folder)


def _stays_below(wanted: str, given: str, folder: str) -> bool:
    """Whether a match stays inside: `src/*` must not leave src, neither by `..` nor by a link."""
    fixed = wanted.partition("*")[0]
    before, slash, _ = fixed.rpartition("/")
    if not slash:
        return not {".."} & set(given.split("/"))
    value = before.rpartition("=")[2]
    above = resolve(f"{value}/", folder)
    place = resolve(given.removeprefix(before.removesuffix(value)), folder)
    return place.sure and is_below(place.real, above.real)


@lru_cache(maxsize=512)
def wildcard(text: str) -> re.Pattern[str]:
    """Compile a text in which `*` matches any text, captured as a group."""
    return re.compile("(.*)".join(re.escape(part) for part in text.split("*")), re.DOTALL)


def _may_be(wanted: str, word: Word) -> bool:
    expands = word.glob and fnmatchcase(wanted, word.text.replace("[^", "[!"))
    return expands or bool(wildcard(wanted).fullmatch(word.text))


def _comes_next(wanted: str, given: Iterator[Word]) -> bool:
    after_option = False
    for word in given:
        if _may_be(wanted, word):
            return True
        if word.text.startswith("-"):
            after_option = True
        elif after_option:
            after_option = False  # the option's value, known or not
        else:
            # An unknown word may expand to the wanted one and any number of those after it.
            return not word.known
    return False


def _has_option(wanted: str, words: Sequence[Word]) -> bool:
    letters = _letters([wanted])
    if any(not word.known for word in words):
        return True
    if letters and len(wanted) < 5:  # `-exec` is one option, `-rf` is two
        return letters <= _letters([word.text for word in words])
    return any(_is_long(wanted, word.text) for word in words)


def _letters(words: Sequence[str]) -> set[str]:
    """Collect the letters of short options: `-rf` is the same as `-f -r`."""
    return {letter for word in words if _SHORT.fullmatch(word) for letter in word[1:]}


def _is_long(wanted: str, given: str) -> bool:
    """Whether `given` may mean `wanted`, as `--forc` and `--force=yes` mean `--force`."""
    name = given.partition("=")[0]
    return name == wanted or (len(name) > 3 and name.startswith("--") and wanted.startswith(name))


_FORMS = "run(COMMAND), write(PATH), read(PATH), fetch(HOST), tool(NAME) or a command"
_CALLED = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_NOT_IN_COMMANDS = re.compile(r"[;&|<>()$`'\"\\\x00-\x08\x0a-\x1f\x7f]")
_NAME = re.compile(r"[\w*.:/@+-]+")


class RuleError(ValueError):
    """A text is not a valid rule; the message says what was expected."""

    def __init__(self, text: str, expected: str) -> None:
        super().__init__(f"{json.dumps(text, ensure_ascii=False)}; expected {expected}.")
        self.expected = expected


@dataclass(frozen=True)
class ToolPattern:
    """A pattern for the agent's own tool names, in which `*` matches any text."""

    name: str

    def matches(self, tool: str) -> bool:
        return wildcard(self.name).fullmatch(tool) is not None


@dataclass(frozen=True)
class Rule:
    """One line of `allow` or `deny`."""

    text: str
    """As it was written."""
    kind: str
    about: CommandPattern | PathPattern | AddressPattern | ToolPattern

    def __str__(self) -> str:
        return self.text

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> Rule:
        """Parse a rule; raises RuleError if it is invalid."""
        called = _CALLED.fullmatch(text)
        kind, inside = (called[1], called[2].strip()) if called else ("run", text.strip())
        if kind not in _PARSERS:
            import difflib

            near = difflib.get_close_matches(kind.lower(), _PARSERS, n=1)
            raise RuleError(text, _FORMS + (f" (did you mean {near[0]}?)" if near else ""))
        if not inside:
            raise RuleError(text, _FORMS)
        return Rule(text.strip(), kind, _PARSERS[kind](text, inside))


def _command(text: str, inside: str) -> CommandPattern:
    if _NOT_IN_COMMANDS.search(inside):
        raise RuleError(text, "one plain command, with * as a wildcard, such as npm install *")
    pattern = CommandPattern.of(inside)
    if not pattern.words and not pattern.open:
        raise RuleError(text, "a program after the variable assignments")
    return pattern


def _path(text: str, inside: str) -> PathPattern:
    names = inside.split("/")
    if any("**" in name and name != "**" for name in names):
        raise RuleError(text, "** as a whole path segment, such as src/**/test_*.py")
    if any(char < " " or char == "\x7f" for char in inside):
        raise RuleError(text, "a path")
    return PathPattern(re.sub(r"\*\*(/\*\*)+", "**", inside))


def _address(text: str, inside: str) -> AddressPattern:
    address = AddressPattern.of(inside)
    if address is None:
        raise RuleError(text, "a host or an address, such as *.python.org or https://host/path/*")
    return address


def _tool(text: str, inside: str) -> ToolPattern:
    if not _NAME.fullmatch(inside):
        raise RuleError(text, "the name of a tool, with * as a wildcard, such as mcp__github__*")
    return ToolPattern(inside)


_PARSERS = {"run": _command, "write": _path, "read": _path, "fetch": _address, "tool": _tool}
