"""A member finds only its own key in any /proc, neither its user's nor another member's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.process import processes
from tests.cli.command import Cli

SPY = Path(__file__).with_name("key_spy_agent.py")
PATH = os.environ["PATH"]
USERS, VICTIMS, OWN = "canary-user-0a1b2c3d", "canary-victim-0a1b2c3d", "canary-own-0a1b2c3d"


@pytest.fixture
def with_spy(cli: Cli) -> Cli:
    """A waiting member with a key, and one that looks for keys; the user has a key too."""
    registry = cli.user.coterie_home / "agents" / "config.json"
    # Silence must not end either turn: on a busy machine the search takes long.
    ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    agents = {
        "victim": {"command": "sleep", "baseArgs": ["600"], "capabilities": ends},
        "spy": {
            "command": sys.executable,
            "baseArgs": ["-I", str(SPY), OWN],
            "capabilities": ends,
        },
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    for name, key in (("victim", VICTIMS), ("spy", OWN)):
        team = cli.user.coterie_home / f"{name}.json"
        member = {"id": name, "agent": name, "env": {"ITS_KEY": key}}
        team.write_text(json.dumps({"name": name, "members": [member]}))
        assert cli("team", "trust", str(team)).code == 0
    return Cli(cli.user, {**cli.env, "SOME_API_KEY": USERS})


def keys_found(cli: Cli, keeper: str) -> dict[str, set[str]]:
    """Return the keys the spy finds during the victim's turn, by the way it tries."""
    assert cli("config", "set", "keeper", keeper).code == 0
    team = cli.user.coterie_home / "spy.json"
    with cli.launch("chat", "-t", str(team.with_name("victim.json")), "wait") as victim:
        try:
            while not any(VICTIMS.encode() in processes.environ(p) for p in processes.snapshot()):
                assert victim.poll() is None
            with cli.launch("chat", "--json", "-t", str(team), "look around") as spy:
                assert spy.stdout is not None
                lines = [json.loads(line) for line in spy.stdout]
        finally:
            victim.terminate()
    [said] = [line["text"] for line in lines if line["type"] == "message"]
    return {name: set(keys) for name, keys in json.loads(said).items()}


def test_a_member_finds_no_key_but_its_own(with_spy: Cli) -> None:
    found = keys_found(with_spy, "auto")
    assert len(found) >= 10
    assert {name: keys for name, keys in found.items() if keys} == {}


def test_without_a_namespace_of_its_own_it_finds_them_in_each_of_these_ways(with_spy: Cli) -> None:
    found = keys_found(with_spy, "subreaper")
    missed = {name for name, keys in found.items() if not keys & {USERS, VICTIMS}}
    assert missed == set()


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# Makes the keeper readable wherever it is installed; has no effect in a user namespace.
READS_ALL = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
LOOK = "for trial in 1 2; do cat /proc/[0-9]*/environ; umount -l /proc; done"
UNCOVER = f"{LOOK}; unshare --user --map-root-user --mount sh -c '{LOOK}'"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(("private", "found"), [((), True), (("--private",), False)])
def test_a_user_without_privileges_has_the_same(private: tuple[str, ...], found: bool) -> None:
    victim = subprocess.Popen([*NOBODY, "sleep", "600"], env={"PATH": PATH, "KEY": VICTIMS})
    (control, hold), (read, status) = os.pipe(), os.pipe()
    ends = (f"--parent={os.getpid()}", f"--control={control}", f"--status={status}", "--grace=1")
    keeper = (sys.executable, "-I", "-S", str(processes.KEEPER), *ends, *private, "--")
    try:
        while VICTIMS.encode() not in processes.environ(victim.pid):
            assert victim.poll() is None
        ran = subprocess.run(
            [*NOBODY, *READS_ALL, *keeper, "sh", "-c", UNCOVER],
            env={"PATH": PATH},
            pass_fds=(control, status),
            capture_output=True,
            check=False,
        )
        os.close(status)
        assert ("private" in os.read(read, 4096).decode().split()) == bool(private)
        assert (VICTIMS.encode() in ran.stdout) == found
    finally:
        victim.kill()
        victim.wait()
        for end in (control, hold, read):
            os.close(end)
