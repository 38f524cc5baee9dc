"""Which commands test a project: those in `eval.conf`, otherwise ones guessed from its files.

`eval.conf` in a project's `.coterie` belongs to the user: one `name = command` per line, in the
order in which they run; empty lines and lines that begin with `#` are ignored.  Without it each
kind of project gets a fixed, built-in command: no text of the repository becomes part of one.
All calls block.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

from coterie.errors import ConfigError
from coterie.model.eval_report import EvalCommand
from coterie.model.visible import visible
from coterie.model.workspace import shown
from coterie.workspace.beneath import read_file, read_regular

EVAL_FILE = "eval.conf"
NAME = r"[a-z0-9][a-z0-9_-]{0,39}"
_LINE = re.compile(r"(?P<name>[^=]*?)\s*=\s*(?P<command>.*)")
_MAX_BYTES = 1 << 20
_MAX_COMMANDS = 50
_SYNTAX = "Write each as: name = command"
_MOST_SHOWN = 5


def eval_commands(root: Path, folder: Path) -> tuple[EvalCommand, ...]:
    """Return the commands of the project's `eval.conf`; without one, those guessed for `folder`.

    Raises ConfigError with every mistake in the file, and NotOurs if it is a link.
    """
    written = configured_commands(root)
    return guessed_commands(folder) if written is None else written


# -- commands that the user wrote ----------------------------------------------------------------


def configured_commands(root: Path) -> tuple[EvalCommand, ...] | None:
    """Return the commands of the project's `eval.conf`; None if there is no such file."""
    path = root / ".coterie" / EVAL_FILE
    try:
        raw = read_file(root / ".coterie", EVAL_FILE, limit=_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"{shown(path)} cannot be read: {error.strerror}."
        raise ConfigError(problem, "Fix it, or delete it.", str(path)) from None
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"{shown(path)} is larger than 1 MiB.", _SYNTAX, str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refusal(path, [(line, "is not UTF-8 text")]) from None
    return parse_eval_conf(path, text)


def parse_eval_conf(path: Path, text: str) -> tuple[EvalCommand, ...]:
    """Parse the text of an `eval.conf`.  Raises ConfigError with every mistake in it."""
    commands: dict[str, tuple[int, str]] = {}
    mistakes: list[tuple[int, str]] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        parts = _LINE.fullmatch(stripped)
        problem = _problem(stripped, parts, commands)
        if problem or parts is None:
            mistakes.append((number, problem))
        else:
            commands[parts["name"]] = (number, parts["command"])
    if not commands and not mistakes:
        mistakes.append((1, "names no command"))
    if len(commands) > _MAX_COMMANDS:
        mistakes.append((1, f"names {len(commands)} commands; at most {_MAX_COMMANDS} are run"))
    if mistakes:
        raise _refusal(path, mistakes)
    return tuple(EvalCommand(name, command, "written") for name, (_, command) in commands.items())


def _problem(line: str, parts: re.Match[str] | None, known: dict[str, tuple[int, str]]) -> str:
    """Return what is wrong with a line; empty if it is valid."""
    if parts is None:
        return f'has no "=": {_short(line)}'
    name, command = parts["name"], parts["command"]
    if not re.fullmatch(NAME, name):
        allowed = "at most 40 lowercase letters, digits, - and _"
        return f'begins with "{_short(name)}"; a name is {allowed}'
    if name in known:
        return f"repeats {name}, which is already in line {known[name][0]}"
    if not command:
        return f"has no command for {name}"
    if not command.replace("\t", " ").isprintable():
        return f"contains invisible characters: {_short(command)}"
    return ""


def _refusal(path: Path, mistakes: list[tuple[int, str]]) -> ConfigError:
    lines = [f"{shown(path)}:{line} {problem}." for line, problem in mistakes[:_MOST_SHOWN]]
    if len(mistakes) > _MOST_SHOWN:
        lines.append(f"… and {len(mistakes) - _MOST_SHOWN} more.")
    return ConfigError("\n".join(lines), _SYNTAX, f"{path}:{mistakes[0][0]}")


def _short(text: str) -> str:
    shortened = text if len(text) <= 60 else f"{text[:59]}…"
    return visible(shortened)


# -- guessed commands ----------------------------------------------------------------------------


def guessed_commands(folder: Path) -> tuple[EvalCommand, ...]:
    """Guess the project's test commands from its files.

    `make` is used only if nothing else is found: its target would mostly run the same again.
    """
    known = [EvalCommand(name, one, "found") for name, find in _FINDERS for one in find(folder)]
    return tuple(known or [EvalCommand("make", one, "found") for one in _make(folder)])


def _pytest(folder: Path) -> Iterator[str]:
    if not _uses_pytest(folder):
        return
    runners = {"uv.lock": "uv run ", "poetry.lock": "poetry run ", "pdm.lock": "pdm run "}
    before = next((words for lock, words in runners.items() if _is_file(folder / lock)), "")
    yield f"{before}python -m pytest -q" if before else "python3 -m pytest -q"


def _uses_pytest(folder: Path) -> bool:
    if _is_file(folder / "pytest.ini") or _is_file(folder / "conftest.py"):
        return True
    tools = _table(_toml(folder / "pyproject.toml"), "tool")
    if "pytest" in tools or "[tool:pytest]" in _text(folder / "setup.cfg"):
        return True
    if "[pytest]" in _text(folder / "tox.ini"):
        return True
    places = (folder, folder / "tests", folder / "test")
    return any(_has_tests(place) for place in places)


def _has_tests(folder: Path) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return any(re.fullmatch(r"test_.*\.py|.*_test\.py", entry.name) for entry in entries)
    return False


_NO_TESTS = "no test specified"
"""Part of the script that npm puts into a new package, which only fails."""


def _npm(folder: Path) -> Iterator[str]:
    with suppress(ValueError, RecursionError):
        package: object = json.loads(_text(folder / "package.json") or "{}")
        script = _table(_table(package), "scripts").get("test")
        if isinstance(script, str) and script.strip() and _NO_TESTS not in script:
            locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun run"}
            used = (tool for lock, tool in locks.items() if _is_file(folder / lock))
            yield f"{next(used, 'npm')} test"


def _maven(folder: Path) -> Iterator[str]:
    if _is_file(folder / "pom.xml"):
        yield f"{_wrapper(folder, 'mvnw', 'mvn')} -q test"


def _gradle(folder: Path) -> Iterator[str]:
    if any(_is_file(folder / name) for name in ("build.gradle", "build.gradle.kts")):
        yield f"{_wrapper(folder, 'gradlew', 'gradle')} test"


def _wrapper(folder: Path, script: str, program: str) -> str:
    """Return a project's own build wrapper if it has one, otherwise the program."""
    return f"./{script}" if os.access(folder / script, os.X_OK) else program


def _cargo(folder: Path) -> Iterator[str]:
    if _is_file(folder / "Cargo.toml"):
        yield "cargo test"


def _go(folder: Path) -> Iterator[str]:
    if _is_file(folder / "go.mod"):
        yield "go test ./..."


_TARGET = re.compile(r"^(test|check)[ \t]*:(?!=)", re.MULTILINE)


def _make(folder: Path) -> Iterator[str]:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if targets := _TARGET.findall(_text(folder / name)):
            yield f"make {'test' if 'test' in targets else 'check'}"
            return


_FINDERS: tuple[tuple[str, Callable[[Path], Iterator[str]]], ...] = (
    ("pytest", _pytest),
    ("npm", _npm),
    ("maven", _maven),
    ("gradle", _gradle),
    ("cargo", _cargo),
    ("go", _go),
)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _text(path: Path) -> str:
    """Return a repository file's text; empty unless it is a regular file of moderate size."""
    with suppress(OSError):
        return read_regular(path, _MAX_BYTES).decode(errors="replace").replace("\r\n", "\n")
    return ""


def _toml(path: Path) -> object:
    with suppress(ValueError, RecursionError):
        return tomllib.loads(_text(path))
    return {}


def _table(data: object, key: str | None = None) -> dict[str, object]:
    value = data if key is None else _table(data).get(key)
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
