"""The project's numeric rules, checked."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import coterie
from tests.shape.test_names import unknown_words

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "coterie"

PAGE = ROOT / "page" / "src"
MAX_LINES = 400
MAX_README_LINES = 150
LEFTOVERS = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()} | {".git"}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base"}


@cache
def source_files() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def repository_texts() -> dict[str, str]:
    """Every text file of the repository by its relative path, without what tools leave behind."""
    texts: dict[str, str] = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFTOVERS]
        for path in (Path(folder, name) for name in names):
            raw = path.read_bytes() if path.is_file() else b"\0"
            if b"\0" not in raw[:8192] and path.name not in LEFTOVERS:
                texts[str(path.relative_to(ROOT))] = raw.decode(errors="replace")
    return texts


def matching_lines(pattern: re.Pattern[str], texts: dict[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield f"{name}:{number}: {line.strip()[:120]}"


def source_texts() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in source_files()}


def test_no_source_file_is_too_long() -> None:
    page = [*PAGE.rglob("*.svelte"), *PAGE.rglob("*.ts"), *PAGE.rglob("*.css")]
    made = {PAGE / "lib" / "api.d.ts"}  # by `make types`
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in page if file not in made}
    lengths = {name: len(text.splitlines()) for name, text in (source_texts() | texts).items()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_no_module_has_a_vague_name() -> None:
    parts = {name: set(Path(name).with_suffix("").parts) for name in source_texts()}
    assert [name for name, names in parts.items() if names & VAGUE_NAMES] == []


def test_no_module_is_in_an_import_cycle() -> None:
    """Between modules; import-linter checks for cycles between packages."""
    graph = grimp.build_graph("coterie", include_external_packages=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert cyclic(imports) == set()


def cyclic(imports: dict[str, set[str]]) -> set[str]:
    """What remains after repeatedly removing modules that import nothing or are not imported."""
    left = set(imports)
    while True:
        imported = {name for module in left for name in imports[module]}
        kept = {module for module in left if imports[module] & left and module in imported}
        if kept == left:
            return left
        left = kept


def test_cycles_are_seen() -> None:
    assert cyclic({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"b", "c"}


def test_every_suppression_names_its_rule() -> None:
    bare = re.compile(r"#\s*(?:(?:type|pyright):\s*ignore(?!\[)|(?:ruff:\s*)?noqa(?!: ?[A-Z]))")
    texts = {name: text for name, text in repository_texts().items() if name.endswith(".py")}
    del texts[str(Path(__file__).relative_to(ROOT))]
    assert list(matching_lines(bare, texts)) == []


PUBLIC = """
Action Activity Adapter AdapterFacts AgentDefinition AgentError AgentFacts AgentMissing
AgentQuestion Answer AnswerRefused Ask Asked Brief Caps Channel ChildLog ConfigError
Context CoterieError DeltaRecord Display Ended Entry ErrorRecord Interaction
InteractionRecord Limits Member MemberRecord Message MessageRecord NotFound NotOurs NotTrusted
OpenProject Option PendingCall Permissions PhaseRecord Prompt QuestionView Record Response
ResultRecord Stopped Storage StorageError TaskBusy TaskCreated TaskDetail TaskRecord TaskView Team
TeamView TextDelta TicketRecord ToolCallFinished ToolCallRecord ToolCallStarted
TurnCompleted TurnFailed TurnInterrupted Update Usage UsageError Waiting Workflow Workspace
__version__ open_project
"""
"""What `import coterie` offers.  Removing a name from here breaks somebody's program."""


def test_public_surface() -> None:
    assert coterie.__all__ == PUBLIC.split()
    assert [name for name in coterie.__all__ if not hasattr(coterie, name)] == []
    assert dir(coterie) == coterie.__all__
    with pytest.raises(AttributeError, match="no attribute 'Desk'"):
        getattr(coterie, "Desk")  # noqa: B009 - a checker would see it otherwise


def test_a_checker_and_a_program_see_the_same() -> None:
    tree = ast.parse(Path(coterie.__file__).read_text())
    (block,) = [top for top in tree.body if isinstance(top, ast.If) and not top.orelse][:1]
    named = {
        alias.name: getattr(import_module(str(top.module)), alias.name)
        for top in block.body
        if isinstance(top, ast.ImportFrom)
        for alias in top.names
    }
    assert named == {name: getattr(coterie, name) for name in coterie.__all__[:-2]} | {
        "open_project": coterie.open_project
    }


def test_public_names_are_in_the_glossary() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    assert unknown_words(coterie.__all__, glossary) == {}


def test_importing_it_is_cheap() -> None:
    """Nothing of Coterie is loaded before it is used, and otherwise only the standard library."""
    program = "import sys, coterie; print([m for m in sys.modules if 'coterie' in m or 'pyd' in m])"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "['coterie']\n"


def test_readme_sells_and_starts() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():  # it is made from the real program, so it comes last
        return
    text = readme.read_text()
    assert len(text.splitlines()) <= MAX_README_LINES
    assert [command for command in ("make demo", "make test") if command not in text] == []


def test_no_file_names_a_registry_or_this_machine() -> None:
    # Concatenated, so that this file passes its own test.
    hosts = ["pypi" + ".org", "pythonhosted" + ".org", "registry" + ".npmjs"]
    places = ["/" + "root/.", "/" + "work/main", "/" + "work/shared", str(ROOT)]
    if len(Path.home().parts) > 2:  # a home near the root is too unspecific
        places.append(str(Path.home()))
    named = re.compile("|".join(re.escape(name) for name in hosts + places))
    assert list(matching_lines(named, repository_texts())) == []


@pytest.mark.parametrize("lock", sorted(path.name for path in ROOT.glob("requirements/*.txt")))
def test_locks_are_hashed_and_name_no_index(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    pins = re.findall(r"^([a-z0-9][^ ]*)==[^ ]+.*\\\n    --hash=sha256:", text, re.MULTILINE)
    requirements = [line for line in text.splitlines() if line and line[0] not in " #"]
    assert len(pins) == len(requirements) > 0
    assert re.findall(r"://|--(?:extra-)?index|--find-links", text) == []


def test_the_lock_of_the_page_is_hashed_and_names_no_registry() -> None:
    text = (ROOT / "page" / "package-lock.json").read_text()
    packages = {name: one for name, one in json.loads(text)["packages"].items() if name}
    assert [name for name, one in packages.items() if "integrity" not in one] == []
    assert packages
    assert "://" not in text


@pytest.mark.parametrize(
    ("lock", "tables"),
    [
        ("runtime", ["project"]),
        ("build", ["build"]),
        ("bootstrap", ["bootstrap"]),
        ("dev", ["project", "build", "dev"]),
    ],
)
def test_locks_agree_with_pyproject(lock: str, tables: list[str]) -> None:
    """A dependency changed without `make lock` would be installed for users but not for tests."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {"project": pyproject["project"]["dependencies"], **pyproject["dependency-groups"]}
    wanted = [Requirement(one) for table in tables for one in groups[table] if isinstance(one, str)]
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ ]+)", text, re.MULTILINE))
    versions = {one: pinned.get(canonicalize_name(one.name), "0") for one in wanted}
    assert [str(one) for one, version in versions.items() if version not in one.specifier] == []
