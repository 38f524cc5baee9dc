"""Every word after `coterie`: where its command is, and what it is for."""

from __future__ import annotations

from typing import NamedTuple


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
    "build": Verb("build:build", "goal to a tested commit", "Work"),
    "do": Verb("work:do", "one agent, one job", "Work"),
    "inbox": Verb("inbox:inbox", "what is waiting for your answer, in every project", "Answer"),
    "answer": Verb("inbox:answer", "answer one question or several", "Answer"),
    "say": Verb("inbox:say", "send a message to a running task", "Answer"),
    "tasks": Verb("tasks:tasks", "every task of this project", "Look"),
    "show": Verb("show:show", "all about one task, question or ticket", "Look"),
    "log": Verb("tasks:log", "what happened, in order", "Look"),
    "attach": Verb("attach:attach", "the live screen of a task that runs elsewhere", "Look"),
    "diff": Verb("diff:diff", "what a task changed in your files", "Look"),
    "cost": Verb("audit:cost", "tokens and money, by task, member or day", "Look"),
    "audit": Verb("audit:audit", "every tool call, and whether the record is intact", "Look"),
    "export": Verb("export:export", "a task as JSON lines, with its artifacts", "Look"),
    "ps": Verb("ps:ps", "what each member is doing, in every project", "Look"),
    "stop": Verb("ps:stop", "park a task or everything, or stop one member", "Steer"),
    "resume": Verb("tasks:resume", "continue a parked or killed task", "Steer"),
    "cancel": Verb("tasks:cancel", "cancel a task for good", "Steer"),
    "accept": Verb("tasks:accept", "merge a session's work into your branch", "Steer"),
    "revert": Verb("diff:revert", "undo what a task changed", "Steer"),
    "clean": Verb("clean:clean", "remove what ended tasks left behind", "Steer"),
    "team": Verb("team:team", "list, create, check and show teams", "Set up"),
    "agents": Verb("setup:agents", "the registry: which programs can be members", "Set up"),
    "config": Verb("config:config", "settings", "Set up"),
    "serve": Verb("serve:serve", "your team in a browser, and an HTTP API", "Set up"),
    "completion": Verb("overview:completion", "tab completion for your shell", "Set up"),
}

ALIASES = {"logs": "log"}

UNLISTED: dict[str, Verb] = {
    "help": Verb("overview:help_", "this help", ""),
    "tickets": Verb("show:tickets", "the tickets of a session, and resetting one", "More"),
    "graph": Verb("graph_command:graph_", "ticket dependencies; a pipeline's phases", "More"),
    "project": Verb("project:project", "whose .coterie this is; adopt it or set it aside", "More"),
    "store": Verb("store:store", "the database that several machines share", "More"),
    "worker": Verb("worker:worker", "run tasks on offer in a store on this machine", "More"),
    "machines": Verb("worker:machines", "the machines that share a store", "More"),
    "rehearse": Verb("work:rehearse", "try a team on a stand-in for the model", "More"),
}
