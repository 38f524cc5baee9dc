"""Programs that only read, with every option they may be given: for use without a sandbox.

Arguments are parsed as the program itself would: clustered letters, attached or separate values,
`--` as the end of options.  What is not declared here is not known to be harmless; long options
count only when spelled out.  With these options none of the programs writes, runs anything, follows
links below a folder, reads a list of files from a file, or leaves temporary files behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from coterie.tools.permission.shell_lexer import name_set

_Kind = Literal["flag", "number", "text", "optional"]
_KINDS: Mapping[str, _Kind] = {"#": "number", "=": "text", "?": "optional"}

_SUMS = "-bz --tag --binary --text --zero FILE"
_PROGRAMS: Mapping[str, str] = {
    "basename": "-az -s= --multiple --suffix= --zero TEXT",
    "cat": "-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs FILE",
    "cksum": "FILE",
    "cmp": "-bls -n# --bytes# --silent --quiet --verbose FILE",
    "comm": "-123z FILE",
    "cut": "-sz -b= -c= -d= -f= --complement --delimiter= --fields= --characters= FILE",
    "date": "-uR --utc PLUS",
    "dirname": "-z --zero TEXT",
    "du": "-abchkmsx0 -d# --max-depth# --summarize --human-readable --all --total FILE",
    "false": "TEXT",
    "fold": "-bs -w# --width# --spaces FILE",
    "grep": (
        "-abcEFGhHiIlLnoPqrsTvwxyzZ0123456789 -A# -B# -C# -m# -e= --regexp= --include= --exclude= "
        "--exclude-dir= --color? --colour? --count --files-with-matches --files-without-match "
        "--fixed-strings --extended-regexp --perl-regexp --basic-regexp --ignore-case "
        "--invert-match --line-number --line-regexp --word-regexp --no-filename --with-filename "
        "--only-matching --quiet --silent --recursive --text --null --no-messages "
        "--after-context# --before-context# --context# --max-count# PATTERN"
    ),
    "groups": "NONE",
    "head": "-qvz0123456789 -n# -c# --lines# --bytes# --quiet --silent --verbose FILE",
    "id": "-gGnru NONE",
    "ls": (
        "-1aAbBcCdfFgGhiklmnNopqQrRsStuUvxX -I= -T# -w# --all --almost-all --classify --color? "
        "--directory --full-time --group-directories-first --human-readable --inode --recursive "
        "--reverse --size --sort= --time= --time-style= --format= --width# --ignore= FILE"
    ),
    "md5sum": _SUMS,
    "nl": "-p -b= -f= -h= -i# -n= -s= -v# -w# FILE",
    "nproc": "NONE",
    "paste": "-sz -d= FILE",
    "pwd": "-LP NONE",
    "rev": "FILE",
    "seq": "-w -s= --equal-width --separator= TEXT",
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "stat": "-t -c= --format= --printf= --terse FILE",
    "tail": "-qvz0123456789 -n# -c# --lines# --bytes# --quiet --silent --verbose FILE",
    "tr": "-cCdst --complement --delete --squeeze-repeats --truncate-set1 TEXT",
    "true": "TEXT",
    "type": "TEXT",
    "uname": "-amnoprsv NONE",
    "uniq": "-cdDiuz -f# -s# -w# --count --repeated --unique --ignore-case ONE",
    "wc": "-clLmw --bytes --chars --lines --words --max-line-length FILE",
    "which": "-a TEXT",
    "whoami": "NONE",
}
_NUMBER = re.compile(r"[-+]?[0-9]+[kKmMGb]?")
_OPTION = re.compile(r"(-[A-Za-z0-9]+|--[a-z0-9-]+)([#=?]?)")


@dataclass(frozen=True)
class ExactAccess:
    """All files that a command may read, as written."""

    files: tuple[str, ...] = ()
    deep: bool = False
    """Whether it also reads everything below these folders, without following links there."""


@dataclass(frozen=True)
class _ParsedArguments:
    """A command's arguments, parsed."""

    options: frozenset[str]
    operands: tuple[str, ...]


@dataclass(frozen=True)
class _OptionSpec:
    """The options of one program, by letter or by long name with its dashes, and its operands."""

    options: Mapping[str, _Kind]
    operands: str
    """The key in `_ACCESS_BY_OPERANDS` that says what they are."""

    @classmethod
    def parse(cls, text: str) -> _OptionSpec:
        *words, operands = text.split()
        options: dict[str, _Kind] = {}
        for word in words:
            match = _OPTION.fullmatch(word)
            assert match is not None, word
            names = [match[1]] if match[1].startswith("--") else list(match[1][1:])
            options |= dict.fromkeys(names, _KINDS.get(match[2], "flag"))
        return cls(options, operands)

    def take(self, arguments: Sequence[str]) -> _ParsedArguments | None:
        """Parse the arguments; None if an option is not as declared."""
        remaining = iter(arguments)
        options: set[str] = set()
        operands: list[str] = []
        for word in remaining:
            if word == "--":
                operands += remaining
            elif word.startswith("--"):
                named = self._long(word, remaining)
                if named is None:
                    return None
                options.add(named)
            elif word.startswith("-") and word != "-":
                letters = self._cluster(word[1:], remaining)
                if letters is None:
                    return None
                options |= letters
            else:
                operands.append(word)
        return _ParsedArguments(frozenset(options), tuple(operands))

    def _long(self, word: str, remaining: Iterator[str]) -> str | None:
        name, equals, value = word.partition("=")
        kind = self.options.get(name)
        if kind is None or (kind == "flag" and equals):
            return None
        if kind in ("number", "text") and not equals:
            value = next(remaining, "")
        return name if kind != "number" or _NUMBER.fullmatch(value) else None

    def _cluster(self, letters: str, remaining: Iterator[str]) -> set[str] | None:
        seen: set[str] = set()
        for place, letter in enumerate(letters):
            kind = self.options.get(letter)
            if kind is None:
                return None
            seen.add(letter)
            if kind == "flag":
                continue
            value = letters[place + 1 :] or next(remaining, "")
            return seen if kind == "text" or _NUMBER.fullmatch(value) else None
        return seen


