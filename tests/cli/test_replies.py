"""A program described only by its registry entry: what it is sent, and when its reply ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CommandResult, InProcessCli
from tests.unit.process.children import AGENT

EVENT: dict[str, Any] = {"completionDetection": "jsonl", "completionTypes": ["result"]}
SILENCE: dict[str, Any] = {"completionDetection": "idleTimeout", "idleTimeoutMs": 300}
STAYS = {**EVENT, "persistent": True, "promptFormat": "jsonl"}
ROLE = "You are Ann."


def agent(told: dict[str, Any], *words: str, **more: Any) -> dict[str, Any]:
    """The scripted agent of `coterie.testing`, which does what its last arguments say."""
    words = ("-I", "-S", AGENT, *words)
    return {"command": sys.executable, "baseArgs": words, "capabilities": told, **more}


def shell(told: dict[str, Any], script: str) -> dict[str, Any]:
    return {"command": "/bin/sh", "baseArgs": ["-c", script], "capabilities": told}


def replies(ran: CommandResult) -> dict[str, list[str]]:
    """All messages of each member."""
    found: dict[str, list[str]] = {}
    for message in ran.of("message"):
        found.setdefault(message["member"], []).append(message["text"])
    return found


LEAVES = r"""
n=0
while read prompt; do
    n=$((n+1))
    test $n = 1 || printf 't": "half %s"}\n' $n
    printf '{"type": "result", "text": "reply %s"}\n' $n
    printf '{"type": "result", "text": "left over %s"}\n{"type": "result", "tex' $n
done
"""
"""Prints a second reply after each, and half of a third, which it completes in the next turn."""

AGENTS: dict[str, dict[str, Any]] = {
    "mute": agent(SILENCE, "--plain", "hang"),
    "early": agent(EVENT, "--early", '{"type": "result", "text": "ready-made"}', "nothing"),
    "leaves": shell(STAYS, LEAVES),
    "loud": agent(
        {"completionDetection": "custom", "detector": "loud"}, "--plain", "--end", "OVER!", "turn"
    ),
    "stays": agent(STAYS, "--persistent"),
    "anew": agent(EVENT),
    "flag": agent({**EVENT, "systemPromptFlag": "--system"}),
    "unflagged": agent({**EVENT, "systemPromptFlag": "--role", "supportsSystemPrompt": False}),
    "tty": agent(EVENT, "tty", usePty=True),
}
PROMPTED = "heard: [SYSTEM]\nYou are Ann.\n\n"
SAID: dict[str, list[str]] = {
    # Silence is measured from when the prompt was sent, whether or not anything was printed.
    "mute": ["", ""],
    # An agent that is started for each turn may print its reply before the prompt.
    "early": ["ready-made", "ready-made"],
    # Leftover output of a turn neither ends the next turn nor appears in its reply.
    "leaves": ["reply 1", "reply 2"],
    # A detector from another package: it keeps the text before its end mark.
    "loud": ["turn 1\nOVER", "turn 1\nOVER"],
    "tty": ["[true, true, true, true]"] * 2,
}


@pytest.fixture
def detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package whose detector recognizes the end of a reply by an exclamation mark."""
    info = tmp_path / "site" / "loud-1.0.dist-info"
    info.mkdir(parents=True)
    code = "def detect(line):\n    return line.endswith('!') and line[:-1]\n"
    code += "def fails(line):\n    raise KeyError(line)\n"
    (tmp_path / "site" / "loud_detector.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    points = "loud = loud_detector:detect\nfails = loud_detector:fails\ngone = loud_detector:gone\n"
    (info / "entry_points.txt").write_text(f"[coterie.detectors]\n{points}")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("detector")
def test_two_rounds_of_every_kind(in_process: InProcessCli) -> None:
    in_process.registry(**AGENTS)
    in_process.members(*({"id": name, "agent": name, "prompt": ROLE} for name in AGENTS))
    ran = in_process("chat", "--json", "--max-rounds", "2", "hello")
    assert ran.code == 0, ran.err
    heard = replies(ran)
    assert {name: heard[name] for name in SAID} == SAID
    (silent, _) = [one for one in ran.of("message") if one["member"] == "mute"]
    assert silent["duration_ms"] >= SILENCE["idleTimeoutMs"]
    # The role: in its flag, or in front of the message, once per process.
    first, second = heard["stays"]
    assert first.startswith(f"{PROMPTED}[CONTEXT]\nyou: hello\nmute: \nearly: ready-made\n")
    assert second.startswith("heard: [CONTEXT]\nanew: "), "what it knows is not told again"
    told_each_time = (*heard["anew"], *heard["unflagged"])
    assert all(text.startswith(f"{PROMPTED}[CONTEXT]\nyou: hello\n") for text in told_each_time)
    assert all(text.startswith("heard: [CONTEXT]\nyou: hello\n") for text in heard["flag"])


@pytest.mark.usefixtures("detector")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fails", "its detector failed: KeyError('turn 1')"),
        ("gone", "The detector gone (loud_detector:gone) cannot be loaded: "),
        ("nobody", 'no detector "nobody" among the entry points of coterie.detectors'),
    ],
)
def test_a_detector_that_is_broken_fails_its_members_turn(
    in_process: InProcessCli, name: str, said: str
) -> None:
    told = {"completionDetection": "custom", "detector": name}
    in_process.registry(it=agent(told, "--plain", "turn"))
    ran = in_process("chat", "--json", "--agents", "ada=it", "hello")
    (error,) = ran.of("error")
    assert (ran.code, said in error["message"]) == (3, True), error


