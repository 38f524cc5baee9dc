"""runCommand: a shell command in the work folder, held, bounded and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from coterie.model.action import Action
from coterie.tools.commands import Commands, Ran
from coterie.tools.inputs import Inputs, Text
from coterie.tools.toolbox import Outcome

SECONDS, MOST_SECONDS = 120, 600


class RunCommandInput(Inputs):
    """What to run, and for how long."""

    command: Text = Field(min_length=1, description="What bash is given, in the work folder.")
    timeout_seconds: float = Field(
        SECONDS, gt=0, le=MOST_SECONDS, description="When it has to end at the latest."
    )


@dataclass(frozen=True)
class RunCommand:
    """Runs shell commands for a member."""

    commands: Commands

    name = "runCommand"
    inputs = RunCommandInput
    read_only = False

    @property
    def description(self) -> str:
        """What the model is told, with what holds a command here."""
        return (
            "Run a shell command in the work folder. Gives its exit code and what it printed. It "
            "has no input and no terminal, and what it leaves in the background is ended with "
            f"it. {self.commands.sandbox.description}"
        )

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Runs one command line."""
        return Action("run", self.name, cwd, command=str(given["command"]))

    async def run(self, given: Mapping[str, object]) -> Outcome:
        """What it printed, and how it ended."""
        asked = RunCommandInput.model_validate(given)
        ran = await self.commands.run(asked.command, asked.timeout_seconds)
        output: dict[str, object] = {"exitCode": ran.exit_code, "output": ran.output}
        if notes := _notes(ran, asked.timeout_seconds):
            output["note"] = notes
        return Outcome(output, is_error=ran.exit_code != 0)


def _notes(ran: Ran, seconds: float) -> str:
    notes: list[str] = []
    if ran.exit_code is None:
        notes.append(f"It was ended after {seconds:g} s, its time limit, with all that it began.")
    if ran.left:
        were = "1 process was" if ran.left == 1 else f"{ran.left} processes were"
        notes.append(f"{were} left running in the background, and ended with it.")
    if not ran.gone:
        notes.append("Something that it began would not end and may still be running.")
    return " ".join(notes)
