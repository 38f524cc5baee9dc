"""A lexer for shell words: quotes and escapes are removed, expansions noted but never performed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

META = frozenset("|&;()<> \t\n")
"""Characters that end a word unless quoted."""
CONTINUATION = "\\\n"
"""Continues a line: the shell removes it, even from the middle of a word or an operator."""

_CONTINUATIONS = re.compile(r"(?:\\\n)+")
_HIDDEN = "\0"
"""Replaces quoted characters where only unquoted ones matter."""

_EXPANDED = re.compile(
    r"(^|[=:])~"  # a home; also after = in bash, if the word looks like an assignment
    r"|^=[\w/]"  # zsh: =ls is the path of ls
    r"|!(?!$|[\s=])"  # history expansion, in an interactive shell
)
MAX_NESTED = 100
"""The most substitutions in one line; a line with more is not parsed."""
_UNQUOTED = re.compile(r"[^|&;()<>\s\\'\"$`]+")
_QUOTED = re.compile(r"[^\\\"$`!]+")
_LITERAL_DOLLAR = frozenset(" \t\n;|&)")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ESCAPED_IN_QUOTES = frozenset('$`"\\')


def name_set(text: str) -> frozenset[str]:
    """Split a text at blanks into a set of names."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Word:
    """A word as written, and as the program gets it."""

    raw: str
    """In one line, if it was continued on another."""
    text: str
    """Without quotes; expansions stay as written."""
    known: bool = True
    """Whether the text is exactly what the program gets: nothing but file names is expanded."""
    glob: bool = False
    """Whether the shell may replace it by file names."""


@dataclass
class _Parts:
    text: list[str] = field(default_factory=list[str])
    bare: list[str] = field(default_factory=list[str])
    known: bool = True

    def add(self, text: str, *, quoted: bool) -> None:
        self.text.append(text)
        self.bare.append(_HIDDEN * len(text) if quoted else text)

    def word(self, raw: str) -> Word:
        bare = "".join(self.bare)
        _, brace, braced = bare.partition("{")
        expanded = _EXPANDED.search(bare) or (brace and ("," in braced or ".." in braced))
        glob = "*" in bare or "?" in bare or "]" in bare.partition("[")[2]
        return Word(raw, "".join(self.text), self.known and not expanded, glob)


