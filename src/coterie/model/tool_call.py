"""Tool calls: what one would do, what the rules say of it, and how the audit keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Effect = Literal["read", "write", "run", "fetch", "other"]
"""Look at files, change files, run a command, reach the network, or what nobody can say."""

Verdict = Literal["allow", "allow_read_only", "ask", "deny"]
"""`allow_read_only`: only where it runs in a sandbox in which it can do no more than look."""


@dataclass(frozen=True)
class Action:
    """One tool call in terms that hold for every agent: rules are about these, not about names
    that each agent gives its tools."""

    effect: Effect
    tool: str
    """What the agent itself calls the tool."""
    cwd: str
    """Where it would happen; relative paths count from here."""
    command: str = ""
    """`run`: the command line, exactly as a shell would get it."""
    paths: tuple[str, ...] = ()
    """`read`, `write`: the files, as the agent named them."""
    target: str = ""
    """`fetch`: the address."""
    confined: bool = False
    """Whether the tool itself keeps to the work folder, whatever its paths and the links there."""
    read_only_sandbox: bool = False
    """`run`: whether who asks can have it run where it can do no more than look."""
    keeps_folder: bool = False
    """`run`: whether a `cd` holds for what the agent runs next; inside a sandbox none does."""


@dataclass(frozen=True)
class Ruling:
    """What the rules say of an action, and which of them says it."""

    verdict: Verdict
    because: str
    """The rule or the mode, in the words of the team file: `deny run(rm *)`, `mode ask`."""


DENIED = "denied"
"""The key in a completed call's output that says why it was not permitted, and so not run."""
NOT_RUN = "not_run"
"""The key in a completed call's output that says that it was not run at all; `error` says why."""


def not_run(why: str) -> Mapping[str, object]:
    """The output of a call that was never run."""
    return {"error": why, NOT_RUN: True}


@dataclass(frozen=True)
class AuditEntry:
    """One row of the audit: `input` belongs to Requested, the outcome to Completed."""

    kind: Literal["ToolCallRequested", "ToolCallCompleted"]
    tool_call_id: str
    tool_name: str
    author_actor_id: str
    task_id: str
    timestamp: str
    input: Mapping[str, object] | None = None
    output: Mapping[str, object] | None = None
    is_error: bool | None = None
    duration_ms: int | None = None


def command_of(given: Mapping[str, object]) -> str:
    """The command that a tool call runs, by its input; empty for a call of another kind."""
    command = given.get("command")
    return command if isinstance(command, str) else ""


@dataclass(frozen=True)
class ChainedEntry:
    """A row of the audit in its place in the chain: its hash is over `previous` and itself."""

    sequence: int
    previous: str
    """The hash of the row before, in hex; empty for the first."""
    hash: str
    entry: AuditEntry
