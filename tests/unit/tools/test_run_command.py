"""Commands: how their end is reported, and what remains if one cannot be started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coterie.tools.run_command import CommandResult, CommandRunner, check_output, notes
from coterie.tools.sandbox import Sandbox
from tests.unit.tools.member_project import Log, MemberProject, member_project


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (CommandResult(0, ""), ""),
        (CommandResult(2, ""), ""),
        (CommandResult(None, ""), "It was stopped at its time limit of 60 s."),
        (
            CommandResult(0, "", left_running=1),
            "It left 1 background process running, now stopped.",
        ),
        (
            CommandResult(0, "", left_running=2),
            "It left 2 background processes running, now stopped.",
        ),
        (
            CommandResult(0, "", reverted=(".git/config", "x/.git")),
            "Reverted, because git would act on it later outside the sandbox: .git/config, x/.git.",
        ),
        (
            CommandResult(0, "", not_reverted=("x/.git",)),
            "Could not be checked or reverted, so do not run git there: x/.git.",
        ),
        (
            CommandResult(0, "", all_ended=False),
            "A process that it started could not be stopped and may still be running.",
        ),
    ],
)
def test_a_model_receives_how_its_command_ended(ran: CommandResult, said: str) -> None:
    assert notes(ran, 60, read_only=False) == said


def test_a_check_says_what_could_not_be_stopped_and_what_was_reverted() -> None:
    assert check_output(CommandResult(0, "ok\n"), 0.5) == "ok\n"
    ran = CommandResult(None, "ok\n", all_ended=False, reverted=(".git/config",))
    assert check_output(ran, 0.5) == (
        "ok\n"
        "\n[It was stopped at its time limit of 0.5 min.]\n"
        "\n[Reverted, because git would act on it later outside the sandbox: .git/config.]\n"
        "\n[A process that it started could not be stopped and may still be running.]\n"
    )


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    return member_project(tmp_path, git=True)


async def test_nothing_of_the_guard_stays_if_the_sandbox_cannot_be_set_up(
    shop: MemberProject,
) -> None:
    broken = replace(shop.workspace, tmp=Path("a\0b"))
    runner = CommandRunner("ann", shop.root.path, broken, Log(), Sandbox("bubblewrap"))
    before = sorted((shop.project / ".git").iterdir())
    with pytest.raises(ValueError, match="null"):
        await runner.run("true", 60)
    assert sorted((shop.project / ".git").iterdir()) == before
