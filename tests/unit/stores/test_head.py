from __future__ import annotations

import fcntl
import threading
import time
from pathlib import Path

import pytest

from coterie.stores.codec import Head, HeadFile


def test_it_only_rises(tmp_path: Path) -> None:
    file = HeadFile(tmp_path, "logs", "head.json")
    assert file.read() is None
    file.raise_to(Head(5, "five"))
    file.raise_to(Head(4, "four"))
    assert file.read() == Head(5, "five")
    file.raise_to(Head(6, "six"))
    assert file.read() == Head(6, "six")


@pytest.mark.parametrize("content", ["", "\0" * 512, "[]", "1", "null", '"x"', "{}"])
def test_a_spoiled_file_counts_as_none(tmp_path: Path, content: str) -> None:
    file = HeadFile(tmp_path, "head.json")
    (tmp_path / "head.json").write_text(content)
    assert file.read() is None
    file.raise_to(Head(1, "one"))
    assert file.read() == Head(1, "one")


def test_many_at_once(tmp_path: Path) -> None:
    def rise(start: int) -> None:
        for sequence in range(start, 60, 3):
            HeadFile(tmp_path, "logs", "head.json").raise_to(Head(sequence, str(sequence)))

    threads = [threading.Thread(target=rise, args=(start,)) for start in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert HeadFile(tmp_path, "logs", "head.json").read() == Head(59, "59")


def test_a_stopped_holder_of_the_lock_stops_nobody(tmp_path: Path) -> None:
    file = HeadFile(tmp_path, "logs", "head.json")
    file.raise_to(Head(1, "one"))
    with (tmp_path / "logs" / "head.json").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        began = time.monotonic()
        file.raise_to(Head(2, "two"))
        assert time.monotonic() - began < 2
    assert file.read() == Head(1, "one")
    file.raise_to(Head(3, "three"))
    assert file.read() == Head(3, "three")
