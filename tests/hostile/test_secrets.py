"""Secrets: planted in sixty shapes wherever text enters, and found in nothing that is stored.

Each shape is a separate secret, written in one form and put in one place.  The search covers
everything Coterie wrote (the database with its free pages and write-ahead log, logs, homes) and
everything it printed.  Only letters and digits are compared, so a secret is found however it is
quoted or broken up.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shlex
import string
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.cli.command import Cli, CommandResult, InProcessCli
from tests.conftest import IsolatedUser

AGENT = Path(__file__).with_name("leaky_agent.py")
_SIGNS = string.ascii_letters + string.digits


def _wrapped(secret: str, width: int, between: str) -> str:
    return between.join(secret[at : at + width] for at in range(0, len(secret), width))


FORMS: Mapping[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": json.dumps,
    "in JSON, all escaped": lambda secret: "".join(f"\\u{ord(sign):04x}" for sign in secret),
    "in JSON in JSON": lambda secret: json.dumps(json.dumps({"key": secret})),
    "in an address": lambda secret: f"https://example.com/?key={quote(secret, '')}",
    "in an address, all quoted": lambda secret: "".join(f"%{ord(sign):02x}" for sign in secret),
    "in base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "as a basic login": lambda secret: base64.b64encode(f"me:{secret}".encode()).decode(),
    "quoted for a shell": lambda secret: shlex.quote(secret + " '"),
    "on two lines": lambda secret: f"{secret[:9]}\n{secret[9:]}",
    "continued": lambda secret: f"{secret[:9]}\\\n    {secret[9:]}",
    "wrapped": lambda secret: _wrapped(secret, 6, "\n> "),
    "in parts": lambda secret: _wrapped(secret, 8, '" + "'),
    "in hex": lambda secret: secret.encode().hex(),
    "in an address in an address": lambda secret: quote(quote(secret, ""), ""),
    "in HTML": lambda secret: secret.replace("/", "&#x2F;").replace("+", "&#43;"),
    "in octal": lambda secret: "".join(f"\\{ord(sign):03o}" for sign in secret),
}
"""The forms in which a secret known by its value may be written."""
FORMATS: Mapping[str, Callable[[random.Random], str]] = {
    "anthropic": lambda chance: "sk-ant-api03-" + _letters(chance, 40),
    "github": lambda chance: "ghp_" + _letters(chance, 36),
    "gitlab": lambda chance: "glpat-" + _letters(chance, 20),
    "aws": lambda chance: "AKIA" + _letters(chance, 16).upper(),
    "google": lambda chance: "AIza" + _letters(chance, 35),
    "slack": lambda chance: "xoxb-" + _letters(chance, 30),
    "npm": lambda chance: "npm_" + _letters(chance, 36),
    "token": lambda chance: ".".join(("eyJ" + _letters(chance, 20),) * 2 + (_letters(chance, 30),)),
    "user and password": lambda chance: _letters(chance, 16),
    "user alone": lambda chance: _letters(chance, 16),
    "private key": lambda chance: _letters(chance, 64),
    "private key in JSON": lambda chance: _letters(chance, 64),
}
"""Secrets that are recognized by their format alone."""
AROUND = {
    "user and password": "git clone https://me:{}@git.example.com/x",
    "user alone": "see ssh://{}@git.example.com/x",
    "private key": "-----BEGIN PRIVATE KEY-----\n{}\nabcd==\n-----END PRIVATE KEY-----",
    "private key in JSON": r"-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
}
PLACES = (
    "goal", "prompt", "reply", "command", "question", "answer", "denial", "said", "file", "output",
    "error", "message", "title",
)  # fmt: skip


def _letters(chance: random.Random, count: int) -> str:
    return "".join(chance.choice(_SIGNS) for _ in range(count))


@dataclass(frozen=True)
class Shape:
    """One planted secret."""

    name: str
    place: str
    secret: str
    text: str
    by_value: bool

    @property
    def traces(self) -> set[str]:
        """What a leak would show: the characters of the secret or of its written form."""
        return {_squeezed(self.secret), _squeezed(self.text)}


def _squeezed(text: str) -> str:
    return re.sub(r"\\+[nrt]|[^A-Za-z0-9]", "", text)


def shapes() -> list[Shape]:
    chance = random.Random(60)
    found: list[Shape] = []
    names = [(name, False) for name in FORMATS] + [(name, True) for name in FORMS] * 4
    for number, (name, by_value) in enumerate(names[:60]):
        place = PLACES[(number + number // len(PLACES)) % len(PLACES)]
        if by_value:
            secret = f"{_letters(chance, 11)}/{_letters(chance, 6)}+{_letters(chance, 8)}"
            text = FORMS[name](secret)
        else:
            secret = FORMATS[name](chance)
            text = AROUND.get(name, "{}").format(secret)
        found.append(Shape(f"{name} in {place}", place, secret, text, by_value))
    return found


SHAPES = shapes()


def planted(place: str) -> str:
    """Return a text with all secrets planted in one place."""
    return " ; ".join(["note", *(shape.text for shape in SHAPES if shape.place == place), "end"])


@dataclass
class SecretsRun:
    """Runs the commands and collects everything they print."""

    user: IsolatedUser
    printed: list[str] = field(default_factory=list[str])

    def __call__(self, *words: str) -> CommandResult:
        ran = InProcessCli(self.user)(*words)
        self.printed += [ran.out, ran.err]
        return ran

    def start(self, *words: str) -> None:
        """Run a task to its end and answer its questions."""
        with Cli(self.user).start(*words) as run:
            for line in run.out:
                self.printed.append(line)
                told = json.loads(line)
                if told["type"] == "interaction" and told["state"] == "open":
                    self("show", told["id"])
                    self("inbox")
                    self._answer(told)
            self.printed.append(run.err.read())

    def _answer(self, asked: dict[str, str]) -> None:
        if asked["kind"] == "Input":
            self("say", asked["task"], planted("said"))
            self("answer", asked["id"], "--say", planted("answer"))
        elif asked["purpose"] == "confirm_risky_action":
            self("answer", asked["id"], "deny", "--say", planted("denial"))
        else:
            self("answer", asked["id"], "stop")

    def stored_texts(self) -> dict[str, str]:
        """Return everything written and printed, by place, except the test's own files."""
        found = {"the terminal": "".join(self.printed)}
        for root in (self.user.project / ".coterie", self.user.coterie_home):
            for path in root.rglob("*"):
                if path.is_file() and path.name not in ("team.json", "config.json"):
                    found[str(path)] = path.read_bytes().decode("latin-1")
        return found