@pytest.mark.parametrize("told", [EVENT, STAYS], ids=["each turn", "stays"])
def test_a_program_is_started_when_its_turn_comes(
    in_process: InProcessCli, told: dict[str, Any]
) -> None:
    begins = """touch "$HOME/started"; read prompt; echo '{"type": "result", "text": "yes"}'"""
    in_process.registry(it=shell(told, begins))
    in_process.members({"id": "ada", "agent": "it"}, {"id": "rex", "agent": "it"})
    assert replies(in_process("chat", "--json", "--max-turns", "1", "hello")) == {"ada": ["yes"]}
    team = in_process.user.project / ".coterie" / "teams" / "pair"
    assert [path.parts[-3] for path in team.glob("*/home/started")] == ["ada"]


# -- limits -------------------------------------------------------------------------------------

PRINTS = "while :; do echo on and on; sleep 0.05; done"
PATTERN = {"completionDetection": "custom", "completionPattern": "^never$"}


@pytest.mark.parametrize(
    ("entry", "member"),
    [
        (agent({**EVENT, "timeoutMs": 200}, "hang"), {}),
        (agent(EVENT, "hang"), {"timeoutMs": 200}),
        (agent({**EVENT, "timeoutMs": 60_000}, "deltas", "1000"), {"timeoutMs": 200}),
        (shell({**SILENCE, "timeoutMs": 200}, PRINTS), {}),
        (shell({**PATTERN, "timeoutMs": 200}, PRINTS), {}),
    ],
    ids=["of the agent", "of the member", "before the agent's", "silence", "pattern"],
)
def test_a_turn_without_an_end_fails_at_its_limit(
    in_process: InProcessCli, entry: dict[str, Any], member: dict[str, Any]
) -> None:
    in_process.registry(it=entry)
    in_process.members({"id": "ada", "agent": "it", **member})
    ran = in_process("chat", "--json", "hello")
    assert (ran.code, replies(ran)) == (3, {})
    assert {one["code"] for one in ran.of("error")} == {"turn_timeout"}
    assert "no reply within 0.2 s" in ran.of("error")[0]["message"]
    assert ran.of("interaction")[0]["about"]["failure"] == "timeout"


def test_a_member_may_set_how_long_a_silence_ends_its_reply(in_process: InProcessCli) -> None:
    in_process.registry(it=agent({**SILENCE, "idleTimeoutMs": 60_000}, "--plain", "hang"))
    in_process.members({"id": "ada", "agent": "it", "idleTimeoutMs": 200})
    assert replies(in_process("chat", "--json", "hello")) == {"ada": [""]}


def test_the_limits_that_hold_where_nobody_set_any(in_process: InProcessCli) -> None:
    in_process.registry(
        silent={"command": "cat", "capabilities": {"completionDetection": "idleTimeout"}},
        plain={"command": "cat"},
        event={"command": "cat", "capabilities": EVENT},
        pattern={"command": "cat", "capabilities": PATTERN},
        set={"command": "cat", "capabilities": {**SILENCE, "timeoutMs": 4_000}},
        codex={"command": "/nowhere/codex"},
    )
    agents = "silent,plain,event,pattern,set,codex"
    (told,) = in_process("chat", "--dry-run", "--json", "--agents", agents, "hello").of("dry_run")
    limits = {one["member"]: (one["timeout_ms"], one["silence_ms"]) for one in told["members"]}
    half_an_hour = (30 * 60_000, None)
    assert limits == {
        "silent": (30_000, 2_000),
        "plain": (30_000, 2_000),
        "event": half_an_hour,
        "pattern": half_an_hour,
        "set": (4_000, 300),
        "codex": half_an_hour,
    }
    shown = in_process("chat", "--dry-run", "--agents", agents, "hello").out
    assert "fail after 30s; a reply ends with 2 s of silence" in shown
