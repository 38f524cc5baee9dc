"""Codex's commands that only look: each is run by us, in our own sandbox, and Codex is told what
it gave.

A hook of ours has every command wait for a word (`hook.py`).  What passes unasked because it only
looks gets the output of our own look; what was allowed gets leave to run as it is, in Codex's
sandbox.  Where there is no hook, or no sandbox of ours, commands are as Codex gives them.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coterie.agents.codex import hook
from coterie.agents.codex.home import toml_value
from coterie.agents.fields import mappings
from coterie.agents.process import JsonRpc, RpcError
from coterie.tools.run_command import SECONDS, CommandRunner, notes
from coterie.tools.toolbox import Excerpt
from coterie.tools.workspace_files import ToolError
from coterie.workspace import homes

_MOST = 512 * 1024
"""Bytes of the beginning and of the end of an output; Codex itself keeps no more than the two."""
_TIMED_OUT, _NOT_STARTED = 124, 126


@dataclass(frozen=True)
class WaitingCommand:
    """A command that waits for a word."""

    call_id: str
    command: str
    """As the model gave it."""
    cwd: str

    @property
    def key(self) -> str:
        """By which it looks for the word."""
        return hook.key_of(self.call_id, self.command)


@dataclass(frozen=True)
class CodexLooks:
    """Where the words for a member's commands are put, and how its looks are run."""

    folder: Path
    """Which its commands can read and not write."""
    commands: CommandRunner

    @property
    def settings(self) -> tuple[str, ...]:
        """The arguments that have Codex call the hook."""
        call = f'{{type="command", command={toml_value(self._command)}, timeout=60}}'
        hooks = f'hooks.PreToolUse=[{{matcher="^Bash$", hooks=[{call}]}}]'
        return "-c", "features.hooks=true", "-c", hooks

    async def trust_hook(self, rpc: JsonRpc, cwd: Path) -> None:
        """Say that this one hook was looked at, without which Codex passes over it.

        A Codex that knows no such hooks goes on without, and its commands do not wait.
        """
        with suppress(RpcError):
            told = await rpc.request("hooks/list", {"cwds": [str(cwd)]})
            folders = mappings(told.get("data"))
            listed = [one for folder in folders for one in mappings(folder.get("hooks"))]
            ours = [one for one in listed if one.get("command") == self._command]
            state = {str(one.get("key")): {"trusted_hash": one.get("currentHash")} for one in ours}
            edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
            if state:
                await rpc.request("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})

    async def let_go(self, waiting: WaitingCommand, *, only_looking: bool) -> None:
        """Give the word: let it run, or look in its place."""
        if only_looking:
            code, output = await self._looked(waiting)
            await anyio.to_thread.run_sync(self._tell, waiting.key, code, output)
        else:
            path = self.folder / f"{waiting.key}.{hook.WORK}"
            await anyio.to_thread.run_sync(homes.write_private, path, "")

    def clear(self) -> None:
        """Forget all words.  Blocks."""
        for path in self.folder.iterdir():
            homes.remove_private(path)

    @property
    def _command(self) -> str:
        return shlex.join((sys.executable, "-I", "-S", hook.__file__, str(self.folder)))

    async def _looked(self, waiting: WaitingCommand) -> tuple[int, str]:
        kept, cwd = Excerpt(_MOST, _MOST), Path(waiting.cwd)
        try:
            ran = await self.commands.run(
                waiting.command, SECONDS, kept, only_looking=True, cwd=cwd
            )
        except ToolError as error:
            return _NOT_STARTED, f"{error}\n"
        note = notes(ran, SECONDS, only_looking=True)
        code = _TIMED_OUT if ran.exit_code is None else ran.exit_code
        return code, ran.output + (f"\n[{note}]\n" if note else "")

    def _tell(self, key: str, code: int, output: str) -> None:
        told, script = self.folder / key, self.folder / f"{key}.{hook.LOOK}"
        homes.write_private(told, output)
        homes.write_private(script, f"cat {shlex.quote(str(told))}\nexit {code}\n")
