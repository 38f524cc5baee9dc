"""Commands in a sandbox, under a keeper, with a time limit: runCommand, and a session's checks."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import anyio
import anyio.to_thread
from pydantic import Field

from coterie.errors import AgentMissing
from coterie.model.check import CheckOutcome
from coterie.model.redaction import Redactor
from coterie.model.team import OUR_PREFIX
from coterie.model.tool_call import Action
from coterie.model.workspace import Workspace
from coterie.ports import ChildLog
from coterie.process.child import Spawn, start_recorded
from coterie.tools import sandbox as sandboxes
from coterie.tools.read_only_sandbox import ReadOnlySandbox
from coterie.tools.toolbox import Excerpt, Tool, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_files import ToolError
from coterie.workspace.beneath import opened_folder, replace_file
from coterie.workspace.git_work import GuardedWork
from coterie.workspace.session_files import CHECKS, artifacts_folder

BASH, SHELL = "/bin/bash", "/bin/sh"
# stdout and stderr as one stream, in the order in which they were written; no input.
_JOINED = 'exec "$@" 2>&1 < /dev/null'
_NON_INTERACTIVE = {
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""Nobody is there to page, edit or answer."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    exit_code: int | None
    """128+n for signal n; None when it was ended at its time limit."""
    output: str
    left: int = 0
    """How many background processes it left behind, which were ended."""
    gone: bool = True
    """Whether all processes that it started are proven to have ended."""
    taken_back: tuple[str, ...] = ()
    """What it left in git directories that git would have obeyed later."""


@dataclass(frozen=True)
class CommandRunner:
    """Runs the commands of one member in its work folder."""

    member: str
    root: Path
    """The work folder, without links."""
    workspace: Workspace
    children: ChildLog
    sandbox: sandboxes.Sandbox
    looking: ReadOnlySandbox | None = None
    """Where what only looks is run, unasked; None where there can be none."""

    @classmethod
    async def of(cls, member: str, workspace: Workspace, children: ChildLog) -> CommandRunner:
        """With the best sandbox that works here."""
        root = await anyio.to_thread.run_sync(workspace.execution_dir.resolve)
        return cls(member, root, workspace, children, await sandboxes.best())

    @property
    def env(self) -> dict[str, str]:
        """The environment of a command: that of its member, without the keys of models."""
        hidden = (OUR_PREFIX, *self.workspace.model_variables)
        seen = {k: value for k, value in self.workspace.env.items() if not k.startswith(hidden)}
        return {**seen, **_NON_INTERACTIVE}

    async def run(
        self,
        command: str,
        seconds: float,
        output: Excerpt | None = None,
        *,
        only_looking: bool = False,
        cwd: Path | None = None,
    ) -> CommandResult:
        """Run it to its end or its time limit; nothing of it is left when this returns.

        `output` collects what it prints, where more is wanted than a model may see; `cwd` is where
        a look begins, if that is not the work folder.  Raises ToolError when it cannot be started.
        """
        looking = (cwd or self.root) if only_looking else None
        words, guard = await anyio.to_thread.run_sync(self._prepared, command, looking)
        folder = str(self.workspace.folder)
        spawn = Spawn(SHELL, words, str(self.root), self.env, self.member, folder)
        if guard is not None:
            spawn = replace(spawn, orphaned=guard.when_orphaned, memory=guard.memory)
        try:
            child = await start_recorded(spawn, "runCommand", self.children)
        except BaseException as error:
            if guard is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(guard.end)
            if isinstance(error, AgentMissing):
                raise ToolError(f"The command cannot be started: {error.problem}.") from None
            raise
        kept, code, gone, taken = output or Excerpt(), None, False, list[str]()
        try:
            with anyio.move_on_after(seconds):
                child.close_stdin()
                while chunk := await child.receive():
                    kept.add(chunk)
                code = await child.exit()
        finally:
            gone = await child.terminate()
            if guard is not None:
                with anyio.CancelScope(shield=True):
                    taken = await anyio.to_thread.run_sync(guard.end)
        left = child.left if code is not None else 0
        return CommandResult(code, kept.text, left, gone, tuple(taken))

    def _prepared(
        self, command: str, looking: Path | None
    ) -> tuple[tuple[str, ...], GuardedWork | None]:
        guard = None
        if looking is None and self.sandbox.confines:
            held = "all" if self.sandbox.kind == "bubblewrap" else "none"
            guard = GuardedWork(self.root, held)
            guard.hold()
        confining = self._working() if looking is None else self._looking(looking)
        if guard is not None:
            guard.begin()
        shell = BASH if Path(BASH).exists() else SHELL
        return ("-c", _JOINED, SHELL, *confining, shell, "-c", "--", command), guard

    def _working(self) -> tuple[str, ...]:
        return self.sandbox.words(sandboxes.sandbox_policy(self.root, self.workspace), self.root)

    def _looking(self, cwd: Path) -> tuple[str, ...]:
        if self.looking is None:
            raise ToolError("There is no sandbox here in which a command can only look.")
        return self.looking.words(cwd)


SECONDS, MOST_SECONDS = 120, 600


class RunCommandInput(ToolInput):
    """Run a shell command in the work folder. Gives its exit code and what it printed. It has no
    input and no terminal, and what it leaves in the background is ended with it."""

    command: Utf8Text = Field(min_length=1, description="What bash is given, in the work folder.")
    timeout_seconds: float = Field(
        SECONDS, gt=0, le=MOST_SECONDS, description="When it has to end at the latest."
    )


@dataclass(frozen=True)
class RunCommand(Tool[RunCommandInput]):
    """Runs shell commands for a member."""

    commands: CommandRunner

    name = "runCommand"
    inputs = RunCommandInput
    read_only = False

    @property
    def description(self) -> str:
        """What the model is told, with what the sandbox allows here."""
        return f"{super().description} {self.commands.sandbox.description}"

    def action(self, asked: RunCommandInput, cwd: str) -> Action:
        sandboxed = self.commands.looking is not None
        return Action("run", self.name, cwd, command=asked.command, read_only_sandbox=sandboxed)

    def only_looking(self) -> LookCommand:
        return LookCommand(self.commands)

    async def run(self, asked: RunCommandInput) -> ToolOutcome:
        return await self._run_command(asked, only_looking=False)

    async def _run_command(self, asked: RunCommandInput, *, only_looking: bool) -> ToolOutcome:
        seconds = asked.timeout_seconds
        ran = await self.commands.run(asked.command, seconds, only_looking=only_looking)
        output: dict[str, object] = {"exitCode": ran.exit_code, "output": ran.output}
        if note := notes(ran, seconds, only_looking=only_looking):
            output["note"] = note
        return ToolOutcome(output, is_error=ran.exit_code != 0)


class LookCommand(RunCommand):
    """Runs shell commands where they can do no more than look, so nobody need be asked."""

    read_only = True

    async def run(self, asked: RunCommandInput) -> ToolOutcome:
        return await self._run_command(asked, only_looking=True)


_ONLY_LOOKED = (
    "It ran unasked, and so where it could only look: at the work folder and the system's programs."
)


def notes(ran: CommandResult, seconds: float, *, only_looking: bool) -> str:
    """What a model should know besides of a command that ran."""
    said: list[str] = []
    if only_looking and ran.exit_code not in (0, 1):
        said.append(_ONLY_LOOKED)
    if ran.exit_code is None:
        said.append(f"It was ended after {seconds:g} s, its time limit, with all that it began.")
    if ran.left:
        were = "1 process was" if ran.left == 1 else f"{ran.left} processes were"
        said.append(f"{were} left running in the background, and ended with it.")
    if ran.taken_back:
        names = ", ".join(ran.taken_back)
        said.append(f"Taken back, as git would obey it later outside the sandbox: {names}.")
    if not ran.gone:
        said.append("Something that it began would not end and may still be running.")
    return " ".join(said)


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
        best = await sandboxes.best()
        return "" if best.confines else best.description

    async def run(self, command: str, folder: Path, children: ChildLog) -> CheckOutcome:
        """Run it to its end or its time limit; its whole tree is gone when this returns."""
        begun = monotonic()
        workspace = await anyio.to_thread.run_sync(self._workspace, folder)
        try:
            commands = await CommandRunner.of(MEMBER, workspace, children)
            ran = await commands.run(command, self.minutes * 60, Excerpt(_HEAD, _TAIL))
        except ToolError as refusal:
            ran = CommandResult(None, str(refusal))
        finally:
            with anyio.CancelScope(shield=True):
                # Some of the temporary files may not be removable.
                await anyio.to_thread.run_sync(shutil.rmtree, workspace.tmp, True)
        duration = round((monotonic() - begun) * 1000)
        return await anyio.to_thread.run_sync(self._kept, command, ran, duration)

    def _workspace(self, folder: Path) -> Workspace:
        """A home for all checks of the session, and a temporary folder for each."""
        place = artifacts_folder(self.root, self.session).parent / CHECKS
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
        place = (self.root / ".coterie", "sessions", self.session, "artifacts")
        slug = re.sub(r"[^a-z0-9]+", "-", self.redactor.text(command).lower()).strip("-")[:40]
        with _NUMBERING, opened_folder(*place, make=True) as folder:
            names = map(_NUMBER.match, os.listdir(folder))  # noqa: PTH208 - a handle is no path
            last = max((int(found[1]) for found in names if found), default=0)
            name = f"{last + 1}-{slug or 'check'}.log"
            replace_file(folder, name, data)
        return name
