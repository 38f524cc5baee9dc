"""Commands in a sandbox, under a keeper, with a time limit: runCommand, and a session's checks."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
from coterie.workspace.beneath import open_folder, remove_tree, replace_file
from coterie.workspace.durable_git_guard import DurableGitGuard
from coterie.workspace.git_guard import GitRestored
from coterie.workspace.session_files import CHECKS, SessionScoped, artifacts_folder

BASH, SHELL = "/bin/bash", "/bin/sh"
# stdout and stderr as one stream, in the order they were written; no input.
_JOINED = 'exec "$@" 2>&1 < /dev/null'
_NON_INTERACTIVE = {
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""There is nobody to page, edit or answer."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    exit_code: int | None
    """128+n for signal n; None if it was stopped at its time limit."""
    output: str
    left_running: int = 0
    """How many background processes it left behind; they were stopped."""
    all_ended: bool = True
    """Whether all processes that it started are proven to have ended."""
    reverted: tuple[str, ...] = ()
    """Changes it left in git directories, reverted because git would have acted on them later."""
    not_reverted: tuple[str, ...] = ()
    """Where such changes may remain, because it could not be read or edited."""

    def remarks(self, limit: str) -> Iterator[str]:
        """Yield what else to know about how it ended; `limit` is its time limit."""
        if self.exit_code is None:
            yield f"It was stopped at its time limit of {limit}."
        if self.reverted:
            names = ", ".join(self.reverted)
            yield f"Reverted, because git would act on it later outside the sandbox: {names}."
        if self.not_reverted:
            names = ", ".join(self.not_reverted)
            yield f"Could not be checked or reverted, so do not run git there: {names}."
        if not self.all_ended:
            yield "A process that it started could not be stopped and may still be running."


@dataclass(frozen=True)
class CommandRunner:
    """Runs the commands of one member in its work folder."""

    member: str
    root: Path
    """The work folder, with links resolved."""
    workspace: Workspace
    children: ChildLog
    sandbox: sandboxes.Sandbox
    read_only_sandbox: ReadOnlySandbox | None = None
    """The sandbox in which read-only commands run unasked; None if there can be none."""

    @classmethod
    async def of(cls, member: str, workspace: Workspace, children: ChildLog) -> CommandRunner:
        """Create a runner with the best sandbox that works here."""
        root = await anyio.to_thread.run_sync(workspace.execution_dir.resolve)
        return cls(member, root, workspace, children, await sandboxes.best())

    @property
    def env(self) -> dict[str, str]:
        """A command's environment: its member's, without Coterie's variables and model keys."""
        hidden = (OUR_PREFIX, *self.workspace.model_variables)
        seen = {k: value for k, value in self.workspace.env.items() if not k.startswith(hidden)}
        return {**seen, **_NON_INTERACTIVE}

    async def run(
        self,
        command: str,
        seconds: float,
        output: Excerpt | None = None,
        *,
        read_only: bool = False,
        cwd: Path | None = None,
    ) -> CommandResult:
        """Run a command to its end or its time limit, then end whatever it left running.

        `output` collects what it prints, if more is wanted than a model may see; `cwd` is where a
        read-only command starts, if not in the work folder.  Raises ToolError if the command
        cannot be started.
        """
        read_only_cwd = (cwd or self.root) if read_only else None
        words, guard = await anyio.to_thread.run_sync(self._prepared, command, read_only_cwd)
        folder = str(self.workspace.folder)
        spawn = Spawn(SHELL, words, str(self.root), self.env, self.member, folder)
        if guard is not None:
            spawn = replace(spawn, orphaned=guard.recovery_command, memory=guard.record_fd)
        try:
            child = await start_recorded(spawn, "runCommand", self.children)
        except BaseException as error:
            if guard is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(guard.end)
            if isinstance(error, AgentMissing):
                raise ToolError(f"The command cannot be started: {error.problem}.") from None
            raise
        excerpt, code, ended, restored = output or Excerpt(), None, False, GitRestored()
        try:
            with anyio.move_on_after(seconds):
                child.close_stdin()
                while chunk := await child.receive():
                    excerpt.add(chunk)
                code = await child.exit()
        finally:
            ended = await child.terminate()
            if guard is not None:
                with anyio.CancelScope(shield=True):
                    restored = await anyio.to_thread.run_sync(guard.end)
        left_running = child.left if code is not None else 0
        outcome = restored.undone, restored.failed
        return CommandResult(code, excerpt.text, left_running, ended, *outcome)

    def _prepared(
        self, command: str, read_only_cwd: Path | None
    ) -> tuple[tuple[str, ...], DurableGitGuard | None]:
        guard = None
        if read_only_cwd is not None:
            confining = self._confining_to_reads(read_only_cwd)
        elif self.sandbox.confines:
            guard = DurableGitGuard(
                self.root, "all" if self.sandbox.kind == "bubblewrap" else "none"
            )
            confining = self._confining_under(guard)
        else:
            confining = ()
        shell = BASH if Path(BASH).exists() else SHELL
        return ("-c", _JOINED, SHELL, *confining, shell, "-c", "--", command), guard

    def _confining_under(self, guard: DurableGitGuard) -> tuple[str, ...]:
        try:
            guard.create_placeholders()
            policy = sandboxes.sandbox_policy(self.root, self.workspace)
            words = self.sandbox.words(policy, self.root)
            guard.begin()
        except BaseException:
            guard.end()
            raise
        return words

    def _confining_to_reads(self, cwd: Path) -> tuple[str, ...]:
        if self.read_only_sandbox is None:
            raise ToolError("No read-only sandbox is available here.")
        return self.read_only_sandbox.words(cwd)


