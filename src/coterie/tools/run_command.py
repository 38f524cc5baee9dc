"""runCommand: a shell command in a member's sandbox, under a keeper, with a time limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic import Field

from coterie.errors import AgentMissing
from coterie.model.tool_call import Action
from coterie.model.workspace import Workspace
from coterie.ports import ChildLog
from coterie.process.child import Child, Spawn, start
from coterie.tools import sandbox as sandboxes
from coterie.tools.excerpt import Excerpt
from coterie.tools.sandbox import Sandbox, sandbox_policy
from coterie.tools.toolbox import Tool, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_root import ToolError

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
_MODEL_VARIABLES = re.compile(
    r"(?:ANTHROPIC|AZURE_OPENAI|CLAUDE|CODEX|COHERE|COTERIE|DASHSCOPE|DEEPSEEK|GEMINI|GOOGLE_API"
    r"|GOOGLE_GENAI|GROQ|MISTRAL|OPENAI|OPENROUTER|REHEARSAL|TOGETHER|XAI)_"
)
"""Prefixes of the variables that hold credentials and addresses of models."""


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


@dataclass(frozen=True)
class CommandRunner:
    """Runs the commands of one member in its work folder."""

    member: str
    root: Path
    """The work folder, without links."""
    workspace: Workspace
    children: ChildLog
    sandbox: Sandbox

    @classmethod
    async def of(cls, member: str, workspace: Workspace, children: ChildLog) -> CommandRunner:
        """With the best sandbox that works here."""
        root = await anyio.to_thread.run_sync(workspace.execution_dir.resolve)
        return cls(member, root, workspace, children, await sandboxes.best())

    @property
    def env(self) -> dict[str, str]:
        """The environment of a command: that of its member, without the keys of models."""
        given: Mapping[str, str] = self.workspace.env
        kept = {name: value for name, value in given.items() if not _MODEL_VARIABLES.match(name)}
        return {**kept, **_NON_INTERACTIVE}

    async def run(
        self, command: str, seconds: float, output: Excerpt | None = None
    ) -> CommandResult:
        """Run it to its end or its time limit; nothing of it is left when this returns.

        `output` collects what it prints, where more is wanted than a model may see.  The process is
        recorded before it starts, so that whoever takes over after a crash finds it.  Raises
        ToolError when it cannot be started.
        """
        words = await anyio.to_thread.run_sync(self._words, command)
        mark = await self.children.starting(self.member, "runCommand")
        try:
            child = await start(self._spawn(words, mark))
        except AgentMissing as missing:
            self.children.ended(mark)
            raise ToolError(f"The command cannot be started: {missing.problem}.") from None
        self.children.started(mark, child.pid)
        kept, code, gone = output or Excerpt(), None, False
        try:
            with anyio.move_on_after(seconds):
                code = await _watched(child, kept)
        finally:
            gone = await child.terminate()
            if gone:
                self.children.ended(mark)
        return CommandResult(code, kept.text, child.left if code is not None else 0, gone)

    def _words(self, command: str) -> tuple[str, ...]:
        held = self.sandbox.words(sandbox_policy(self.root, self.workspace), self.root)
        shell = BASH if Path(BASH).exists() else SHELL
        return ("-c", _JOINED, SHELL, *held, shell, "-c", "--", command)

    def _spawn(self, words: tuple[str, ...], mark: str) -> Spawn:
        return Spawn(
            command=SHELL,
            args=words,
            cwd=str(self.root),
            env=self.env,
            member=self.member,
            folder=str(self.workspace.folder),
            mark=mark,
        )


async def _watched(child: Child, output: Excerpt) -> int:
    child.close_stdin()
    while chunk := await child.receive():
        output.add(chunk)
    return await child.exit()


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

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Runs one command line."""
        return Action("run", self.name, cwd, command=str(given["command"]))

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """What it printed, and how it ended."""
        asked = RunCommandInput.model_validate(given)
        ran = await self.commands.run(asked.command, asked.timeout_seconds)
        output: dict[str, object] = {"exitCode": ran.exit_code, "output": ran.output}
        if notes := _notes(ran, asked.timeout_seconds):
            output["note"] = notes
        return ToolOutcome(output, is_error=ran.exit_code != 0)


def _notes(ran: CommandResult, seconds: float) -> str:
    notes: list[str] = []
    if ran.exit_code is None:
        notes.append(f"It was ended after {seconds:g} s, its time limit, with all that it began.")
    if ran.left:
        were = "1 process was" if ran.left == 1 else f"{ran.left} processes were"
        notes.append(f"{were} left running in the background, and ended with it.")
    if not ran.gone:
        notes.append("Something that it began would not end and may still be running.")
    return " ".join(notes)
