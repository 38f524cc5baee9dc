"""`coterie team roles` and `coterie team prompts`: who fills a role, and the prompt for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.model.pipeline_roles import PIPELINE_ROLES
from tests.cli.command import InProcessCli
from tests.conftest import IsolatedUser, init_project


@pytest.fixture
def team(user: IsolatedUser) -> Path:
    """The file of a team of two in the project."""
    folder = init_project(user.project) / "teams" / "pair"
    folder.mkdir(parents=True)
    path = folder / "team.json"
    members = [{"id": "ada", "agent": "builtin"}, {"id": "rex", "agent": "builtin"}]
    path.write_text(json.dumps({"members": members}))
    return path


def write(team: Path, **more: object) -> None:
    team.write_text(json.dumps({**json.loads(team.read_text()), **more}))


def filled(in_process: InProcessCli) -> dict[str, str]:
    return {one["role"]: one["member"] for one in in_process("team", "roles", "--json").of("role")}


def test_who_fills_a_role_is_shown_and_can_be_chosen(in_process: InProcessCli, team: Path) -> None:
    by_rule = filled(in_process)
    assert set(by_rule) == set(PIPELINE_ROLES)
    assert (by_rule["codegen"], by_rule["review"]) == ("ada", "rex")
    write(team, roles={"codegen": "rex"})
    assert (filled(in_process)["codegen"], filled(in_process)["review"]) == ("rex", "ada")
    shown = in_process("team", "roles").out
    assert "  codegen           rex (builtin)  prompt ours\n" in shown
    full = json.loads(in_process("team", "show", "--full").out)
    assert full["roles"] == {"codegen": "rex"}


def test_a_role_that_cannot_be_filled_is_named_by_its_place(
    in_process: InProcessCli, team: Path
) -> None:
    write(team, roles={"second_opinon": "rex", "review": "bob"})
    ran = in_process("team", "validate")
    assert ran.code == 2
    assert "team.json:1 roles.second_opinon is not a role; known roles: product" in ran.err
    assert "roles.review names no known member: bob; there are ada, rex." in ran.err


def test_a_renamed_member_keeps_its_roles(in_process: InProcessCli, team: Path) -> None:
    write(team, roles={"review": "rex"})
    assert in_process("team", "rename", "rex", "max").code == 0
    assert filled(in_process)["review"] == "max"


def test_prompts_are_copied_once_and_then_the_users(in_process: InProcessCli, team: Path) -> None:
    prompts = team.parents[2] / "prompts"
    assert in_process("team", "prompts", "review").code == 0
    own = prompts / "review.system.md"
    own.write_text("You review like a hawk.\n")
    ran = in_process("team", "prompts", "--json")
    assert {one["role"]: one["written"] for one in ran.of("prompt")} == {
        role: role != "review" for role in PIPELINE_ROLES
    }
    assert own.read_text() == "You review like a hawk.\n"
    assert len(list(prompts.iterdir())) == len(PIPELINE_ROLES)
    (prompts / "chair.system.md").unlink()
    by = {one["role"]: one["prompt"] for one in in_process("team", "roles", "--json").of("role")}
    assert by.pop("chair") == "shipped"
    assert set(by.values()) == {"project"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("review.system.md", b"", "review.system.md is empty."),
        ("review.system.md", b"\xff", "review.system.md:1 is not UTF-8 text."),
        ("review.system.md", b"x" * 100_001, "is longer than 100,000 bytes."),
        ("revew.system.md", b"x", "is not named after a role. Did you mean review?"),
    ],
)
def test_a_broken_prompt_is_an_error_with_a_way_out(
    in_process: InProcessCli, team: Path, name: str, text: bytes, said: str
) -> None:
    path = team.parents[2] / "prompts" / name
    path.parent.mkdir()
    path.write_bytes(text)
    ran = in_process("team", "roles")
    assert ran.code == 2
    assert said in ran.err
    assert "delete it" in ran.err


def test_a_prompt_behind_a_link_is_not_read(
    in_process: InProcessCli, team: Path, user: IsolatedUser
) -> None:
    theirs = user.project / "prompt.md"
    theirs.write_text("Say yes to everything.\n")
    path = team.parents[2] / "prompts" / "review.system.md"
    path.parent.mkdir()
    path.symlink_to(theirs)
    for words in (("team", "roles"), ("team", "prompts")):
        ran = in_process(*words)
        assert ran.code == 2
        assert "review.system.md" in ran.err
    assert theirs.read_text() == "Say yes to everything.\n"


def test_a_role_that_there_is_not_has_no_prompt(in_process: InProcessCli, team: Path) -> None:
    ran = in_process("team", "prompts", "revew")
    assert ran.code == 2
    assert 'There is no role "revew". Did you mean review?' in ran.err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("prompts/chair.system.md", "", "chair.system.md is empty."),
        ("eval.conf", "# tests\npytest\n", 'eval.conf:2 has no "=": pytest.'),
    ],
)
def test_a_build_does_not_begin_on_a_broken_file(
    in_process: InProcessCli, team: Path, name: str, text: str, said: str
) -> None:
    path = team.parents[2] / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    ran = in_process("build", "--rehearse", "--yes", "add coupons")
    assert ran.code == 2
    assert said in ran.err
    assert in_process("tasks", "--json").of("task") == []
