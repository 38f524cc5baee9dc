"""What is indexed for a file: its words, split into passages, with prose and code apart.

Language-agnostic: definitions and comments are recognized by forms that most languages share.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

SHORTEST_WORD = 2
MAX_TERMS = 24
"""Further words of a question would only cost time."""

_STOP_WORDS = Path(__file__).with_name("stop_words.txt")
_NAME = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


@lru_cache(maxsize=100_000)
def subwords(name: str) -> str:
    """Return the words in a name, and the compound of several: `file name filename`."""
    words = [part.lower() for part in _PART.findall(name) if len(part) >= SHORTEST_WORD]
    return " ".join([*words, "".join(words)] if len(words) > 1 else words)


def split_words(text: str) -> str:
    """All words of a text, as they are indexed."""
    return " ".join(map(subwords, _NAME.findall(text)))


def terms(question: str) -> list[str]:
    """The words of a question, without stop words unless there are no others."""
    words = list(dict.fromkeys(split_words(question).split()))
    return ([word for word in words if word not in stop_words()] or words)[:MAX_TERMS]


@cache
def stop_words() -> frozenset[str]:
    """Words that say nothing about the subject."""
    return frozenset(_STOP_WORDS.read_text(encoding="utf-8").split())


STEMMER = "porter unicode61"
"""The FTS5 stemming tokenizer, used here and in the index."""

_FILE = Path(__file__).with_name("thesaurus.txt")


def stems(words: Iterable[str]) -> dict[str, str]:
    """The stem of each word."""
    listed = list(words)
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute(f"CREATE VIRTUAL TABLE forms USING fts5(word, tokenize='{STEMMER}')")
        scratch.execute("CREATE VIRTUAL TABLE stems USING fts5vocab('forms', 'instance')")
        scratch.executemany("INSERT INTO forms (rowid, word) VALUES (?, ?)", enumerate(listed))
        rows: list[tuple[int, str]] = scratch.execute("SELECT doc, term FROM stems").fetchall()
    stem_of = {listed[row]: stem for row, stem in rows}
    return {word: stem_of.get(word, word) for word in listed}


def related(stem: str) -> dict[str, str]:
    """The synonyms of words with this stem, and their stems."""
    return _by_stem().get(stem, {})


@cache
def groups() -> tuple[tuple[str, ...], ...]:
    """Return each line of the thesaurus, as words."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split()) for line in lines if line and not line.startswith("#"))


@cache
def _by_stem() -> dict[str, dict[str, str]]:
    forms = stems({word for group in groups() for word in group})
    by_stem: dict[str, dict[str, str]] = {}
    for group in groups():
        for word in group:
            others = {other: forms[other] for other in group if forms[other] != forms[word]}
            by_stem.setdefault(forms[word], {}).update(others)
    return by_stem


SNIPPET_LINES, SNIPPET_WIDTH = 8, 160
_PREFIX = 5
"""Words that share this many first letters count as the same when choosing lines."""


def best_lines(lines: Sequence[str], question: str) -> str:
    """Return at most `SNIPPET_LINES`: those with the most words of the question, else the first."""
    wanted = {term[:_PREFIX] for term in terms(question)}
    matches = [wanted & {word[:_PREFIX] for word in split_words(line).split()} for line in lines]
    starts = range(max(1, len(lines) - SNIPPET_LINES + 1))
    start = max(
        starts, key=lambda at: (len(set[str]().union(*matches[at : at + SNIPPET_LINES])), -at)
    )
    return "\n".join(
        line[:SNIPPET_WIDTH].rstrip() for line in lines[start : start + SNIPPET_LINES]
    ).strip("\n")


LONGEST, SHORTEST = 60, 12
"""A passage ends before a definition once it has `SHORTEST` lines, at the latest at `LONGEST`."""
PROSE_SUFFIXES = (".md", ".markdown", ".rst", ".txt", ".adoc")
"""The suffixes of files that are all prose."""
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
# Every repetition is bounded, so that a file of unclosed quotes does not take long to scan.
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


class IndexedText(NamedTuple):
    """The indexed words of a text, by where they occur."""

    path: str
    names: str
    """The names it defines."""
    prose: str
    """Comments, and strings that are sentences."""
    code: str


@dataclass(frozen=True)
class Passage:
    """Lines that belong together, counted from 1."""

    first: int
    last: int
    digest: str
    """Of the lines, so that their vector outlives a change elsewhere in the file."""
    words: IndexedText


@dataclass(frozen=True)
class IndexedFile:
    """Everything indexed for one file."""

    passages: tuple[Passage, ...]
    whole: IndexedText
    outline: IndexedText
    """What the file says about itself: its path, what it defines, how its comments begin."""


def split_file(path: str, text: str) -> IndexedFile:
    """Split a file into its indexed parts."""
    lines = text.split("\n")
    prose, code = _split_prose_and_code(path, text)
    defined = [match[1] if (match := _DEFINITION.match(line)) else "" for line in lines]
    above, columns = split_words(path), (defined, prose, code)
    passages = tuple(
        Passage(
            first + 1,
            last,
            digest("\n".join(lines[first:last])),
            IndexedText(above, *(split_words("\n".join(each[first:last])) for each in columns)),
        )
        for first, last in _cuts(lines, defined)
    )
    joined = zip(*(passage.words[1:] for passage in passages), strict=True)
    whole = IndexedText(above, *(map(" ".join, joined) if passages else ("", "", "")))
    heads = split_words("\n".join(_heads(prose)))
    return IndexedFile(passages, whole, IndexedText(above, whole.names, heads, ""))


def digest(text: str) -> str:
    """Return a digest that two passages share only if they are the same."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _split_prose_and_code(path: str, text: str) -> tuple[list[str], list[str]]:
    """Return the lines with only their prose, and the same lines with only their code."""
    if path.lower().endswith(PROSE_SUFFIXES):
        return text.split("\n"), [""] * (text.count("\n") + 1)
    prose: list[str] = []
    code: list[str] = []
    last = 0
    for match in _COMMENT_OR_STRING.finditer(text):
        token, before = match.group(), text[last : match.start()]
        is_prose = " " in token
        prose += (_blank(before), token if is_prose else _blank(token))
        code += (before, _blank(token) if is_prose else token)
        last = match.end()
    prose.append(_blank(text[last:]))
    code.append(text[last:])
    return "".join(prose).split("\n"), "".join(code).split("\n")


def _blank(text: str) -> str:
    return "\n" * text.count("\n") or " "


def _cuts(lines: Sequence[str], defined: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each passage begins and ends."""
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
    """Yield the opening of the file, and the first line of each block of prose after it."""
    before = ""
    for number, line in enumerate(prose):
        if line.strip() and (number < OPENING or not before.strip()):
            yield line
        before = line
