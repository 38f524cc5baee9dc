"""Whether a command is known to only look, and at which files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from coterie.tools.permission.globs import Glob
from coterie.tools.permission.paths import locate
from coterie.tools.permission.readers import GIT, GIT_OPTIONS, READERS, LeftOut, Reader
from coterie.tools.permission.shell import Command

_STRINGS = re.compile(r"([^%]|%%|%-?[0-9]*(\.[0-9]+)?[sbqc])*", re.DOTALL)
_NUMBERS = re.compile(r"([^%]|%%|%[-+ #0]*[0-9]*(\.[0-9]+)?[sbqcdiouxXeEfgG])*", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9.]*")
_FILE_TESTS = frozenset({"-d", "-e", "-f", "-h", "-L", "-n", "-r", "-s", "-w", "-x", "-z"})
_LINES = re.compile(r"(([0-9]+|\$)(,([0-9]+|\$))?p;?)+")


@dataclass(frozen=True)
class Look:
    """What a command looks at."""

    files: tuple[str, ...]
    """As it names them; a word may be no file at all."""
    deep: bool = False
    """Whether it reads all files of these folders."""
    here: bool = False
    """Whether it then reads those of the folder it runs in."""
    leaves_out: LeftOut = "nothing"

    def folders(self, cwd: str) -> list[str]:
        """The folders that it reads all of."""
        if not self.deep:
            return []
        named = [locate(file, cwd).real for file in self.files]
        return [*filter(os.path.isdir, named), *([cwd] if self.here else [])]

    def reads(self, glob: Glob) -> bool:
        """Whether it reads what a pattern covers, where that is in such a folder."""
        return self.leaves_out != "hidden" or not glob.is_hidden


def look_of(command: Command, arguments: tuple[str, ...], folder: str) -> Look | None:
    """What a clear command looks at; None where it is not known to do nothing else.

    The arguments are those that it gets, with the names of files in place of patterns.
    """
    if command.assignments or not command.words:
        return None
    program = command.words[0].text
    special = _SPECIAL.get(program)
    if special is not None:
        return special(arguments, folder)
    return _ordinary(READERS.get(program), arguments)


def _ordinary(reader: Reader | None, arguments: tuple[str, ...]) -> Look | None:
    if reader is None or not reader.only_looks(arguments):
        return None
    files = tuple(named for one in arguments for named in _named(one)) if reader.files else ()
    if not reader.reads_folders(arguments):
        return Look(files)
    here, left_out = reader.reads_where_it_is(arguments), reader.left_out(arguments)
    return Look(files, deep=True, here=here, leaves_out=left_out)


def _named(argument: str) -> Iterator[str]:
    """The files that an argument may name: itself, or the value of an option."""
    if not argument.startswith("-"):
        yield argument
        return
    yield from filter(None, [argument.partition("=")[2]])
    if not argument.startswith("--") and len(argument) > 3:
        yield argument[2:]  # -f/etc/passwd; one letter is a separator, as in cut -d/


def _git(arguments: tuple[str, ...], folder: str) -> Look | None:
    rest = list(arguments)
    while rest and rest[0] in GIT_OPTIONS:
        rest.pop(0)
    if rest == ["--version"]:
        return Look(())
    if not rest or not plain_repository(folder):
        return None
    for length in (2, 1):
        reader = GIT.get(" ".join(rest[:length]))
        if reader is not None:
            return _ordinary(reader, tuple(rest[length:]))
    return None


def plain_repository(folder: str) -> bool:
    """Whether git would not take a folder of files for a repository.

    One can be made out of ordinary files, and its settings name programs that git runs.
    """
    while folder:
        if all(os.path.lexists(f"{folder}/{name}") for name in ("HEAD", "objects", "refs")):
            return False
        if os.path.lexists(f"{folder}/.git"):
            return True
        folder = folder.rpartition("/")[0]
    return True


def _printf(arguments: tuple[str, ...], folder: str) -> Look | None:
    """`-v` and `%n` assign to variables; zsh takes the number of a `%d` for an expression."""
    if not arguments or arguments[0].startswith("-"):
        return None
    if _STRINGS.fullmatch(arguments[0]):
        return Look(())
    numbers = all(_NUMBER.fullmatch(one) for one in arguments[1:])
    return Look(()) if numbers and _NUMBERS.fullmatch(arguments[0]) else None


def _test(arguments: tuple[str, ...], folder: str) -> Look | None:
    """One question about a file; comparisons are expressions in some shells, and may assign."""
    if len(arguments) == 2 and arguments[0] in _FILE_TESTS:
        return Look(arguments[1:])
    return None


def _bracket(arguments: tuple[str, ...], folder: str) -> Look | None:
    return _test(arguments[:-1], folder) if arguments[-1:] == ("]",) else None


def _sed(arguments: tuple[str, ...], folder: str) -> Look | None:
    """`sed -n 1,80p FILE` shows lines; any other script may write files or run commands."""
    if len(arguments) < 2 or arguments[0] != "-n" or not _LINES.fullmatch(arguments[1]):
        return None
    return None if any(one.startswith("-") for one in arguments[2:]) else Look(arguments[2:])


def _command(arguments: tuple[str, ...], folder: str) -> Look | None:
    return Look(()) if arguments[:1] in (("-v",), ("-V",)) else None


def may_look(program: str) -> bool:
    """Whether a program is one that may only look."""
    return program in READERS or program in _SPECIAL


_SPECIAL: Mapping[str, Callable[[tuple[str, ...], str], Look | None]] = {
    "git": _git,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "sed": _sed,
    "command": _command,
}