def run_commands(user: IsolatedUser, *, known: bool) -> SecretsRun:
    """Run a job with the built-in agent, a chat that works and one that fails, and a rehearsal.

    If `known`, the secrets are also values in the members' `env`.
    """
    outside = user.home / "planted"
    outside.mkdir()
    env = {f"VALUE_{n}": shape.secret for n, shape in enumerate(SHAPES) if shape.by_value}
    words = {place: planted(place) for place in ("error", "message")}
    (outside / "words.json").write_text(json.dumps(words))
    (user.project / "notes.txt").write_text(planted("file"))
    (user.project / "out.txt").write_text(planted("output"))
    leaky = {
        "command": sys.executable,
        "baseArgs": [str(AGENT), str(outside / "words.json")],
        "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
    }
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"leaky": leaky}}))
    run = SecretsRun(user)
    teams: dict[str, str] = {}
    for name, agents in {"builtin": 1, "leaky": 1, "crew": 2}.items():
        agent = "leaky" if name == "leaky" else "builtin"
        member = {"agent": agent, "systemInstruction": planted("prompt")}
        member |= {"env": env} if known else {}
        members = [{"id": f"{name}{number}", **member} for number in range(agents)]
        file = outside / name / "team.json"
        file.parent.mkdir()
        file.write_text(json.dumps({"name": name, "members": members}))
        teams[name] = str(file)
        assert not known or run("team", "trust", teams[name]).code == 0
    calls = [
        {"name": "readFile", "input": {"path": "notes.txt"}},
        {"name": "runCommand", "input": {"command": "cat out.txt"}},
        {"name": "runCommand", "input": {"command": f"touch x; echo {planted('command')}"}},
        {"name": "askUser", "input": {"question": planted("question")}},
    ]
    replies = [{"text": planted("reply"), "tools": calls}, {"text": f"done\n{planted('title')}"}]
    script = outside / "script.json"
    script.write_text(json.dumps({"rules": [{"when": {}, "replies": replies, "then": "last"}]}))
    goal = f"{planted('title')}\n{planted('goal')}"
    live = ("--json", "--wait", "30s", "-t")
    run.start("do", *live, teams["builtin"], "--script", str(script), goal)
    run.start("chat", *live, teams["leaky"], "say it")
    run.start("chat", *live, teams["leaky"], "fail")
    run.start("run", *live, teams["crew"], "--rehearse", "--yes", goal)
    for words in (("tasks",), ("log",), ("show", "last"), ("audit",), ("audit", "--json")):
        run(*words)
    run("audit", "--export", "-")
    for task in run("tasks", "--json").of("task"):
        run("show", task["id"])
        run("log", task["id"], "--json")
    return run


def leaks(run: SecretsRun) -> dict[str, list[str]]:
    """Return the places where each shape was found."""
    kept = {place: _squeezed(text) for place, text in run.stored_texts().items()}
    found = {
        shape.name: [
            place for place, text in kept.items() if any(trace in text for trace in shape.traces)
        ]
        for shape in SHAPES
    }
    return {name: places for name, places in found.items() if places}


def test_no_planted_secret_is_kept_or_shown(user: IsolatedUser) -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) == 60
    run = run_commands(user, known=True)
    assert any(
        place.endswith("-ticket.json") for place in run.stored_texts()
    )  # the tickets' envelopes
    assert leaks(run) == {}


def test_the_same_search_finds_them_where_they_are_not_declared_as_secrets(
    user: IsolatedUser,
) -> None:
    assert set(leaks(run_commands(user, known=False))) == {
        one.name for one in SHAPES if one.by_value
    }
