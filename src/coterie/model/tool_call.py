"""Tool calls: what a call would do, what the rules say about it, and its form in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Effect = Literal["read", "write", "run", "fetch", "other"]
"""Look at files, change files, run a command, reach the network, or unknown."""

Verdict = Literal["allow", "allow_read_only", "ask", "deny"]
"""`allow_read_only`: allowed only in a read-only sandbox."""


@dataclass(frozen=True)
class Action:
    """A tool call in agent-independent terms: rules apply to these, not to the names that each
    agent gives its tools."""

    effect: Effect
    tool: str
    """The agent's own name for the tool."""
    cwd: str
    """The folder it would run in; relative paths are resolved against it."""
    command: str = ""
    """`run`: the command line, exactly as a shell would get it."""
    paths: tuple[str, ...] = ()
    """`read`, `write`: the files, as the agent named them."""
    target: str = ""
    """`fetch`: the address."""
    confined: bool = False
    """Whether the tool itself stays in the work folder, regardless of its paths and links there."""
    read_only_sandbox: bool = False
    """`run`: whether the agent can run it in a read-only sandbox."""
    keeps_folder: bool = False
    """`run`: whether a `cd` affects the agent's next commands; inside a sandbox it never does."""
    names_only: bool = False
    """`read`: whether it shows no more of files than their names."""


@dataclass(frozen=True)
class Ruling:
    """The verdict of the rules on an action, and the rule that decided it."""

    verdict: Verdict
    because: str
    """The rule or the mode, in the form of the team file: `deny run(rm *)`, `mode ask`."""


DENIED = "denied"
"""The key in a completed call's output that states why it was denied, and so not run."""
NOT_RUN = "not_run"
"""The key in a completed call's output that marks it as never run; `error` states why."""


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


def command_of(arguments: Mapping[str, object]) -> str:
    """The command in a tool call's input; empty for other kinds of calls."""
    command = arguments.get("command")
    return command if isinstance(command, str) else ""


@dataclass(frozen=True)
class ChainedEntry:
    """An audit row in its place in the chain: its hash covers `previous` and the row itself."""

    sequence: int
    previous: str
    """The hash of the previous row, in hex; empty for the first row."""
    hash: str
    entry: AuditEntry