SECONDS, MAX_SECONDS = 120, 600


class RunCommandInput(ToolInput):
    """Run a shell command in the work folder. Returns its exit code and its output. It has no input
    and no terminal; processes that it leaves in the background are stopped when it ends."""

    command: Utf8Text = Field(
        min_length=1, description="The command line for bash, run in the work folder."
    )
    timeout_seconds: float = Field(
        SECONDS, gt=0, le=MAX_SECONDS, description="The time limit in seconds."
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
        """The description for the model, including what the sandbox allows here."""
        return f"{super().description} {self.commands.sandbox.description}"

    def action(self, arguments: RunCommandInput, cwd: str) -> Action:
        sandboxed = self.commands.read_only_sandbox is not None
        return Action("run", self.name, cwd, command=arguments.command, read_only_sandbox=sandboxed)

    def read_only_variant(self) -> ReadOnlyCommand:
        return ReadOnlyCommand(self.commands)

    async def run(self, arguments: RunCommandInput) -> ToolOutcome:
        seconds, read_only = arguments.timeout_seconds, self.read_only
        ran = await self.commands.run(arguments.command, seconds, read_only=read_only)
        output: dict[str, object] = {"exitCode": ran.exit_code, "output": ran.output}
        if note := notes(ran, seconds, read_only=read_only):
            output["note"] = note
        return ToolOutcome(output, is_error=ran.exit_code != 0)


class ReadOnlyCommand(RunCommand):
    """Runs shell commands in the read-only sandbox, so nobody needs to be asked."""

    read_only = True


_RAN_READ_ONLY = (
    "It ran without approval, so it could only read the work folder and the system's programs."
)


def notes(ran: CommandResult, seconds: float, *, read_only: bool) -> str:
    """Return what else a model should know about a command that ran."""
    remarks = list(ran.remarks(f"{seconds:g} s"))
    if ran.left_running:
        count = ran.left_running
        processes = "1 background process" if count == 1 else f"{count} background processes"
        remarks.append(f"It left {processes} running, now stopped.")
    if read_only and ran.exit_code not in (0, 1):
        remarks.append(_RAN_READ_ONLY)
    return " ".join(remarks)


def check_output(ran: CommandResult, minutes: float) -> str:
    """Return what a check printed, followed by remarks on how it ended."""
    return ran.output + "".join(f"\n[{each}]\n" for each in ran.remarks(f"{minutes:g} min"))


MEMBER = "coterie"
"""The member that a check's process is recorded under: it belongs to nobody in the team."""
_HEAD, _TAIL = 1 << 20, 4 << 20
"""How many bytes of a check's output are kept: from its beginning and from its end."""
_SHOWN = 4_000
_NUMBER = re.compile(r"(\d+)-")
_NUMBERING = threading.Lock()
"""Several checks of a session may end at once."""


@dataclass(frozen=True)
class SandboxedChecks(SessionScoped):
    """`ports.Checks` of one session."""

    env: Mapping[str, str]
    """The environment variables that a command may see: no keys."""
    minutes: float
    redactor: Redactor
    user_home: Path | None = None

    async def unconfined_warning(self) -> str:
        """Return a warning for the person who approves a command, if nothing confines it."""
        best = await sandboxes.best()
        return "" if best.confines else best.description

    async def run(self, command: str, folder: Path, children: ChildLog) -> CheckOutcome:
        """Run a check to its end or its time limit, then end its whole process tree.

        The output says so if some of its processes could not be stopped.
        """
        begun = monotonic()
        workspace = await anyio.to_thread.run_sync(self._workspace, folder)
        try:
            commands = await CommandRunner.of(MEMBER, workspace, children)
            ran = await commands.run(command, self.minutes * 60, Excerpt(_HEAD, _TAIL))
            exit_code, output = ran.exit_code, check_output(ran, self.minutes)
        except ToolError as refusal:
            exit_code, output = None, f"{refusal}\n"
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(OSError):  # some of the temporary files may not be removable
                    await anyio.to_thread.run_sync(remove_tree, workspace.tmp)
        duration = round((monotonic() - begun) * 1000)
        return await anyio.to_thread.run_sync(self._kept, command, exit_code, output, duration)

    def _workspace(self, folder: Path) -> Workspace:
        """Create a home for all checks of the session, and a temporary folder for this one."""
        place = artifacts_folder(self.root, self.session).parent / CHECKS
        home = place / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        tmp = Path(tempfile.mkdtemp(prefix="tmp-", dir=place))
        env = {**self.env, "HOME": str(home), "TMPDIR": str(tmp)}
        return Workspace(place, home, tmp, folder, env, user_home=self.user_home)

    def _kept(
        self, command: str, exit_code: int | None, output: str, duration: int
    ) -> CheckOutcome:
        output = self.redactor.text(output)
        data = output.encode()
        name = self._log(command, data)
        return CheckOutcome(
            command=command,
            exit_code=exit_code,
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
        with _NUMBERING, open_folder(*place, make=True) as folder:
            names = map(_NUMBER.match, os.listdir(folder))  # noqa: PTH208 - a handle is no path
            last = max((int(match[1]) for match in names if match), default=0)
            name = f"{last + 1}-{slug or 'check'}.log"
            replace_file(folder, name, data)
        return name
