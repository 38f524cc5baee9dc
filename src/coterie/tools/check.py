"""Checks: commands that Coterie runs itself, in the sandbox, with their output kept."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import anyio.to_thread

from coterie.model.check import CheckOutcome
from coterie.model.redaction import Redactor
from coterie.model.workspace import Workspace
from coterie.ports import ChildLog
from coterie.tools import sandbox
from coterie.tools.excerpt import Excerpt
from coterie.tools.run_command import CommandResult, CommandRunner
from coterie.tools.workspace_root import ToolError
from coterie.workspace.session_files import artifacts_folder

MEMBER = "coterie"
"""The member that a check's process is recorded under: it belongs to nobody of the team."""
_HEAD, _TAIL = 1 << 20, 4 << 20
"""How much of a check's output is kept: the beginning, and the end."""
_SHOWN = 4_000
_NUMBER = re.compile(r"(\d+)-")
_NUMBERING = threading.Lock()
"""Several checks of a session may end at once."""


@dataclass(frozen=True)
class SandboxedChecks:
    """`ports.Checks` of one session."""

    root: Path
    session: str
    env: Mapping[str, str]
    """What a command may see of the environment: no keys."""
    minutes: float
    redactor: Redactor
    user_home: Path | None = None

    async def loose(self) -> str:
        """A warning for the person who allows a command, if nothing confines it."""
        best = await sandbox.best()
        return "" if best.confines else best.description

    async def run(self, command: str, folder: Path, children: ChildLog) -> CheckOutcome:
        """Run it to its end or its time limit; its whole tree is gone when this returns."""
        begun = monotonic()
        workspace = await anyio.to_thread.run_sync(self._workspace, folder)
        try:
            ran = await self._ran(command, workspace, children)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, workspace.tmp)
        duration = round((monotonic() - begun) * 1000)
        return await anyio.to_thread.run_sync(self._kept, command, ran, duration)

    async def _ran(self, command: str, workspace: Workspace, children: ChildLog) -> CommandResult:
        commands = await CommandRunner.of(MEMBER, workspace, children)
        try:
            return await commands.run(command, self.minutes * 60, Excerpt(_HEAD, _TAIL))
        except ToolError as refusal:
            return CommandResult(None, str(refusal))

    def _workspace(self, folder: Path) -> Workspace:
        """A home for all checks of the session, and a temporary folder for each."""
        place = artifacts_folder(self.root, self.session).parent / "checks"
        home = place / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        tmp = Path(tempfile.mkdtemp(prefix="tmp-", dir=place))
        env = {**self.env, "HOME": str(home), "TMPDIR": str(tmp)}
        return Workspace(place, home, tmp, folder, env, user_home=self.user_home)

    def _kept(self, command: str, ran: CommandResult, duration: int) -> CheckOutcome:
        output = self.redactor.text(ran.output)
        if ran.exit_code is None:
            output += f"\n[ended by Coterie, its limit is {self.minutes:g} min]\n"
        data = output.encode()
        name = self._log(command, data)
        return CheckOutcome(
            command=command,
            exit_code=ran.exit_code,
            output=output[-_SHOWN:],
            duration_ms=duration,
            log=name,
            digest=f"sha256:{hashlib.sha256(data).hexdigest()}",
            size_bytes=len(data),
        )

    def _log(self, command: str, data: bytes) -> str:
        """Write the output to a numbered file of its own, atomically."""
        folder = artifacts_folder(self.root, self.session)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        slug = re.sub(r"[^a-z0-9]+", "-", self.redactor.text(command).lower()).strip("-")[:40]
        fresh = folder / f".{os.urandom(4).hex()}.new"
        fresh.write_bytes(data)
        with _NUMBERING:
            names = (_NUMBER.match(one.name) for one in folder.iterdir())
            last = max((int(found[1]) for found in names if found), default=0)
            name = f"{last + 1}-{slug or 'check'}.log"
            fresh.replace(folder / name)
        return name


def _remove(folder: Path) -> None:
    """Remove temporary files; some of them may not be removable."""
    shutil.rmtree(folder, ignore_errors=True)
