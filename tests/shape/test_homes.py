"""Each banned name has one home.

Ruff (TID251 in pyproject.toml) bans them in every other file but, within a home, can only be
silenced for all names at once; here each home is limited to its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "coterie"

CHILDREN = (
    "process/",
    "workspace/git.py",
    "testing/",
)
HOMES: dict[str, tuple[str, ...]] = {
    "asyncio.create_task": (),
    "asyncio.ensure_future": (),
    "asyncio.gather": (),
    "asyncio.wait_for": (),
    "os.environ": ("config/project.py", "process/keeper.py", "testing/"),
    "os.getenv": ("config/project.py", "process/keeper.py", "testing/"),
    "datetime.now": ("model/instant.py",),
    "datetime.utcnow": ("model/instant.py",),
    "time.time": ("model/instant.py",),
    "subprocess": CHILDREN,
    "asyncio.create_subprocess_exec": CHILDREN,
    "os.fork": CHILDREN,
}


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every `module`, `module.name` or `from module import name` in a file, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, node.lineno
            case ast.ImportFrom(module=str(module)):
                yield module, node.lineno
                for alias in node.names:
                    yield f"{module}.{alias.name}", node.lineno
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                yield f"{owner}.{attribute}", node.lineno
            case ast.Attribute(value=ast.Attribute(attr=owner), attr=attribute):
                yield f"{owner}.{attribute}", node.lineno
            case _:
                pass


def strays(file: str, source: str) -> list[str]:
    return [
        f"{file}:{line}: {name}"
        for name, line in names(ast.parse(source))
        if name in HOMES and not file.startswith(HOMES[name])
    ]


def test_banned_names_stay_at_home() -> None:
    files = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert [stray for file, source in files.items() for stray in strays(file, source)] == []


def test_strays_are_seen() -> None:
    source = "import subprocess\nfrom os import environ\nimport datetime\ndatetime.datetime.now()\n"
    assert strays("engine/lease.py", source) == [
        "engine/lease.py:1: subprocess",
        "engine/lease.py:2: os.environ",
        "engine/lease.py:4: datetime.now",
    ]
    assert strays("process/child.py", "import subprocess") == []
