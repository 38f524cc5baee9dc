"""The programs that only look, and the ways in which each could be made to do more.

What is not in this table is not known to be harmless.  Options are refused in every form that a
program may take them in: `-ro` holds `-o`, and `--outp` means `--output`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_NOTHING = re.compile(r"(?!)")

LeftOut = Literal["nothing", "hidden", "untracked"]


@dataclass(frozen=True)
class Reader:
    """A program, or a subcommand of git, that changes nothing unless it is told to."""

    letters: str = ""
    """Short options with which it does more."""
    long: tuple[str, ...] = ()
    """Long ones, without their dashes."""
    refused: re.Pattern[str] = _NOTHING
    """Other arguments with which it does."""
    only: re.Pattern[str] | None = None
    """If given, the arguments that are known, and no others."""
    operands: int | None = None
    """How many arguments it may have that are no options."""
    files: bool = True
    """Whether its arguments may be files that it reads."""
    deep: str | None = None
    """The short options with which it reads all files of a folder; empty: it always does."""
    leaves_out: LeftOut = "nothing"
    """What it then does not read of the folder."""
    unless: re.Pattern[str] = _NOTHING
    """Arguments with which it reads that too."""
    values: str = ""
    """Short options that have a value."""

    def only_looks(self, arguments: tuple[str, ...]) -> bool:
        """Whether it changes nothing with these arguments."""
        if self.only and not all(self.only.fullmatch(one) for one in arguments):
            return False
        plain = [one for one in arguments if not one.startswith("-") or one == "-"]
        if self.operands is not None and len(plain) > self.operands:
            return False
        return not any(self._does_more(one) for one in arguments)

    def reads_folders(self, arguments: tuple[str, ...]) -> bool:
        """Whether it reads the files below the folders it is given."""
        if self.deep is None:
            return False
        return not self.deep or any(
            has_letter(one, self.deep) or one.startswith("--r") for one in arguments
        )

    def left_out(self, arguments: tuple[str, ...]) -> LeftOut:
        """What it does not read of a folder."""
        return "nothing" if any(map(self.unless.fullmatch, arguments)) else self.leaves_out

    def reads_where_it_is(self, arguments: tuple[str, ...]) -> bool:
        """Whether it may read the folder that it runs in: no other is surely named.

        Of two arguments that are no values of options, only the first can be what is looked for.
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
        if self.refused.fullmatch(argument) or has_letter(argument, self.letters):
            return True
        name = argument[2:].partition("=")[0] if argument.startswith("--") else ""
        return bool(name) and any(long.startswith(name) for long in self.long)


def has_letter(argument: str, letters: str) -> bool:
    """Whether an argument may hold one of these short options."""
    short = argument.startswith("-") and not argument.startswith("--")
    return short and not set(letters).isdisjoint(argument[1:])


def _each(names: str, reader: Reader) -> Mapping[str, Reader]:
    return dict.fromkeys(names.split(), reader)


READERS: Mapping[str, Reader] = {
    **_each("cat cksum cmp comm cut fold head join ls md5sum nl od paste readlink", Reader()),
    **_each("realpath rev sha1sum sha256sum sha512sum stat tac tail", Reader()),
    **_each("column df", Reader()),
    **_each("du wc", Reader(long=("files0-from",))),  # a list of files is in a file
    **_each(": basename dirname echo false groups id nproc pwd seq tr", Reader(files=False)),
    **_each("true type uname which whoami", Reader(files=False)),
    "date": Reader(
        only=re.compile(r"\+.*|-[uR]|-I\w*|--utc|--iso-8601(=\w+)?|--date=.*|-d.+", re.DOTALL),
        files=False,
    ),
    "diff": Reader("rl", ("recursive", "paginate")),
    "env": Reader(only=_NOTHING),
    "file": Reader(
        "CfzZS", ("files-from", "compile", "uncompress", "uncompress-noreport", "no-sandbox")
    ),
    "find": Reader(
        refused=re.compile(r"-(exec.*|ok.*|delete|fprint.*|fls|follow|files0-from|L|H)")
    ),
    "grep": Reader("Rd", ("dereference-recursive", "directories"), deep="r", values="ABCDefm"),
    "jq": Reader(refused=re.compile(r".*\b(import|include)\b.*", re.DOTALL)),
    "rg": Reader(
        "Lz",
        ("pre", "pre-glob", "hostname-bin", "follow", "search-zip"),
        deep="",
        leaves_out="hidden",
        unless=re.compile(r"-[^-]*[u.].*|--(hidden|no-ignore.*|unrestricted)"),
        values="ABCEMTdefgjmrt",
    ),
    "sort": Reader("oT", ("output", "compress-program", "files0-from", "temporary-directory")),
    "tree": Reader("oRl", ("output",)),
    "uniq": Reader(operands=1),  # the second is what it writes to
}

_SHOWS = Reader(long=("output", "ext-diff", "textconv"))
_LISTS = r"-[arv]+|-vv|--all|--remotes|--verbose|--show-current|--(no-)?color.*|--(sort|format)=.*"

GIT: Mapping[str, Reader] = {
    **_each("log shortlog blame rev-list", _SHOWS),
    **_each("diff show", Reader(long=(*_SHOWS.long, "no-index"), deep="", leaves_out="untracked")),
    **_each("status rev-parse ls-files ls-tree describe merge-base name-rev show-ref", Reader()),
    "branch": Reader(only=re.compile(rf"--list|{_LISTS}")),
    "cat-file": Reader(long=("textconv", "filters")),
    "grep": Reader(
        "O",
        ("open-files-in-pager", "textconv", "ext-grep"),
        deep="",
        leaves_out="untracked",
        unless=re.compile(r"--(u|no-i|no-e).*"),
    ),
    "remote": Reader(only=re.compile(r"-v|--verbose")),
    "stash list": _SHOWS,
    "tag": Reader(only=re.compile(r"--list|-l|-n[0-9]*|--(sort|format)=.*")),
    "version": Reader(),
    "worktree list": Reader(),
}
GIT_OPTIONS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
"""Before the subcommand."""
