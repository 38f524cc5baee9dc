"""One name, one meaning: classes that share a name, and words missing from the glossary."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "coterie"


def public_classes(source: str) -> list[str]:
    """The top-level classes of a file that others may import."""
    tops = ast.parse(source).body
    return [top.name for top in tops if isinstance(top, ast.ClassDef) and top.name[0] != "_"]


def defined_twice(sources: dict[str, str]) -> dict[str, list[str]]:
    """By name: the files that define a public class of that name, if there are several."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for file, source in sources.items():
        for name in public_classes(source):
            files[name].append(file)
    return {name: sorted(where) for name, where in files.items() if len(where) > 1}


def unknown_words(names: Iterable[str], glossary: str) -> dict[str, list[str]]:
    """By name: its words that are missing from the glossary, in singular or plural."""
    known = {_singular(word) for word in re.findall(r"[a-z]+", glossary.lower())}
    parts = {name: re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name) for name in names}
    unknown = {
        name: [word for word in words if _singular(word.lower()) not in known]
        for name, words in parts.items()
    }
    return {name: words for name, words in unknown.items() if words}


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def test_no_class_name_means_two_things() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert defined_twice(sources) == {}


def test_names_that_mean_two_things_are_seen() -> None:
    sources = {
        "a.py": "class Turn: ...\nclass _Turn: ...",
        "b.py": "class Turn: ...\nclass Call: ...\nclass _Turn: ...",
        "c.py": "def f():\n    class Call: ...",
    }
    assert defined_twice(sources) == {"Turn": ["a.py", "b.py"]}


def test_words_that_no_glossary_has_are_seen() -> None:
    glossary = "| member | one seat of a team |\n| tickets | ... |\n| JSON | ... |"
    names = ["Member", "TeamMember", "TicketDesk", "JSONTicket", "team_members"]
    assert unknown_words(names, glossary) == {"TicketDesk": ["Desk"]}
