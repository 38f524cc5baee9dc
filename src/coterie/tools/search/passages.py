"""A file as it is indexed: split into passages, with prose and code apart.

Knows no language: definitions and comments are recognised by forms that most languages share.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coterie.tools.search.vocabulary import split_words

LONGEST, SHORTEST = 60, 12
"""A passage ends before the next definition, once it has some lines; at the latest when full."""
WRITTEN = (".md", ".markdown", ".rst", ".txt", ".adoc")
"""Files that are nothing but words."""
OPENING = 30

_BEFORE = (
    r"export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\(\w+\))?"
    r"|unsafe|extern|inline|virtual|override|sealed|partial|data|open"
)
_KINDS = (
    r"def|class|function|func|fn|fun|struct|enum|interface|trait|impl|type|module|namespace|object"
    r"|record|macro_rules!|sub|proc"
)
_DEFINITION = re.compile(
    rf"[ \t]*(?:(?:{_BEFORE})[ \t]+)*(?:{_KINDS})[ \t]+(?:\([^)\n]*\)[ \t]*)?([A-Za-z_$][\w$]*)"
)
_LEADS_IN = ("@", "#", "//", "/*", "*", "--")
"""Comments and decorators above a definition belong to it."""
# No repetition runs past a few pages, so that a file of unclosed quotes takes no time to read.
_COMMENT_OR_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!"")){0,20000}"""'
    r"|'''(?:[^'\\]|\\.|'(?!'')){0,20000}'''"
    r"|/\*.{0,20000}?\*/"
    r"|<!--.{0,20000}?-->"
    r"|(?<![\w&:\"'])(?:\#|//|--)[^\n]*"
    r'|"(?:[^"\\\n]|\\.){0,4000}"'
    r"|'(?:[^'\\\n]|\\.){0,4000}'"
    r"|`(?:[^`\\]|\\.){0,4000}`",
    re.DOTALL,
)


@dataclass(frozen=True)
class IndexedText:
    """What is indexed of a text, by where in it the words stand."""

    path: str
    names: str
    """What it defines."""
    prose: str
    """Comments, and strings that are sentences."""
    code: str


@dataclass(frozen=True)
class Passage:
    """Some lines that belong together, counted from 1."""

    first: int
    last: int
    digest: str
    """Of the lines, so that what is known of them outlives a change elsewhere in the file."""
    words: IndexedText


@dataclass(frozen=True)
class IndexedFile:
    """All that is indexed of one file."""

    passages: tuple[Passage, ...]
    whole: IndexedText
    outline: IndexedText
    """What the file says about itself: its path, what it defines, how its comments begin."""


def split_file(path: str, text: str) -> IndexedFile:
    """Cut a file up."""
    lines = text.split("\n")
    prose, code = _apart(path, text)
    defined = [found[1] if (found := _DEFINITION.match(line)) else "" for line in lines]
    above = split_words(path)
    passages = tuple(
        Passage(
            first + 1,
            last,
            digest("\n".join(lines[first:last])),
            IndexedText(
                above,
                split_words(" ".join(defined[first:last])),
                split_words("\n".join(prose[first:last])),
                split_words("\n".join(code[first:last])),
            ),
        )
        for first, last in _cuts(lines, defined)
    )
    whole = IndexedText(
        above,
        " ".join(passage.words.names for passage in passages),
        " ".join(passage.words.prose for passage in passages),
        " ".join(passage.words.code for passage in passages),
    )
    heads = split_words("\n".join(_heads(prose)))
    return IndexedFile(passages, whole, IndexedText(above, whole.names, heads, ""))


def digest(text: str) -> str:
    """What two passages have in common only if they are the same."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _apart(path: str, text: str) -> tuple[list[str], list[str]]:
    """The lines with only what is prose, and the same lines with only what is code."""
    if path.lower().endswith(WRITTEN):
        return text.split("\n"), [""] * (text.count("\n") + 1)
    prose: list[str] = []
    code: list[str] = []
    last = 0
    for found in _COMMENT_OR_STRING.finditer(text):
        token, before = found.group(), text[last : found.start()]
        is_prose = " " in token
        prose += (_blank(before), token if is_prose else _blank(token))
        code += (before, _blank(token) if is_prose else token)
        last = found.end()
    prose.append(_blank(text[last:]))
    code.append(text[last:])
    return "".join(prose).split("\n"), "".join(code).split("\n")


def _blank(text: str) -> str:
    return "\n" * text.count("\n") or " "


def _cuts(lines: Sequence[str], defined: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where each passage begins, and where it ends."""
    start = 0
    for number, name in enumerate(defined):
        size = number - start
        if size >= LONGEST:
            yield start, number
            start = number
        elif size >= SHORTEST and name:
            cut = _with_lead(lines, start, number)
            yield start, cut
            start = cut
    if any(line.strip() for line in lines[start:]):
        yield start, len(lines)


def _with_lead(lines: Sequence[str], start: int, number: int) -> int:
    while number - 1 > start and lines[number - 1].lstrip().startswith(_LEADS_IN):
        number -= 1
    return number


def _heads(prose: Sequence[str]) -> Iterator[str]:
    """The opening of the file, and the first line of each block of words after it."""
    before = ""
    for number, line in enumerate(prose):
        if line.strip() and (number < OPENING or not before.strip()):
            yield line
        before = line
