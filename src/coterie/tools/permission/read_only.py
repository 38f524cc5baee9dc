"""Commands known to only read, the files they read, and the arguments that make them do more.

A program that is not in these tables is not known to be harmless.  Options are refused in every
form that a program may accept: `-ro` contains `-o`, and `--outp` means `--output`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from coterie.tools.permission.git_folders import plain_repository, repository_of
from coterie.tools.permission.paths import resolve
from coterie.tools.permission.shell_parser import SimpleCommand

_NOTHING = re.compile(r"(?!)")
_ALWAYS = re.compile("")

Skipped = Literal["nothing", "hidden", "untracked", "ignored"]
"""What a search leaves out: in each case `.coterie`, which is hidden, never tracked, and ignored in
any repository.  What a rule denies never counts as left out: an ignore file may include it."""


@dataclass(frozen=True)
class ReadOnlyProgram:
    """A program or git subcommand that changes nothing unless its arguments say so."""

    unsafe_short: str = ""
    """Short options that make it do more than read."""
    unsafe_long: tuple[str, ...] = ()
    """Long options that do, without their dashes."""
    refused: re.Pattern[str] = _NOTHING
    """Matches other arguments that make it do more."""
    only: re.Pattern[str] | None = None
    """If set, no other arguments are accepted."""
    operands: int | None = None
    """How many non-option arguments it may have, if limited."""
    files: bool = True
    """Whether its arguments may be files that it reads."""
    deep: re.Pattern[str] = _NOTHING
    """Matches options that make it read all files in a folder; "" too if it always does."""
    skips: Skipped = "nothing"
    """What it then skips in the folder."""
    unskip: re.Pattern[str] = _NOTHING
    """Matches arguments that make it skip nothing."""
    values: str = ""
    """Short options that take a value."""

    def only_reads(self, arguments: tuple[str, ...]) -> bool:
        """Whether it changes nothing with these arguments."""
        if self.only and not all(self.only.fullmatch(one) for one in arguments):
            return False
        plain = [one for one in arguments if not one.startswith("-") or one == "-"]
        if self.operands is not None and len(plain) > self.operands:
            return False
        return not any(self._does_more(one) for one in arguments)

    def reads_folders(self, arguments: tuple[str, ...]) -> bool:
        """Whether it reads the files below the folders it is given."""
        return any(map(self.deep.fullmatch, ("", *arguments)))

    def may_read_cwd(self, arguments: tuple[str, ...]) -> bool:
        """Whether it may read its working directory, because no other folder is certainly named.

        Of two arguments that are not option values, only the first can be the search pattern.
        """
        operands, value = 0, False
        for one in arguments:
            if one.startswith("-"):
                short = not one.startswith("--")
                value = one[-1] in self.values if short else "=" not in one
            else:
                operands += not value
                value = False
        return operands < 2

    def _does_more(self, argument: str) -> bool:
        if self.refused.fullmatch(argument) or has_letter(argument, self.unsafe_short):
            return True
        name = argument[2:].partition("=")[0] if argument.startswith("--") else ""
        return bool(name) and any(long.startswith(name) for long in self.unsafe_long)


def has_letter(argument: str, letters: str) -> bool:
    """Whether an argument may contain one of these short options."""
    short = argument.startswith("-") and not argument.startswith("--")
    return short and not set(letters).isdisjoint(argument[1:])


def _each(names: str, reader: ReadOnlyProgram) -> Mapping[str, ReadOnlyProgram]:
    return dict.fromkeys(names.split(), reader)


READ_ONLY_PROGRAMS: Mapping[str, ReadOnlyProgram] = {
    **_each(
        "cat cksum cmp column comm cut df fold head join ls md5sum nl od paste readlink realpath "
        "rev sha1sum sha256sum sha512sum stat tac tail",
        ReadOnlyProgram(),
    ),
    **_each(
        "du wc", ReadOnlyProgram(unsafe_long=("files0-from",))
    ),  # reads a list of files from a file
    **_each(
        ": basename dirname echo false groups id nproc pwd seq tr true type uname which whoami",
        ReadOnlyProgram(files=False),
    ),
    "date": ReadOnlyProgram(
        only=re.compile(r"\+.*|-[uR]|-I\w*|--utc|--iso-8601(=\w+)?|--date=.*|-d.+", re.DOTALL),
        files=False,
    ),
    "diff": ReadOnlyProgram("rl", ("recursive", "paginate")),
    "env": ReadOnlyProgram(only=_NOTHING),
    "file": ReadOnlyProgram(
        "CfzZS", ("files-from", "compile", "uncompress", "uncompress-noreport", "no-sandbox")
    ),
    "find": ReadOnlyProgram(
        refused=re.compile(r"-(exec.*|ok.*|delete|fprint.*|fls|follow|files0-from|L|H)")
    ),
    "grep": ReadOnlyProgram(
        "Rd",
        ("dereference-recursive", "directories"),
        deep=re.compile(r"-[^-]*r.*|--r.*", re.DOTALL),
        values="ABCDefm",
    ),
    "jq": ReadOnlyProgram(refused=re.compile(r".*\b(import|include)\b.*", re.DOTALL)),
    "rg": ReadOnlyProgram(
        "Lz",
        ("pre", "pre-glob", "hostname-bin", "follow", "search-zip"),
        deep=_ALWAYS,
        skips="hidden",
        # What a glob matches is searched even if it is hidden.
        unskip=re.compile(
            r"-[^-]*[gu.].*|--(hidden|i?glob.*|ignore-file.*|no-ignore.*|unrestricted)", re.DOTALL
        ),
        values="ABCEMTdefgjmrt",
    ),
    "sort": ReadOnlyProgram(
        "oT", ("output", "compress-program", "files0-from", "temporary-directory")
    ),
    "tree": ReadOnlyProgram("oRl", ("output",)),
    "uniq": ReadOnlyProgram(operands=1),  # a second is written to
}

_SHOWS = ReadOnlyProgram(unsafe_long=("output", "ext-diff", "textconv"))
_LOGS = replace(
    _SHOWS,
    # With these, or what they may be abbreviated to, it shows patches.
    deep=re.compile(r"-[^-]*[pucmUL].*|--(pa|un|cc|ch|color-w|w|dd|diff-m|bi|rem).*", re.DOTALL),
    skips="untracked",
)
_LISTS = r"-[arv]+|-vv|--all|--remotes|--verbose|--show-current|--(no-)?color.*|--(sort|format)=.*"

READ_ONLY_GIT: Mapping[str, ReadOnlyProgram] = {
    "log": _LOGS,
    **_each("shortlog blame rev-list", _SHOWS),
    **_each(
        "diff show",
        replace(_LOGS, unsafe_long=(*_SHOWS.unsafe_long, "no-index"), deep=_ALWAYS),
    ),
    "status": ReadOnlyProgram(deep=re.compile(r"-[^-]*v.*|--v.*", re.DOTALL), skips="untracked"),
    **_each("rev-parse ls-files ls-tree describe merge-base name-rev show-ref", ReadOnlyProgram()),
    "branch": ReadOnlyProgram(only=re.compile(rf"--list|{_LISTS}")),
    "cat-file": ReadOnlyProgram(
        unsafe_long=("textconv", "filters"), deep=_ALWAYS, skips="untracked"
    ),
    "grep": ReadOnlyProgram(
        "O",
        ("open-files-in-pager", "textconv", "ext-grep"),
        deep=_ALWAYS,
        skips="untracked",
        unskip=re.compile(r"--(u|no-i|no-e).*"),
    ),
    "remote": ReadOnlyProgram(only=re.compile(r"-v|--verbose")),
    "stash list": _LOGS,
    "tag": ReadOnlyProgram(only=re.compile(r"--list|-l|-n[0-9]*|--(sort|format)=.*")),
    "version": ReadOnlyProgram(),
    "worktree list": ReadOnlyProgram(),
}
GIT_OPTIONS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
"""Harmless options before the subcommand."""


_STRINGS = re.compile(r"([^%]|%%|%-?[0-9]*(\.[0-9]+)?[sbqc])*", re.DOTALL)
_NUMBERS = re.compile(r"([^%]|%%|%[-+ #0]*[0-9]*(\.[0-9]+)?[sbqcdiouxXeEfgG])*", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9.]*")
_FILE_TESTS = frozenset({"-d", "-e", "-f", "-h", "-L", "-n", "-r", "-s", "-w", "-x", "-z"})
_LINES = re.compile(r"(([0-9]+|\$)(,([0-9]+|\$))?p;?)+")


@dataclass(frozen=True)
class ReadAccess:
    """The files that a command reads."""

    files: tuple[str, ...]
    """As written; some may not be files at all."""
    deep: bool = False
    """Whether it reads everything in those that are folders."""
    here: bool = False
    """Whether it then also reads everything in its working directory."""
    repository: bool = False
    """Whether it then also reads everything in the repository that it is in."""
    skips: Skipped = "nothing"

    def folders(self, cwd: str) -> list[str]:
        """Return the folders that it reads entirely."""
        if not self.deep:
            return []
        named = [resolve(file, cwd).real for file in self.files]
        whole = [*([cwd] if self.here else ()), *([repository_of(cwd)] if self.repository else ())]
        return [*filter(os.path.isdir, named), *whole]


def read_access(
    command: SimpleCommand, arguments: tuple[str, ...], folder: str
) -> ReadAccess | None:
    """Return what an unambiguous command reads; None if it is not known to only read.

    `arguments` are the words after the program, without their quotes.
    """
    if command.assignments or not command.words:
        return None
    program = command.words[0].text
    if program in _SPECIAL:
        return _SPECIAL[program](arguments, folder)
    return _ordinary(READ_ONLY_PROGRAMS.get(program), arguments)


def _ordinary(reader: ReadOnlyProgram | None, arguments: tuple[str, ...]) -> ReadAccess | None:
    if reader is None or not reader.only_reads(arguments):
        return None
    files = tuple(named for one in arguments for named in _named(one)) if reader.files else ()
    if not reader.reads_folders(arguments):
        return ReadAccess(files)
    here = reader.may_read_cwd(arguments)
    skips = "nothing" if any(map(reader.unskip.fullmatch, arguments)) else reader.skips
    return ReadAccess(files, deep=True, here=here, skips=skips)


def _named(argument: str) -> Iterator[str]:
    """The files that an argument may name: itself, or the value of an option."""
    if not argument.startswith("-"):
        yield argument
        return
    yield from filter(None, [argument.partition("=")[2]])
    if not argument.startswith("--") and len(argument) > 3:
        yield argument[2:]  # -f/etc/passwd; one letter is a separator, as in cut -d/


def _git(arguments: tuple[str, ...], folder: str) -> ReadAccess | None:
    rest = list(arguments)
    while rest and rest[0] in GIT_OPTIONS:
        rest.pop(0)
    if rest == ["--version"]:
        return ReadAccess(())
    if not rest or not plain_repository(folder):
        return None
    for length in (2, 1):
        name, given = " ".join(rest[:length]), tuple(rest[length:])
        if name in READ_ONLY_GIT:
            access = _ordinary(READ_ONLY_GIT[name], given)
            return access and _in_repository(access, name, given, folder)
    return None


def _in_repository(
    access: ReadAccess, name: str, arguments: tuple[str, ...], folder: str
) -> ReadAccess:
    """Say how much of the repository a git subcommand reads, if it reads more than it is given.

    Its operands may be revisions or ids of files, and wherever it runs it shows all that is there.
    """
    paths = _grep_paths(arguments, folder) if name == "grep" else None
    return replace(access, here=paths == (), repository=paths is None)


_TAKES_COUNT = re.compile(r"-[^-ef]*[ABCm]")
_PLAIN_PATH = re.compile(r"[^:*?\[\\]+")


def _grep_paths(arguments: tuple[str, ...], folder: str) -> tuple[str, ...] | None:
    """Return the paths that `git grep` is certainly limited to; none stand for its folder.

    None if it may read others: what is not an existing path may be a revision, and with `--` even
    that may be one.
    """
    dashes = arguments.index("--") if "--" in arguments else len(arguments)
    before, after = _operands(arguments[:dashes]), arguments[dashes + 1 :]
    # With the pattern in an option, or after `--`, the first operand may be a revision too.
    if not before or "--" in after or any(has_letter(one, "ef") for one in arguments):
        return None
    if len(before) > 1 and dashes < len(arguments):
        return None
    paths = (*before[1:], *after)
    return paths if all(_is_plainly_there(one, folder) for one in paths) else None


def _operands(arguments: tuple[str, ...]) -> list[str]:
    return [
        one
        for before, one in pairwise(("", *arguments))
        if not one.startswith("-") and not (one.isdecimal() and _TAKES_COUNT.fullmatch(before))
    ]


def _is_plainly_there(path: str, folder: str) -> bool:
    """Whether a path means one file or folder, to git as to anybody else."""
    place = resolve(path, folder)
    plain = bool(_PLAIN_PATH.fullmatch(path)) and place.named == place.real
    return plain and os.path.lexists(place.real)


def _diff(arguments: tuple[str, ...], folder: str) -> ReadAccess | None:
    """Of two folders it compares the files."""
    access = _ordinary(READ_ONLY_PROGRAMS["diff"], arguments)
    return access and replace(access, deep=True)


def _printf(arguments: tuple[str, ...], folder: str) -> ReadAccess | None:
    """`-v` and `%n` assign to variables; zsh evaluates the argument of `%d` as an expression."""
    if not arguments or arguments[0].startswith("-"):
        return None
    if _STRINGS.fullmatch(arguments[0]):
        return ReadAccess(())
    numbers = all(_NUMBER.fullmatch(one) for one in arguments[1:])
    return ReadAccess(()) if numbers and _NUMBERS.fullmatch(arguments[0]) else None


def _test(arguments: tuple[str, ...], folder: str) -> ReadAccess | None:
    """Accept one file test: comparisons are expressions in some shells, and may assign."""
    asks_one = len(arguments) == 2 and arguments[0] in _FILE_TESTS
    return ReadAccess(arguments[1:]) if asks_one else None


def _sed(arguments: tuple[str, ...], folder: str) -> ReadAccess | None:
    """`sed -n 1,80p FILE` shows lines; any other script may write files or run commands."""
    if len(arguments) < 2 or arguments[0] != "-n" or not _LINES.fullmatch(arguments[1]):
        return None
    return None if any(one.startswith("-") for one in arguments[2:]) else ReadAccess(arguments[2:])


_SPECIAL: Mapping[str, Callable[[tuple[str, ...], str], ReadAccess | None]] = {
    "diff": _diff,
    "git": _git,
    "printf": _printf,
    "test": _test,
    "[": lambda words, cwd: _test(words[:-1], cwd) if words[-1:] == ("]",) else None,
    "sed": _sed,
    "command": lambda words, _: ReadAccess(()) if words[:1] in (("-v",), ("-V",)) else None,
}
