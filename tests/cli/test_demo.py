"""`coterie demo`: real processes, a real file, nothing of the user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import Cli

SHIPPED = Path(__file__).parents[2] / "src" / "coterie" / "rehearsal"


@pytest.fixture
def bare(bare: Cli, tmp_path: Path) -> Cli:
    """Temporary folders are made where the test cleans up."""
    (tmp_path / "tmp").mkdir()
    return Cli(bare.house, {"TMPDIR": str(tmp_path / "tmp")})


def test_it_runs_without_anything_and_leaves_nothing(bare: Cli) -> None:
    ran = bare("demo")
    assert (ran.err, ran.code) == ("", 0)
    for part in ("security", "performance", "readability", "answered by default in the demo"):
        assert part in ran.out
    assert "Done  " in ran.out
    assert "coterie init" in ran.out
    assert list(bare.house.project.iterdir()) == []
    assert list(bare.house.home.iterdir()) == []
    assert list((bare.house.home.parent / "tmp").iterdir()) == []


def test_the_lines_it_names_are_the_lines_of_the_file(bare: Cli) -> None:
    source = (SHIPPED / "demo" / "cart.py.txt").read_text().splitlines()
    named = {int(number) for number in re.findall(r"cart\.py:(\d+)", bare("demo").out)}
    found = {source[number - 1].strip() for number in named}
    assert any("execute(f" in line for line in found)
    assert any("WHERE id = ?" in line for line in found)


def test_as_json_the_result_is_last(bare: Cli) -> None:
    ran = bare("demo", "--json")
    assert (ran.err, ran.code) == ("", 0)
    assert ran.lines[-1]["type"] == "result"
    assert (ran.lines[-1]["status"], ran.lines[-1]["reason"]) == ("completed", "ended")
    assert len(ran.of("message")) == 4


def test_what_is_kept_can_be_looked_at(bare: Cli) -> None:
    ran = bare("demo", "--keep", "--json")
    folder = ran.of("demo")[0]["folder"]
    shown = bare("log", "last", "-C", folder)
    assert shown.code == 0
    assert "cart.py:" in shown.out
