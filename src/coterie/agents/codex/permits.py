"""Codex's read-only commands: we run each in our own sandbox, and give Codex the output.

Our hook makes every command wait for a permit (`hook.py`).  A command that passes unasked because
it only reads gets the output of our own run; an approved one is permitted to run as it is, in
Codex's sandbox.  Without the hook, or without a sandbox of ours, commands are left unchanged.
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
from coterie.agents.fields import exact_text, mappings
from coterie.agents.process import JsonRpc, RpcError
from coterie.tools.run_command import SECONDS, CommandRunner, notes
from coterie.tools.toolbox import Excerpt
from coterie.tools.workspace_files import ToolError
from coterie.workspace import homes

_MOST = 512 * 1024
"""Bytes kept of the beginning and of the end of an output; Codex keeps no more than their sum."""
_TIMED_OUT, _NOT_STARTED = 124, 126


@dataclass(frozen=True)
class WaitingCommand:
    """A command that waits for a permit."""

    call_id: str
    command: str
    """As the model gave it."""
    cwd: str

    @property
    def key(self) -> str:
        """The key under which it looks for its permit."""
        return hook.key_of(self.call_id, self.command)


@dataclass(frozen=True)
class CommandPermits:
    """Where permits for a member's commands are put, and how its read-only commands are run."""

    folder: Path
    """The folder of the permits, which its commands can read but not write."""
    commands: CommandRunner

    @property
    def settings(self) -> tuple[str, ...]:
        """The arguments that make Codex call the hook."""
        call = f'{{type="command", command={toml_value(self._command)}, timeout=60}}'
        hooks = f'hooks.PreToolUse=[{{matcher="^Bash$", hooks=[{call}]}}]'
        return "-c", "features.hooks=true", "-c", hooks

    async def trust_hook(self, rpc: JsonRpc, cwd: Path) -> None:
        """Mark this one hook as reviewed, without which Codex skips it.

        A Codex without such hooks works all the same, but its commands do not wait.
        """
        with suppress(RpcError):
            answer = await rpc.request("hooks/list", {"cwds": [str(cwd)]})
            folders = mappings(answer.get("data"))
            listed = [one for folder in folders for one in mappings(folder.get("hooks"))]
            ours = [one for one in listed if one.get("command") == self._command]
            state = {
                exact_text(one.get("key")): {"trusted_hash": exact_text(one.get("currentHash"))}
                for one in ours
            }
            edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
            if state:
                await rpc.request("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})

    async def grant(self, waiting: WaitingCommand, *, read_only: bool) -> None:
        """Give the permit: to run as it is, or to print what our own read-only run gave."""
        if read_only:
            code, output = await self._run_read_only(waiting)
            await anyio.to_thread.run_sync(self._write_output, waiting.key, code, output)
        else:
            path = self.folder / f"{waiting.key}.{hook.WORK}"
            await anyio.to_thread.run_sync(homes.write_private, path, "")

    def clear(self) -> None:
        """Remove all permits.  Blocks."""
        for path in self.folder.iterdir():
            homes.remove_private(path)

    @property
    def _command(self) -> str:
        return shlex.join((sys.executable, "-I", "-S", hook.__file__, str(self.folder)))

    async def _run_read_only(self, waiting: WaitingCommand) -> tuple[int, str]:
        kept, cwd = Excerpt(_MOST, _MOST), Path(waiting.cwd)
        try:
            ran = await self.commands.run(waiting.command, SECONDS, kept, read_only=True, cwd=cwd)
        except ToolError as error:
            return _NOT_STARTED, f"{error}\n"
        note = notes(ran, SECONDS, read_only=True)
        code = _TIMED_OUT if ran.exit_code is None else ran.exit_code
        return code, ran.output + (f"\n[{note}]\n" if note else "")

    def _write_output(self, key: str, code: int, output: str) -> None:
        path, script = self.folder / key, self.folder / f"{key}.{hook.LOOK}"
        homes.write_private(path, output)
        homes.write_private(script, f"cat {shlex.quote(str(path))}\nexit {code}\n")
