"""A rule of a team file: what kind of action it is about, and which of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from coterie.tools.permission.addresses import Address
from coterie.tools.permission.commands import Pattern, wild
from coterie.tools.permission.globs import Glob

KINDS = ("run", "write", "read", "fetch", "tool")
_FORMS = "run(COMMAND), write(PATH), read(PATH), fetch(HOST), tool(NAME) or a command"
_CALLED = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_NOT_IN_COMMANDS = re.compile(r"[;&|<>()$`'\"\\\x00-\x08\x0a-\x1f\x7f]")
_NAME = re.compile(r"[\w*.:/@+-]+")


class RuleError(ValueError):
    """A text that is no rule; says what was expected in its place."""

    def __init__(self, text: str, expected: str) -> None:
        super().__init__(text, expected)
        self.text = text
        self.expected = expected

    def __str__(self) -> str:
        return f"{json.dumps(self.text, ensure_ascii=False)}; expected {self.expected}."


@dataclass(frozen=True)
class Tool:
    """The agent's own names of tools, with `*`."""

    name: str

    def matches(self, tool: str) -> bool:
        """Whether a tool is meant."""
        return wild(self.name).fullmatch(tool) is not None


@dataclass(frozen=True)
class Rule:
    """One line of `allow` or `deny`."""

    text: str
    """As it was written."""
    kind: str
    about: Pattern | Glob | Address | Tool

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that a text means; RuleError where it means none."""
        return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> Rule:
    called = _CALLED.fullmatch(text)
    kind, inside = (called[1], called[2].strip()) if called else ("run", text.strip())
    if kind not in KINDS:
        import difflib

        near = difflib.get_close_matches(kind.lower(), KINDS, n=1)
        raise RuleError(text, _FORMS + (f" (did you mean {near[0]}?)" if near else ""))
    if not inside:
        raise RuleError(text, _FORMS)
    return Rule(text.strip(), kind, _READERS[kind](text, inside))


def _command(text: str, inside: str) -> Pattern:
    if _NOT_IN_COMMANDS.search(inside):
        raise RuleError(text, "one command in plain words, with * for any, such as npm install *")
    pattern = Pattern.of(inside)
    if not pattern.words and not pattern.open:
        raise RuleError(text, "a program after the variables")
    return pattern


def _path(text: str, inside: str) -> Glob:
    names = inside.split("/")
    if any("**" in name and name != "**" for name in names):
        raise RuleError(text, "** as a whole name, such as src/**/test_*.py")
    if any(char < " " or char == "\x7f" for char in inside):
        raise RuleError(text, "a path")
    return Glob(re.sub(r"\*\*(/\*\*)+", "**", inside))


def _address(text: str, inside: str) -> Address:
    address = Address.of(inside)
    if address is None:
        raise RuleError(text, "a host or an address, such as *.python.org or https://host/path/*")
    return address


def _tool(text: str, inside: str) -> Tool:
    if not _NAME.fullmatch(inside):
        raise RuleError(text, "the name of a tool, with * for any, such as mcp__github__*")
    return Tool(inside)


_READERS = {"run": _command, "write": _path, "read": _path, "fetch": _address, "tool": _tool}
