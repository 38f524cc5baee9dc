"""What is to be started, and what a keeper that has started it can do for us."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import anyio

from coterie.process.survivors import MARK

KeeperName = Literal["auto", "bubblewrap", "subreaper"]

GRACE = 2.0
"""How long an agent that was sent TERM has to end by itself."""
START = 20.0
"""How long a start may take; in practice milliseconds, but a loaded machine is no error."""


@dataclass(frozen=True)
class Spawn:
    """An agent to start for a member; `env` is its whole environment."""

    command: str
    args: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    member: str
    folder: str
    mark: str
    use_pty: bool = False

    @property
    def marked_env(self) -> dict[str, str]:
        """The environment of the agent and its keeper, by which both can be found again."""
        return {**self.env, MARK: self.mark}


class KeeperFailed(Exception):
    """The keeper itself could not be started; another kind of keeper may do."""


class Exit:
    """The end of an agent itself, whatever is left below it."""

    def __init__(self) -> None:
        self.known: anyio.Event = anyio.Event()
        self.code: int | None = None
        """128+n for signal n; None while it runs, or when its keeper could not say."""
        self.left = 0
        """How many processes it left running, which are ended; as far as its keeper counts."""
        self._then: Callable[[], None] | None = None

    def tell(self, code: int | None) -> None:
        """It has ended; what is told first counts, unless that was that nobody knows."""
        if self.code is None:
            self.code = code
        if not self.known.is_set():
            self.known.set()
            self.then(self._then)

    def then(self, callback: Callable[[], None] | None) -> None:
        """Call it when the end is known."""
        self._then = callback
        if callback is not None and self.known.is_set():
            callback()


class Hold(Protocol):
    """A keeper's hold of an agent that runs."""

    @property
    def pid(self) -> int:
        """The keeper's pid; it runs as long as anything of the agent does."""
        ...

    @property
    def agent_pid(self) -> int:
        """The agent's own pid, as it is known outside."""
        ...

    @property
    def exit(self) -> Exit:
        """The agent's end."""
        ...

    @property
    def preamble(self) -> bytes:
        """What to write to the agent's stdin before anything else."""
        ...

    def interrupt(self) -> None:
        """SIGINT to the agent's process group."""
        ...

    def ask_to_end(self) -> None:
        """TERM to the agent, which may have tools to end and state to save."""
        ...

    def kill(self) -> None:
        """KILL to the agent and all below it."""
        ...

    async def proven_gone(self) -> bool:
        """Wait until nothing of the agent runs; False if that cannot be proven."""
        ...
