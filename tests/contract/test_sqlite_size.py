"""The file stays small: each text is stored once."""

from __future__ import annotations

from pathlib import Path

from bench.bare import bare_loop, storage_path


def test_600_turns_take_at_most_three_times_the_bare_messages(tmp_path: Path) -> None:
    assert storage_path(tmp_path, 600).file <= 3 * bare_loop(tmp_path, 600).file
