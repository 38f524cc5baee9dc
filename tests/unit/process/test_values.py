from __future__ import annotations

import os

import pytest

from coterie.process import keeper, processes, streams
from coterie.process.bubblewrap import find_program
from coterie.process.launch import Spawn
from coterie.process.processes import PidScope
from coterie.process.streams import Tail


def test_a_tail_keeps_the_end_and_no_more() -> None:
    tail = Tail(10)
    for number in range(100):
        tail.add(b"%03d" % number)
    assert tail.text == "6097098099"
    tail.add(b"x" * 1000 + b"the end")
    assert tail.text == "xxxthe end"


def test_what_is_typed_hands_long_lines_over_in_pieces() -> None:
    assert streams.typed(b"short\nlines\n") == b"short\nlines\n"
    long = b"x" * (streams.LONGEST_PIECE * 2 + 1)
    typed = streams.typed(long + b"\n")
    assert typed.replace(b"\x04", b"") == long + b"\n"
    assert max(map(len, typed.split(b"\x04"))) <= streams.LONGEST_PIECE + 1
    assert b"\x04\x04" not in typed
    assert streams.typed(b"a\x04b") == b"ab"


def test_family() -> None:
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 99}
    assert processes.descendants({2, 77}, parents) == {2, 3}
    assert processes.ancestors(3, parents) == {3, 2, 1}
    assert processes.ancestors(5, parents) == {5, 99}


def test_we_see_ourselves() -> None:
    parents = processes.snapshot()
    assert parents[os.getpid()] == os.getppid()
    assert processes.describe(os.getpid(), os.getppid()).argv
    assert processes.environ(2**22 + 1) == b""


def test_a_machine_is_the_same_twice() -> None:
    assert PidScope.here() == PidScope.here()
    assert PidScope.here().host == os.uname().nodename


def test_the_mark_is_added_to_the_environment() -> None:
    spawn = Spawn("x", (), "/", {"A": "1"}, member="m", folder="f", mark="k")
    assert spawn.marked_env == {"A": "1", "COTERIE_MARK": "k"}


def test_a_program_is_found_as_exec_would() -> None:
    for command, path in (("sh", None), ("/bin/sh", ""), ("bin/sh", "")):
        find_program(command, "/", path)
    with pytest.raises(FileNotFoundError):
        find_program("no-such-program", "/", None)


def test_the_keeper_knows_parents_without_the_kernels_list() -> None:
    assert keeper.parent(str(os.getpid())) == os.getppid()
    assert keeper.parent("0") == 0
    assert os.getpid() not in keeper.children(os.getpid())
