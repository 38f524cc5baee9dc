"""Which files of a project are tests, and what a new one would be called there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testdata", "fixtures"})
_NAME = re.compile(r"(?:test_.*|.*_test|.*[.-]test|.*[.-]spec|.*_spec|.*Tests?|conftest)")
_FORMS = {
    "py": "test_{}.py",
    "go": "{}_test.go",
    "rb": "{}_test.rb",
    "js": "{}.test.js",
    "jsx": "{}.test.jsx",
    "mjs": "{}.test.mjs",
    "ts": "{}.test.ts",
    "tsx": "{}.test.tsx",
    "java": "{}Test.java",
    "kt": "{}Test.kt",
}
"""By ending: what the tests of a file are called."""
_OTHERS = "test_{}"
"""The same where nobody here knows better, before the ending."""
_PROSE = frozenset({"", ".adoc", ".md", ".rst", ".txt"})
_BESIDE = frozenset({"go"})
"""Endings whose tests stand beside what they test."""


def is_test(path: str) -> bool:
    """Whether a file is a test, or something that only tests use."""
    place = PurePosixPath(path)
    return bool(_FOLDERS.intersection(place.parts[:-1])) or bool(_NAME.fullmatch(place.stem))


def is_testable(path: str) -> bool:
    """Whether a file could have tests: one that people only read has none."""
    return PurePosixPath(path).suffix.lower() not in _PROSE and not is_test(path)


def suggested_tests(changed: Iterable[str], known: Iterable[str]) -> list[str]:
    """What the tests of changed files would be called, in a project that has the known files."""
    folders = {PurePosixPath(one).parts[0] for one in known if is_test(one) and "/" in one}
    folder = next((one for one in ("tests", "test", "__tests__", "spec") if one in folders), "")
    found: list[str] = []
    for path in filter(is_testable, changed):
        place = PurePosixPath(path)
        ending = place.suffix.removeprefix(".")
        name = _FORMS.get(ending, f"{_OTHERS}.{ending}").format(place.stem)
        beside = ending in _BESIDE or (not folder and ending in _FORMS)
        found.append(
            str(place.with_name(name) if beside else PurePosixPath(folder or "tests", name))
        )
    return list(dict.fromkeys(found))
