"""One name, one meaning: classes that share a name, words missing from the glossary, and names that
could stand for anything."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "coterie"
WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
VAGUE = {"aside", "found", "leave", "said", "told"}
"""Each of these once stood for a row, a reply, a list of mistakes and much else."""
QUAINT = {"anew", "hear", "heard", "hears", "tells", "told"}
"""Instead of again, read, received, reported, sent, shown or notified."""
COINED = {
    *("patience", "patient", "hear", "hears", "unheard", "seat", "seated"),
    *("fate", "farewell", "foreseen", "furnished", "greet", "greeted"),
}
"""Instead of timeout or wait, handle, unread, instance, outcome, summary, preview or handshake.  On
a machine there are `seats`; `SeatShown` is a name of the HTTP API."""


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


def defined_names(source: str) -> dict[str, int]:
    """By name: the last line that gives it to a variable, parameter or function."""
    tree = ast.parse(source)
    classes = (part.body for part in ast.walk(tree) if isinstance(part, ast.ClassDef))
    fields = {id(one.target) for body in classes for one in body if isinstance(one, ast.AnnAssign)}
    names: dict[str, int] = {}
    for part in ast.walk(tree):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) if id(part) not in fields:
                names[name] = part.lineno
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names[name] = part.lineno
            case _:
                pass
    return names


def vague_names(source: str) -> dict[str, int]:
    """By name: the last line that gives it to a variable, parameter or function."""
    return {name: at for name, at in defined_names(source).items() if name.strip("_") in VAGUE}


def coined_names(source: str) -> list[str]:
    """The names a file defines, of classes, fields and attributes too, with such a word."""
    tree = ast.parse(source)
    names = set(defined_names(source))
    for part in ast.walk(tree):
        match part:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case _:
                pass
    return sorted(name for name in names - {"SeatShown"} if not COINED.isdisjoint(_words(name)))


def quaint_functions(source: str) -> list[str]:
    """The functions, methods and tests of a file whose names contain such a word."""
    names = re.findall(r"^ *(?:async )?def (\w+)", source, re.MULTILINE)
    return [name for name in names if not QUAINT.isdisjoint(name.split("_"))]


def unknown_words(names: Iterable[str], glossary: str) -> dict[str, list[str]]:
    """By name: its words that are missing from the glossary, in singular or plural."""
    known = {_singular(word) for word in re.findall(r"[a-z]+", glossary.lower())}
    parts = {name: re.findall(WORD, name) for name in names}
    unknown = {
        name: [word for word in words if _singular(word.lower()) not in known]
        for name, words in parts.items()
    }
    return {name: words for name, words in unknown.items() if words}


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(WORD, name)}


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


def test_names_say_what_they_stand_for() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    vague = {file: names for file, source in sources.items() if (names := vague_names(source))}
    assert vague == {}


def test_no_name_is_coined() -> None:
    paths = [path for top in (SOURCE, ROOT / "tests", ROOT / "bench") for path in top.rglob("*.py")]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    coined = {file: names for file, text in sources.items() if (names := coined_names(text))}
    assert coined == {}


def test_coined_names_are_seen() -> None:
    source = (
        "class SeatShown: ...\nclass Patience:\n    seat: int\n    seats: int\n"
        "    def _hear(self, is_patient):\n        self.fate = is_patient\n"
        "PATIENCE = 1\ndef shears(repeat, fated): ..."
    )
    names = ["PATIENCE", "Patience", "_hear", "fate", "is_patient", "seat"]
    assert coined_names(source) == names


def test_functions_are_named_in_the_terms_of_the_field() -> None:
    paths = [
        path
        for top in (SOURCE / "testing", ROOT / "tests", ROOT / "bench")
        for path in top.rglob("*.py")
    ]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    assert {
        file: names for file, text in sources.items() if (names := quaint_functions(text))
    } == {}


def test_functions_with_quaint_names_are_seen() -> None:
    source = (
        "async def test_it_is_told(): ...\nclass A:\n    def hear(self): ...\ndef shears(): ..."
    )
    assert quaint_functions(source) == ["test_it_is_told", "hear"]


def test_names_that_could_stand_for_anything_are_seen() -> None:
    body = (
        "said: str",
        "def _found(self, told):",
        "    for said in told:",
        "        aside: str = said",
    )
    source = "\n    ".join(("class A:", *body))
    assert vague_names(source) == {"_found": 3, "told": 3, "said": 4, "aside": 5}


def test_words_that_no_glossary_has_are_seen() -> None:
    glossary = "| member | one of a team |\n| tickets | ... |\n| JSON | ... |"
    names = ["Member", "TeamMember", "TicketDesk", "JSONTicket", "team_members"]
    assert unknown_words(names, glossary) == {"TicketDesk": ["Desk"]}
