"""A parser for shell command lines: simple commands, redirections and ambiguities.

It never guesses in favour of a command.  `clear` is False as soon as one word of the line is not
exactly what a program would get; `understood` is False if not even the commands are certain.
Substitutions are parsed too, because they may contain something forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from coterie.tools.permission.shell_lexer import CONTINUATION, Lexer, Word, name_set

LONGEST = 1_000_000
DEEPEST = 8
"""How deep substitutions may be nested."""
FileEffect = Literal["read", "write"]


@dataclass(frozen=True)
class Redirection:
    """A file that the shell itself opens for a command."""

    effect: FileEffect
    target: Word


@dataclass(frozen=True)
class SimpleCommand:
    """A simple command: what appears between two operators."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    before: str = ""
    """The operator or bracket in front of it."""

    @property
    def is_bare(self) -> bool:
        return not (self.assignments or self.redirections or self.before)

    @property
    def texts(self) -> tuple[str, ...]:
        """The words without their quotes."""
        return tuple(word.text for word in self.words)


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line."""

    text: str
    commands: tuple[SimpleCommand, ...]
    """In order; those inside substitutions come last."""
    clear: bool
    """Whether every word is exactly what a program gets, except for globs."""
    understood: bool
    """Whether it can run no other commands than these."""

    @property
    def search_text(self) -> str:
        """The text as written, unquoted, without expansions, and as words: to search for names."""
        spelled = "\n".join(" ".join(command.texts) for command in self.commands)
        plain = re.sub(r"\\\n|[\\'\"]", "", self.text)
        return "\n".join((self.text, plain, _EXPANSION.sub("", plain), spelled))


KEYWORDS = name_set(
    "if then elif else fi for foreach while until do done end case esac select function coproc "
    "repeat always in [[ ]] !"
)
"""`time` is not among them: it runs what follows, as `timeout` does."""

_UNFOLLOWED = frozenset({"case", "coproc", "function", "select"})
OPAQUE = name_set(
    "eval source . alias unalias trap enable hash bind builtin fc history set shopt setopt "
    "unsetopt autoload emulate"
)
"""Builtins that change the meaning of what follows, or run text built at run time."""

_EXPANSION = re.compile(r"\$(\w+|\{[^}]{0,80}\}|\([^)]{0,80}\)|.)|`[^`]{0,80}`", re.ASCII)
"""Roughly, what may expand to nothing: then `r$xm` is `rm`."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=", re.ASCII)
_DELIMITER = re.compile(r"""(['"]?)(\w+)\1""", re.ASCII)
_DESCRIPTOR = re.compile(r"[0-9]+|-")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>")
_VARIABLE_DESCRIPTOR = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True)
class _Document:
    """A here-document whose body begins after the line."""

    delimiter: str
    literal: bool
    indented: bool


@dataclass
class _Draft:
    words: list[Word] = field(default_factory=list[Word])
    assignments: list[Word] = field(default_factory=list[Word])
    redirections: list[Redirection] = field(default_factory=list[Redirection])

    @property
    def empty(self) -> bool:
        return not (self.words or self.assignments or self.redirections)