class Lexer:
    """Reads a command line, collecting its substitutions and ambiguities on the way."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.at: int = 0
        self.clear: bool = True
        """Whether every word so far is exactly what a program gets."""
        self.understood: bool = True
        """Whether it is certain which commands there are."""
        self.inner: list[str] = []
        """The command lines inside substitutions."""
        self._readers: Mapping[str, Callable[[_Parts], None]] = {
            "\\": self._escape,
            "'": self._single,
            '"': self._double,
            "$": self._dollar,
            "`": self._backticks,
        }

    def ahead(self, count: int = 1) -> str:
        """The next characters, fewer at the end."""
        return self.text[self.at : self.at + count]

    def lost(self) -> None:
        """Note that from here on it is uncertain how a shell would read the line."""
        self.clear = self.understood = False

    def word(self) -> Word:
        start, parts = self.at, _Parts()
        while (char := self.ahead()) and char not in META:
            self._readers.get(char, self._plain)(parts)
        word = parts.word(self.text[start : self.at].replace(CONTINUATION, ""))
        self.clear = self.clear and word.known
        return word

    def skip_continuation(self) -> bool:
        """Skip a line continuation between two words, where it is just another blank."""
        continued = self.ahead(2) == CONTINUATION
        if continued:
            # Otherwise it may be inside an operator.
            self.clear = self.clear and self.text[self.at - 1 : self.at] in (" ", "\t")
            self.at += 2
        return continued

    def substitution(self, opening: int) -> int:
        """Collect the contents of the brackets that open there; returns the position after them."""
        end = closing(self.text, opening) if len(self.inner) < MAX_NESTED else -1
        if end < 0:
            self.lost()
            end = len(self.text)
        self.inner.append(self.text[opening + 1 : end])
        return min(end + 1, len(self.text))

    def expansions(self) -> None:
        """Read the whole text as if in double quotes, as for a here-document."""
        parts = _Parts()
        while self.ahead():
            self._in_double_quotes(parts)

    def _plain(self, parts: _Parts) -> None:
        parts.add(self._run(_UNQUOTED), quoted=False)

    def _run(self, plain: re.Pattern[str]) -> str:
        """Consume the literal characters that follow, at least one."""
        match = plain.match(self.text, self.at)
        start, self.at = self.at, match.end() if match else self.at + 1
        return self.text[start : self.at]

    def _escape(self, parts: _Parts) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped in ("", "\n"):
            self.clear = False  # a line continued inside a word: not worth parsing
        else:
            parts.add(escaped, quoted=True)

    def _single(self, parts: _Parts) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.lost()
            end = len(self.text)
        parts.add(self.text[self.at + 1 : end], quoted=True)
        self.at = end + 1

    def _double(self, parts: _Parts) -> None:
        self.at += 1
        while (char := self.ahead()) and char != '"':
            self._in_double_quotes(parts)
        if not char:
            self.lost()
        self.at += 1

    def _in_double_quotes(self, parts: _Parts) -> None:
        char, following = self.ahead(), self.text[self.at + 1 : self.at + 2]
        if char == "\\" and following == "\n":
            self.clear = False
            self.at += 2
        elif char == "\\" and following in _ESCAPED_IN_QUOTES:
            parts.add(following, quoted=True)
            self.at += 2
        elif char == "$":
            self._dollar(parts, quoted=True)
        elif char == "`":
            self._backticks(parts)
        else:
            # History is expanded inside double quotes too, in an interactive shell.
            self.clear = self.clear and not (char == "!" and following not in ("", " ", "=", '"'))
            parts.add(self._run(_QUOTED), quoted=True)

    def _dollar(self, parts: _Parts, *, quoted: bool = False) -> None:
        if continued := _CONTINUATIONS.match(self.text, self.at + 1):
            self.lost()  # not every shell joins what follows to it
            self.text = self.text[: self.at + 1] + self.text[continued.end() :]
        following = self.text[self.at + 1 : self.at + 2]
        if following in ("(", "{"):
            self._unknown(parts, self.substitution(self.at + 1))
        elif following == "'" and not quoted:
            self._escapes(parts)
        elif following in _LITERAL_DOLLAR or not following or (quoted and following == '"'):
            parts.add("$", quoted=True)
            self.at += 1
        else:
            name = _NAME.match(self.text, self.at + 1)
            self._unknown(parts, name.end() if name else self.at + 1)

    def _unknown(self, parts: _Parts, end: int) -> None:
        parts.known = self.clear = False
        parts.add(self.text[self.at : end], quoted=True)
        self.at = end

    def _backticks(self, parts: _Parts) -> None:
        ended = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if ended is None:
            self.lost()
            self.inner.append(self.text[self.at + 1 :])
            self._unknown(parts, len(self.text))
            return
        self.inner.append(re.sub(r"\\([`\\$])", r"\1", ended[1]))
        self._unknown(parts, ended.end())

    def _escapes(self, parts: _Parts) -> None:
        """Read `$'…'`: bash knows it, dash does not, so the line is no longer clear."""
        self.clear = False
        ended = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.at)
        if ended is None:
            self.lost()
            self.at = len(self.text)
            return
        parts.add(_ESCAPE.sub(_meant, ended[1]), quoted=True)
        self.at = ended.end()


_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b"}


def _meant(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        number = int(escape[1:], 16)
        return chr(number) if number <= 0x10FFFF else ""
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    return _SHORT.get(escape, escape[-1:])


_PAIRS = {"(": ")", "{": "}"}


def closing(text: str, opening: int, depth: int = 0) -> int:
    """Return the position of the bracket that closes the one at `opening`; -1 if none does."""
    left, right = text[opening], _PAIRS[text[opening]]
    at, nested = opening + 1, 1
    while 0 < at < len(text) and depth < 50:
        char = text[at]
        if char == right:
            nested -= 1
            if not nested:
                return at
        nested += char == left
        at = _past(text, at, depth)
    return -1


def _past(text: str, at: int, depth: int) -> int:
    """Return the position after the character or what it quotes; 0 if a quote never ends."""
    char = text[at]
    if char == "\\":
        return at + 2
    if char in "'`":
        return text.find(char, at + 1) + 1
    if char == '"':
        return _double_end(text, at, depth) + 1
    return at + 1


def _double_end(text: str, at: int, depth: int) -> int:
    at += 1
    while 0 < at < len(text):
        if text[at] == '"':
            return at
        if text[at] == "\\":
            at += 2
        elif text.startswith(("$(", "${"), at):
            at = closing(text, at + 1, depth + 1) + 1
        else:
            at += 1
    return -1
