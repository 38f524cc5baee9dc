"""Every verb: where its code is, its one line of help, and the group it is shown in.

Code is named here and not imported, so that `coterie --help` costs nothing but this table.
"""

from __future__ import annotations

import difflib
from itertools import zip_longest
from typing import NamedTuple

import click


class Verb(NamedTuple):
    """One word after `coterie`."""

    target: str
    """`module:attribute` of its click command, below `coterie.cli`."""
    help: str
    group: str


VERBS: dict[str, Verb] = {
    "demo": Verb("demo:demo", "a team at work, in seconds: no login, no tokens", "Start"),
    "doctor": Verb("setup:doctor", "what is installed, and what will work", "Start"),
    "init": Verb("setup:init", "find your agents, write a first team", "Start"),
    "chat": Verb("work:chat", "talk with a team", "Work"),
    "run": Verb("work:run", "goal to tickets to checked work", "Work"),
    "do": Verb("work:do", "one agent, one job", "Work"),
    "inbox": Verb("inbox:inbox", "what waits for your answer, in every project", "Answer"),
    "answer": Verb("inbox:answer", "answer one question or several", "Answer"),
    "say": Verb("inbox:say", "a word to a running task", "Answer"),
    "tasks": Verb("tasks:tasks", "every task of this project", "Look"),
    "show": Verb("show:show", "all about one task, question or ticket", "Look"),
    "log": Verb("tasks:log", "what happened, in order", "Look"),
    "diff": Verb("diff:diff", "what a task changed in your files", "Look"),
    "cost": Verb("cost:cost", "tokens and money, by task, member or day", "Look"),
    "audit": Verb("audit:audit", "every tool call, and whether the record is whole", "Look"),
    "ps": Verb("tasks:ps", "which agents run now", "Look"),
    "stop": Verb("tasks:stop", "park a task; resume goes on with it", "Steer"),
    "resume": Verb("tasks:resume", "go on with a parked or killed task", "Steer"),
    "cancel": Verb("tasks:cancel", "end a task for good", "Steer"),
    "accept": Verb("tasks:accept", "take a session's work into your branch", "Steer"),
    "revert": Verb("diff:revert", "take back what a task changed", "Steer"),
    "team": Verb("team:team", "list, make, check and show teams", "Set up"),
    "agents": Verb("setup:agents", "the registry: which programs can be members", "Set up"),
    "config": Verb("config:config", "settings", "Set up"),
    "completion": Verb("main:completion", "tab completion for your shell", "Set up"),
}

ALIASES = {"logs": "log"}

UNLISTED: dict[str, Verb] = {
    "help": Verb("overview:help_", "this help", ""),
    "tickets": Verb("tickets:tickets", "the tickets of a session, and resetting one", "More"),
    "graph": Verb("tickets:graph_", "what waits for what in a session", "More"),
    "rehearse": Verb("work:rehearse", "try a team on a stand-in for the model", "More"),
}

_WITH_WORDS = {"Work"}
"""Groups whose verbs cannot be told apart by name, so that each says what it does."""


def find(name: str) -> Verb | None:
    """The verb of that name or alias."""
    name = ALIASES.get(name, name)
    return VERBS.get(name) or UNLISTED.get(name)


def nearest(word: str) -> str | None:
    """The verb that was probably meant."""
    known = [*VERBS, *ALIASES, "help"]
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.7)
    return close[0] if close else None


def summary() -> str:
    """The short help, in groups."""
    lines = ["coterie: the coding agents you have, as one team", ""]
    for group, names in _groups().items():
        shown = _in_pairs(names) if group in _WITH_WORDS else [" · ".join(names)]
        lines += [f"  {'' if place else group:<9}{line}" for place, line in enumerate(shown)]
    lines += ["", '  coterie "text" talks to your default team.   All: coterie help --all']
    return "\n".join(lines)


def _in_pairs(names: list[str]) -> list[str]:
    """Verbs with their words, two on a line."""
    columns = [names[0::2], names[1::2]]
    sizes = [max((len(name) for name in column), default=0) for column in columns]
    told = [
        [f"{name:<{size}}  {VERBS[name].help}" for name in column]
        for column, size in zip(columns, sizes, strict=True)
    ]
    left = max(map(len, told[0]))
    pairs = zip_longest(*told, fillvalue="")
    return [f"{one:<{left}}     {other}".rstrip() for one, other in pairs]


def everything() -> str:
    """The long help: each verb with its line, and what holds for all of them."""
    lines = ["coterie: the coding agents you have, as one team", ""]
    for group, names in _groups().items():
        lines.append(f"  {group}")
        lines += [f"    {name:<12}{VERBS[name].help}" for name in names]
    more = {name: verb for name, verb in UNLISTED.items() if verb.group}
    lines += ["  More", *(f"    {name:<12}{verb.help}" for name, verb in more.items())]
    lines += [
        "",
        "  Every verb takes",
        "    --json      one JSON object a line, for machines",
        "    --debug     stack traces",
        "    -C DIR      the project; else the nearest parent with .coterie, the git root, here",
        "    --help      more about it, with an example",
        "",
        "  Ids: a task is k3f9, a question q4, a ticket k3f9/T2. A unique beginning will do, and",
        "  `last` for the newest.",
        "  Exit codes: 0 done, 1 failed or canceled, 2 wrong usage, 3 waits for you,",
        "  130 interrupted (coterie resume goes on).",
    ]
    return "\n".join(lines)


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, verb in VERBS.items():
        groups.setdefault(verb.group, []).append(name)
    return groups


class NoVerb(click.UsageError):
    """One word that is no verb: never taken for a prompt."""

    def __init__(self, word: str, rest: list[str]) -> None:
        near = nearest(word)
        meant = f" Did you mean {near}?" if near else ""
        super().__init__(f'No verb "{word}".{meant}' if word else "There is no verb.")
        words = " ".join([word, *(one for one in rest if not one.startswith("-"))])
        if not word:
            self.hint = "coterie help"
        elif near and not rest:
            self.hint = f"coterie {near}"
        elif " " in words:
            self.hint = f'To say it to your team, quote it:  coterie "{words}"'
        else:
            self.hint: str = f'To say it to your team:  coterie chat "{words}"'


class ReaderLeft(Exception):
    """Whoever read our output has seen enough."""