class _Parser(Lexer):
    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text)
        self._depth = depth
        self._draft = _Draft()
        self._commands: list[SimpleCommand] = []
        self._before = ""
        self._open = 0
        self._documents: list[_Document] = []
        self._tokens: Mapping[str, Callable[[], None]] = {
            " ": self._blank,
            "\t": self._blank,
            "\n": self._newline,
            "\\": self._continuation,
            "#": self._comment,
            "&": self._operator,
            ";": self._operator,
            "|": self._operator,
            "(": self._open_group,
            ")": self._close_group,
            "<": self._redirect,
            ">": self._redirect,
        }

    def line(self) -> CommandLine:
        self._check_characters()
        while char := self.ahead():
            self._tokens.get(char, self._argument)()
        self._end("")
        if self._open or self._documents:
            self.lost()
        for text in self.inner:
            inner = parse(text, self._depth + 1)
            self._commands += inner.commands
            self.understood = self.understood and inner.understood
        return CommandLine(self.text, tuple(self._commands), self.clear, self.understood)

    def _check_characters(self) -> None:
        unprintable = [char for char in self.text if not (char.isprintable() or char in "\n\t")]
        if unprintable:
            self.clear = False  # blanks that bash does not split at, and invisible characters
        if any(char < " " or char == "\x7f" for char in unprintable) or self._depth > DEEPEST:
            self.lost()

    def _blank(self) -> None:
        self.at += 1

    def _continuation(self) -> None:
        if not self.skip_continuation():
            self._argument()

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _newline(self) -> None:
        self._end("\n")
        self.at += 1
        documents, self._documents = self._documents, []
        for document in documents:
            self._body(document)

    def _operator(self) -> None:
        """End a command at `;`, `&`, `&&`, `|`, `||` and `|&` alike; `&>` redirects."""
        if self.ahead(2) == "&>":
            self._redirect()
            return
        operator = self.ahead(2 if self.ahead(2) in ("&&", "||", "|&", ";;", ";&") else 1)
        if operator in (";;", ";&"):
            self.lost()  # part of `case`
        self._end(operator)
        self.at += len(operator)

    def _open_group(self) -> None:
        # After a word it begins a function or a list; doubled, arithmetic.
        if not self._draft.empty or self.ahead(2) == "((":
            self.lost()
        self._end("(")
        self._open += 1
        self.at += 1

    def _close_group(self) -> None:
        self._end(")")
        self._open -= 1
        if self._open < 0:
            self.lost()
            self._open = 0
        self.at += 1

    def _argument(self) -> None:
        start, word = self.at, self.word()
        if self._documents and "\n" in self.text[start : self.at]:
            self.lost()  # which of the lines is the document?
        following = self.ahead()
        if following and following in "<>":
            if re.fullmatch(r"[0-9]+", word.raw):
                self._redirect()  # the number is a descriptor, not an argument
                return
            if _VARIABLE_DESCRIPTOR.fullmatch(word.raw):
                self.clear = False  # {name}> assigns to the variable
        self._add(word)

    def _add(self, word: Word) -> None:
        draft = self._draft
        if draft.empty and word.raw in ("{", "}"):
            self._before = word.raw
            return
        if draft.empty and word.raw in KEYWORDS:
            self.clear = False
            self.understood = self.understood and word.raw not in _UNFOLLOWED
            return
        assigned = None if draft.words else _ASSIGNMENT.match(word.raw)
        if assigned:
            self.clear = self.clear and assigned[1] is None
            draft.assignments.append(word)
            return
        if not draft.words and (word.glob or word.text in OPAQUE):
            self.clear = False
        draft.words.append(word)

    def _end(self, operator: str) -> None:
        draft, self._draft = self._draft, _Draft()
        if not draft.empty:
            self._commands.append(
                SimpleCommand(
                    tuple(draft.words),
                    tuple(draft.assignments),
                    tuple(draft.redirections),
                    self._before,
                )
            )
        self._before = operator

    def _redirect(self) -> None:
        if self.ahead(2) in ("<(", ">("):
            self._process()
            return
        match = _REDIRECTION.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        target = self._target()
        if target is None:
            self.lost()
        elif match[0] in ("<<", "<<-"):
            self._announce(target, indented=match[0] == "<<-")
        elif match[0] != "<<<":
            self._opens(match[0], target)

    def _process(self) -> None:
        """Handle `<(…)` and `>(…)`: arguments produced by running a command."""
        self.clear = False
        start, self.at = self.at, self.substitution(self.at + 1)
        raw = self.text[start : self.at]
        self._draft.words.append(Word(raw, raw, known=False))

    def _target(self) -> Word | None:
        while self.skip_continuation() or self.ahead() in (" ", "\t"):
            self.at += self.ahead() in (" ", "\t")
        start = self.at
        word = None if self.ahead() == "#" else self.word()
        if word is None or self.at == start:
            return None
        if word.glob or word.raw == "!":
            self.clear = False  # perhaps one file's name; and in zsh, >! forces overwriting
        return word

    def _opens(self, operator: str, target: Word) -> None:
        if operator in ("<&", ">&") and _DESCRIPTOR.fullmatch(target.raw):
            return
        if operator == "<&":
            self.clear = False
        opened = self._draft.redirections
        if operator in ("<", "<>", "<&"):
            opened.append(Redirection("read", target))
        if operator not in ("<", "<&"):
            opened.append(Redirection("write", target))

    def _announce(self, delimiter: Word, *, indented: bool) -> None:
        plain = _DELIMITER.fullmatch(delimiter.raw)
        if plain is None:
            self.lost()
            return
        self._documents.append(_Document(plain[2], bool(plain[1]), indented))

    def _body(self, document: _Document) -> None:
        start = self.at
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line, begins = self.text[self.at : end], self.at
            self.at = end + 1
            if (line.lstrip("\t") if document.indented else line) == document.delimiter:
                self._read_body(self.text[start:begins], literal=document.literal)
                return
        self.lost()

    def _read_body(self, body: str, *, literal: bool) -> None:
        if literal or not re.search(r"[$`\\]", body):
            return
        self.clear = False
        if CONTINUATION in body:
            self.lost()  # bash joins the lines before it looks for the delimiter, dash does not
        inside = Lexer(body)
        inside.expansions()
        self.inner += inside.inner
        self.understood = self.understood and inside.understood


@lru_cache(maxsize=64)
def parse(text: str, depth: int = 0) -> CommandLine:
    """Parse a command line."""
    if len(text) > LONGEST or depth > DEEPEST + 1:
        return CommandLine(text, (), clear=False, understood=False)
    return _Parser(text, depth).line()
