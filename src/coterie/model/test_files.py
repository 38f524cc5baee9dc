"""Which files of a project are tests, and the conventional names for new ones."""

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
"""The name pattern of a file's tests, by file extension."""
_OTHERS = "test_{}"
"""The name pattern for all other extensions, without the extension."""
_PROSE = frozenset({"", ".adoc", ".md", ".rst", ".txt"})
_BESIDE = frozenset({"go"})
"""Extensions of languages whose tests are next to the files they test."""


def is_test(path: str) -> bool:
    """Whether a file is a test, or used only by tests."""
    place = PurePosixPath(path)
    return bool(_FOLDERS.intersection(place.parts[:-1])) or bool(_NAME.fullmatch(place.stem))


def is_testable(path: str) -> bool:
    """Whether a file could have tests: neither a test itself nor prose."""
    return PurePosixPath(path).suffix.lower() not in _PROSE and not is_test(path)


def suggested_tests(changed: Iterable[str], known: Iterable[str]) -> list[str]:
    """The paths for tests of the changed files, following the layout of the known files."""
    folders = {PurePosixPath(one).parts[0] for one in known if is_test(one) and "/" in one}
    folder = next((one for one in ("tests", "test", "__tests__", "spec") if one in folders), "")
    paths: list[str] = []
    for path in filter(is_testable, changed):
        place = PurePosixPath(path)
        ending = place.suffix.removeprefix(".")
        name = _FORMS.get(ending, f"{_OTHERS}.{ending}").format(place.stem)
        beside = ending in _BESIDE or (not folder and ending in _FORMS)
        paths.append(
            str(place.with_name(name) if beside else PurePosixPath(folder or "tests", name))
        )
    return list(dict.fromkeys(paths))
