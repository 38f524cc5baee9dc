"""Patterns of commands: they match one simple command, word by word, never a piece of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from coterie.tools.permission.globs import mentions
from coterie.tools.permission.paths import is_below, locate
from coterie.tools.permission.shell import Command
from coterie.tools.permission.words import Word

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SHORT = re.compile(r"-[A-Za-z0-9]+")


@dataclass(frozen=True)
class Pattern:
    """Words; `*` in a word is any text within it, a last `*` alone any further arguments."""

    assignments: tuple[str, ...]
    words: tuple[str, ...]
    open: bool
    """Whether further arguments may follow."""

    @classmethod
    def of(cls, text: str) -> Pattern:
        """The pattern that a text means; blanks stand between words and nothing is quoted."""
        words = text.split()
        count = 0
        while count < len(words) and _ASSIGNMENT.match(words[count]):
            count += 1
        opened = words[-1] == "*"
        fixed = words[count:-1] if opened else words[count:]
        return cls(tuple(words[:count]), tuple(fixed), opened)

    # -- allowing: all must fit, exactly -------------------------------------------------------

    def allows(self, command: Command, folders: Sequence[str], root: str) -> bool:
        """Whether a clear command is one of those that are meant, wherever of these it runs."""
        given = tuple(word.raw for word in command.assignments)
        if given != self.assignments:
            return False
        return self._fits(command.words, folders, root)

    def _fits(self, words: Sequence[Word], folders: Sequence[str], root: str) -> bool:
        count = len(self.words)
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

    # -- forbidding: in doubt it fits ----------------------------------------------------------

    def forbids(self, words: Sequence[Word]) -> bool:
        """Whether a command may be one of those that are meant, with more arguments or fewer."""
        if not self.words:
            return True
        if not words or not _may_be(self.words[0].rpartition("/")[2], _base(words[0])):
            return False
        wanted = [word for word in self.words[1:] if not word.startswith("-")]
        options = [word for word in self.words[1:] if word.startswith("-")]
        return _in_order(wanted, words[1:]) and all(
            _has_option(option, words[1:]) for option in options
        )

    def hinted_in(self, text: str) -> bool:
        """Whether a text that nobody can take apart speaks of such a command."""
        names = [word for word in self.words if not word.startswith("-") and "*" not in word]
        return all(mentions(text, name.rpartition("/")[2]) for name in names)


# -- allowing ----------------------------------------------------------------------------------


def _program_fits(wanted: str, given: str, folder: str, root: str) -> bool:
    """A program with a path in its name is one file; a bare name is never a path."""
    if "/" not in wanted:
        return "/" not in given and bool(wild(wanted).fullmatch(given))
    if folder == root and wanted == given:
        return True
    # By way of `..` a link could lead to another file of that name.
    if "/" not in given or ".." in given.split("/"):
        return False
    return _word_fits(locate(wanted, root).named, locate(given, folder).named, folder)


def _word_fits(wanted: str, given: str, folder: str) -> bool:
    if "*" not in wanted:
        return wanted == given
    found = wild(wanted).fullmatch(given)
    if found is None or any(".." in part.split("/") for part in found.groups()):
        return False
    return _stays(wanted, given, folder)


def _stays(wanted: str, given: str, folder: str) -> bool:
    """`src/*` is no way out of src: neither by `..` nor by a link."""
    fixed = wanted.partition("*")[0]
    before, slash, _ = fixed.rpartition("/")
    if not slash:
        return not {".."} & set(given.split("/"))
    value = before.rpartition("=")[2]
    above = locate(f"{value}/", folder)
    place = locate(given.removeprefix(before.removesuffix(value)), folder)
    return place.sure and is_below(place.real, above.real)


@lru_cache(maxsize=512)
def wild(text: str) -> re.Pattern[str]:
    """A matcher of a text in which `*` is any text, as a group."""
    return re.compile("(.*)".join(re.escape(part) for part in text.split("*")), re.DOTALL)


# -- forbidding --------------------------------------------------------------------------------


def _base(word: Word) -> Word:
    """`/usr/bin/rm` is `rm`."""
    return Word(word.raw, word.text.rpartition("/")[2], word.known, word.glob)


def _may_be(wanted: str, word: Word) -> bool:
    if word.glob:
        pattern = word.text.replace("[^", "[!")
        return fnmatchcase(wanted, pattern) or bool(wild(wanted).fullmatch(word.text))
    return bool(wild(wanted).fullmatch(word.text))


def _in_order(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether the words come one after another, options and their values left out between."""
    given = iter(words)
    return all(_comes_next(name, given) for name in wanted)


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
            # One that is unknown may be the word, with any number of those after it.
            return not word.known
    return False


def _has_option(wanted: str, words: Sequence[Word]) -> bool:
    letters = _letters([wanted])
    if letters and len(wanted) < 5:  # `-exec` is one word, `-rf` are two letters
        return letters <= _letters([word.text for word in words]) or _unknown(words)
    return any(_is_long(wanted, word.text) for word in words) or _unknown(words)


def _letters(words: Sequence[str]) -> set[str]:
    """`-rf` and `-f -r` say the same."""
    return {letter for word in words if _SHORT.fullmatch(word) for letter in word[1:]}


def _is_long(wanted: str, given: str) -> bool:
    """`--forc` is `--force` to most programs, and so is `--force=yes`."""
    name = given.partition("=")[0]
    return name == wanted or (len(name) > 3 and name.startswith("--") and wanted.startswith(name))


def _unknown(words: Sequence[Word]) -> bool:
    return any(not word.known for word in words)
