"""What a tool call would do to the world, whoever's tool it is; and what the rules say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Effect = Literal["read", "write", "run", "fetch", "other"]
"""Look at files, change files, run a command, reach the network, or what nobody can say."""

Verdict = Literal["allow", "deny", "ask"]


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


@dataclass(frozen=True)
class Ruling:
    """What the rules say of an action, and which of them says it."""

    verdict: Verdict
    because: str
    """The rule or the mode, in the words of the team file: `deny run(rm *)`, `mode ask`."""