_PATTERN_OPTIONS = frozenset({"e", "--regexp"})
_RECURSIVE = frozenset({"r", "--recursive"})


@cache
def _declared(program: str) -> _OptionSpec | None:
    text = _PROGRAMS.get(program)
    return None if text is None else _OptionSpec.parse(text)


def exact_access(words: Sequence[str]) -> ExactAccess | None:
    """Return what a command of literal words reads; None if the table does not cover it."""
    program, arguments = words[0], tuple(words[1:])
    if program in _SPECIAL:
        return _SPECIAL[program](arguments)
    declared = _declared(program)
    parsed = None if declared is None else declared.take(arguments)
    if declared is None or parsed is None:
        return None
    return _ACCESS_BY_OPERANDS[declared.operands](parsed)


def _files(parsed: _ParsedArguments) -> ExactAccess:
    return ExactAccess(parsed.operands)


def _one(parsed: _ParsedArguments) -> ExactAccess | None:
    """Accept one file at most: a second would be written to."""
    return ExactAccess(parsed.operands) if len(parsed.operands) < 2 else None


def _none(parsed: _ParsedArguments) -> ExactAccess | None:
    return None if parsed.operands else ExactAccess()


def _plus(parsed: _ParsedArguments) -> ExactAccess | None:
    return ExactAccess() if all(one.startswith("+") for one in parsed.operands) else None


def _pattern(parsed: _ParsedArguments) -> ExactAccess:
    deep = bool(parsed.options & _RECURSIVE)
    files = parsed.operands if parsed.options & _PATTERN_OPTIONS else parsed.operands[1:]
    return ExactAccess(files or ((".",) if deep else ()), deep)


_ACCESS_BY_OPERANDS: Mapping[str, Callable[[_ParsedArguments], ExactAccess | None]] = {
    "FILE": _files,
    "TEXT": lambda _: ExactAccess(),
    "PATTERN": _pattern,
    "ONE": _one,
    "PLUS": _plus,
    "NONE": _none,
}

_LINES = re.compile(r"(([0-9]+|\$)(,([0-9]+|\$))?p;?)+")
_FILE_TESTS = frozenset({"-d", "-e", "-f", "-h", "-L", "-r", "-s", "-w", "-x"})
_STRINGS = re.compile(r"([^%]|%%|%-?[0-9]*(\.[0-9]+)?[sbqc])*", re.DOTALL)
_FIND_FLAGS = name_set("-a -and -depth -empty -ls -not -o -or -print -print0 -prune ! ( )")
_FIND_TEXTS = name_set("-iname -ipath -iregex -name -path -perm -regex -size -type -wholename")
_FIND_NUMBERS = name_set("-maxdepth -mindepth -mmin -mtime -ctime -atime -links")


def _sed(arguments: tuple[str, ...]) -> ExactAccess | None:
    """`sed -n 1,80p FILE` shows lines; any other script may write files or run commands."""
    shows = len(arguments) > 1 and arguments[0] == "-n" and _LINES.fullmatch(arguments[1])
    plain = not any(one.startswith("-") for one in arguments[2:])
    return ExactAccess(arguments[2:]) if shows and plain else None


def _test(arguments: tuple[str, ...]) -> ExactAccess | None:
    """Accept one file test: comparisons are expressions in some shells, and may assign."""
    asks_one = len(arguments) == 2 and arguments[0] in _FILE_TESTS
    return ExactAccess(arguments[1:]) if asks_one else None


def _printf(arguments: tuple[str, ...]) -> ExactAccess | None:
    """`-v` and `%n` assign to variables; zsh evaluates the argument of `%d` as an expression."""
    plain = bool(arguments) and not arguments[0].startswith("-")
    return ExactAccess() if plain and _STRINGS.fullmatch(arguments[0]) else None


def _find(arguments: tuple[str, ...]) -> ExactAccess | None:
    folders = 0
    while folders < len(arguments) and not arguments[folders].startswith(("-", "!", "(")):
        folders += 1
    remaining = iter(arguments[folders:])
    for word in remaining:
        if word in _FIND_FLAGS:
            continue
        value = next(remaining, None)
        number = word in _FIND_NUMBERS and value is not None and _NUMBER.fullmatch(value)
        if not number and (word not in _FIND_TEXTS or value is None):
            return None
    return ExactAccess(arguments[:folders] or (".",))


_SPECIAL: Mapping[str, Callable[[tuple[str, ...]], ExactAccess | None]] = {
    ":": lambda _: ExactAccess(),
    "[": lambda words: _test(words[:-1]) if words[-1:] == ("]",) else None,
    "command": lambda words: ExactAccess() if words[:1] in (("-v",), ("-V",)) else None,
    "echo": lambda _: ExactAccess(),
    "find": _find,
    "printf": _printf,
    "sed": _sed,
    "test": _test,
}
