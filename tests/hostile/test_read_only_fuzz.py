"""Random command lines in hostile folders: what passes unasked is run, and nothing escapes."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from bench.chaos.read_only import ReadOnlyFuzzer, run, verdict
from bench.chaos.read_only_lines import HostileFolder

CASES = 250


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_escapes(tmp_path: Path, seed: int) -> None:
    tally = ReadOnlyFuzzer(tmp_path.resolve(), seed).run(CASES)
    assert tally.escapes == []
    assert tally.held > CASES / 3  # the test is not vacuous
    assert tally.by_table > CASES / 25


ESCAPES = {
    "uniq a.txt new": "a program that writes its second argument",
    "sort -o b.new a.txt": "an option that writes",
    "sed -n 'w new' a.txt": "a script that writes",
    "mkdir new": "a folder",
    "rm -f a.txt": "a file that goes",
    "cat ../sibling/secret": "another project",
    "cat $HOME/.netrc": "the home",
    "cat $TMPDIR/secret": "the temporary folder",
    "grep -honf../sibling/secret a.txt": "a file behind a cluster",
    "xargs cat < list": "a list of files in a file",
    "diff -r . ../home": "folders compared",
    "cat .coterie/*": "what is Coterie's",
    "./evil.sh": "a file of the folder",
    "find . -name evil.sh -exec {} ';'": "a file of the folder, by a program that looks",
    "git status": "a file of the folder, by the repository's configuration",
    "git diff": "the same by a driver",
    "echo > ../sibling/new": "a redirection",
    "exec 3<>/dev/tcp/127.0.0.1/{port}": "a connection",
}


def test_each_escape_is_one_and_is_seen(tmp_path: Path) -> None:
    """The positive control: unsandboxed, each one fires and is detected; sandboxed, none does."""
    folder = HostileFolder(tmp_path.resolve() / "it")
    folder.make(random.Random(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = [line.replace("{port}", str(server.getsockname()[1])) for line in ESCAPES]
        assert [line for line in lines if run(folder, [line], sandbox=True)] == []
        unseen: list[str] = []
        for number, line in enumerate(lines):
            fresh = HostileFolder(tmp_path.resolve() / str(number))
            fresh.make(random.Random(1))
            unseen += [] if run(fresh, [line], sandbox=False) else [line]
    assert unseen == []
    assert [line for line in lines if verdict(folder, line, sandbox=False) == "bare"] == []
