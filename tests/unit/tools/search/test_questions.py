"""The questions give nothing away: none contains a word of its answer's path or a name in it."""

from __future__ import annotations

import keyword
import re
import tokenize
from pathlib import Path

import pytest

from tests.unit.tools.search.package_questions import Question, package, questions

SHORTEST_NAME = 3  # a variable `a` reveals nothing about its file


def names_in(file: Path) -> set[str]:
    """Return every identifier in a Python file."""
    with tokenize.open(file) as source:
        tokens = list(tokenize.generate_tokens(source.readline))
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    return {
        name.lower() for name in names if len(name) >= SHORTEST_NAME and not keyword.iskeyword(name)
    }


def words_of_path(file: str) -> set[str]:
    """Return the words in the path of a file."""
    words = re.findall(r"[a-z0-9]+", file.removesuffix(".py").lower())
    return {word for word in words if len(word) >= SHORTEST_NAME}


def alike(word: str, name: str) -> bool:
    """Whether one is a prefix of the other: `hash` gives `hashes` away."""
    return len(word) >= SHORTEST_NAME and (word.startswith(name) or name.startswith(word))


@pytest.mark.parametrize("question", questions(), ids=lambda question: min(question.files))
def test_no_question_names_its_answer(question: Question) -> None:
    words = set(re.findall(r"[a-z0-9_]+", question.text.lower()))

    for file in question.files:
        assert words & names_in(package() / file) == set()
        told = {word for word in words for name in words_of_path(file) if alike(word, name)}
        assert told == set()


def test_there_are_twenty_about_a_package_of_hundreds_of_files() -> None:
    assert len(questions()) == 20
    assert len({file for question in questions() for file in question.files}) == 20
    assert len(list(package().rglob("*.py"))) >= 300
