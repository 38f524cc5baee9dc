"""A member's folder and what its process sees."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie.errors import StorageReadOnly, UsageError
from coterie.model.agent import InstructionFile
from coterie.model.team import Member, Team, member_folder
from coterie.model.workspace import OURS, UNWRITTEN, Workspace
from coterie.workspace.beneath import remove_tree, walk
from coterie.workspace.folder import (
    environment,
    make_folder,
    open_workspace,
    write_instructions,
)
from coterie.workspace.folder_move import move_folder
from tests.conftest import IsolatedUser

ANN = Member(id="ann", name="ann", display_name="Ann", agent="x")


def member(**more: object) -> Member:
    return ANN.model_copy(update=more)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_tasks_that_begin_at_once_make_it_together(user: IsolatedUser) -> None:
    begin = threading.Barrier(8)

    def make(team: str) -> Workspace:
        begin.wait()
        return make_folder(user.project, team, ANN)

    with ThreadPoolExecutor(8) as tasks:
        for number in range(40):
            made = list(tasks.map(make, [f"t{number}"] * 8))
            assert made == made[:1] * 8


def test_a_folder_is_moved_to_another_file_system_however_deep_it_is(
    tmp_path: Path, nest: Callable[..., None]
) -> None:
    memory = Path("/dev/shm")  # where possible another file system
    new = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    old = tmp_path / "ann"
    (old / "home").mkdir(parents=True)
    (old / "home" / "memory").write_text("kept")
    (old / "home" / "link").symlink_to("memory")
    os.mkfifo(old / "home" / "pipe")
    (old / "home" / "memory").chmod(0o600)
    nest(old / "home" / "deep")
    (old / "home").chmod(0o500)
    try:
        move_folder(old, new, tmp_path)
        assert not old.exists()
        assert (new / "home" / "link").readlink() == Path("memory")
        assert (new / "home" / "memory").read_text() == "kept"
        assert (mode(new / "home"), mode(new / "home" / "memory")) == (0o500, 0o600)
        assert sum(name.endswith("last.txt") for name, _ in walk(new / "home" / "deep")) == 1
        assert [entry.name for entry in new.iterdir()] == ["home"]
    finally:
        remove_tree(new)


def test_a_folder_is_made_and_kept(user: IsolatedUser) -> None:
    folder = user.project / ".coterie" / "teams" / "pair" / "ann"
    made = make_folder(user.project, "pair", ANN)
    assert made == Workspace(
        folder=folder, home=folder / "home", tmp=folder / "tmp", execution_dir=folder / "work"
    )
    assert (mode(folder), mode(made.home), mode(made.tmp)) == (0o700, 0o700, 0o700)
    assert made.execution_dir.resolve() == user.project
    (made.home / "memory").write_text("kept")
    assert make_folder(user.project, "pair", ANN) == made
    assert (made.home / "memory").read_text() == "kept"


def test_a_project_may_be_moved(user: IsolatedUser) -> None:
    make_folder(user.project, "pair", ANN)
    moved = user.project.rename(user.project.with_name("moved"))
    made = make_folder(moved, "pair", ANN)
    assert made.execution_dir.resolve() == moved


def test_what_a_person_linked_is_kept(user: IsolatedUser, tmp_path: Path) -> None:
    made = make_folder(user.project, "pair", ANN)
    material = tmp_path / "material"
    material.mkdir()
    made.execution_dir.unlink()
    made.execution_dir.symlink_to(material)
    assert make_folder(user.project, "pair", ANN).execution_dir.resolve() == material
    made.execution_dir.unlink()
    made.execution_dir.mkdir()  # a worktree
    assert not make_folder(user.project, "pair", ANN).execution_dir.is_symlink()


def test_material_that_is_gone(user: IsolatedUser, tmp_path: Path) -> None:
    made = make_folder(user.project, "pair", ANN)
    made.execution_dir.unlink()
    made.execution_dir.symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError) as caught:
        make_folder(user.project, "pair", ANN)
    assert str(caught.value) == (
        f"ann works in {made.execution_dir}, which links to {tmp_path}/gone: "
        "there is no such folder."
    )


def test_the_folders_that_a_team_file_names(user: IsolatedUser, tmp_path: Path) -> None:
    lib = user.project / "lib"
    lib.mkdir()
    ann = member(
        working_dir=str(tmp_path / "far" / "ann"),
        home_dir=str(tmp_path / "homes" / "ann"),
        execution_dir=str(lib),
    )
    made = make_folder(user.project, "pair", ann)
    assert made == Workspace(
        folder=tmp_path / "far" / "ann",
        home=tmp_path / "homes" / "ann",
        tmp=tmp_path / "far" / "ann" / "tmp",
        execution_dir=lib,
    )
    assert (made.folder / "work").readlink() == lib
    other = member(working_dir=str(made.folder), execution_dir=str(user.project))
    assert make_folder(user.project, "pair", other).execution_dir == user.project
    assert (made.folder / "work").readlink() == user.project


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("earlier_release", [False, True])
@pytest.mark.parametrize("place", [None, "far"])
def test_after_work_on_a_ticket_a_member_works_in_the_project_again(
    user: IsolatedUser, tmp_path: Path, place: str | None, earlier_release: bool, is_removed: bool
) -> None:
    ann = member(working_dir=place and str(tmp_path / place))
    work = make_folder(user.project, "pair", ann).execution_dir
    before = work.readlink()
    ticket = user.project / ".coterie" / "worktrees" / "k3f9" / "T1"
    ticket.mkdir(parents=True)
    at_work = ann.model_copy(update={"execution_dir": str(ticket)})
    assert make_folder(user.project, "pair", at_work).execution_dir == ticket
    if earlier_release:
        work.unlink()
        work.symlink_to(ticket)
    if is_removed:
        ticket.rmdir()
    assert make_folder(user.project, "pair", ann).execution_dir.resolve() == user.project
    assert work.readlink() == before


def test_the_default_may_be_spelled_out(user: IsolatedUser) -> None:
    folder = user.project / ".coterie" / "teams" / "pair" / "ann"
    made = make_folder(user.project, "pair", member(execution_dir=str(folder / "work")))
    assert made.execution_dir == folder / "work"
    assert made.execution_dir.resolve() == user.project


def test_a_member_folder_elsewhere_links_to_the_project(user: IsolatedUser, tmp_path: Path) -> None:
    made = make_folder(user.project, "pair", member(working_dir=str(tmp_path / "ann")))
    assert made.execution_dir.readlink() == user.project


def test_work_that_does_not_exist(user: IsolatedUser) -> None:
    with pytest.raises(UsageError, match=r"^ann works in /nowhere: there is no such folder\.$"):
        make_folder(user.project, "pair", member(execution_dir="/nowhere"))


@pytest.mark.parametrize(
    "place", ["teams", "teams/pair", "teams/pair/ann", "teams/pair/ann/home", "teams/pair/ann/tmp"]
)
@pytest.mark.parametrize("kind", ["link", "file"])
def test_nothing_is_made_through_a_link(
    user: IsolatedUser, tmp_path: Path, place: str, kind: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    path = user.project / ".coterie" / place
    path.parent.mkdir(parents=True, mode=0o700)
    if kind == "link":
        path.symlink_to(target)
    else:
        path.touch()
    with pytest.raises(UsageError) as caught:
        make_folder(user.project, "pair", ANN)
    assert str(caught.value) == f"{path} is not a folder."
    assert list(target.iterdir()) == []


def test_a_home_that_others_could_read_is_closed(user: IsolatedUser) -> None:
    made = make_folder(user.project, "pair", ANN)
    made.home.chmod(0o755)
    make_folder(user.project, "pair", ANN)
    assert mode(made.home) == 0o700


@pytest.mark.parametrize(
    ("team", "name"), [("..", "ann"), ("pair", "../ann"), ("a/b", "ann"), ("pair", "")]
)
def test_names_that_are_no_folders(user: IsolatedUser, team: str, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid folder name"):
        member_folder(user.project, team, member(id=name))


def test_a_project_that_cannot_be_written() -> None:
    with pytest.raises(StorageReadOnly) as caught:
        make_folder(Path("/sys/kernel"), "pair", ANN)
    assert caught.value.path == "/sys/kernel/.coterie/teams/pair/ann"
    assert caught.value.hint is not None


# -- environment -------------------------------------------------------------------------------


def test_the_whole_environment(user: IsolatedUser) -> None:
    ann = member(env={"API_KEY": "mine", "PATH": "/mine", "LANG": "de"})
    passed = {
        "PATH": "/bin",
        "TERM": "xterm",
        "LANG": "C",
        "COTERIE_HOME": "/x",
        "HOME": "/home/me",
    }
    agent = {"LANG": "fr", "FLAG": "1", "CODEX_HOME": "/x"}
    made = open_workspace(user.project, "pair", ann, passed, agent, {"HOME", "CODEX_HOME"})
    assert made.env == {
        "PATH": "/mine",
        "TERM": "xterm",
        "LANG": "de",
        "FLAG": "1",
        "API_KEY": "mine",
        "HOME": str(made.home),
        "TMPDIR": str(made.tmp),
    }


def test_a_variable_that_breaks_isolation_is_refused_by_name(user: IsolatedUser) -> None:
    made = make_folder(user.project, "pair", ANN)
    with pytest.raises(UsageError, match="ann: CLAUDE_CONFIG_DIR in env would break its isolation"):
        environment(
            member(env={"CLAUDE_CONFIG_DIR": "/x"}), made, {}, isolating={"CLAUDE_CONFIG_DIR"}
        )


# -- instruction files ---------------------------------------------------------------------------


def with_instructions(
    user: IsolatedUser, text: str | None = None, **more: object
) -> tuple[Team, Member]:
    ann = member(system_instruction="You are Ann.", **more)
    make_folder(user.project, "pair", ann)
    return Team(name="pair", members=(ann,), team_instruction=text), ann


def test_an_instruction_file_is_rewritten_until_a_person_takes_it(user: IsolatedUser) -> None:
    place = user.project / ".coterie" / "teams" / "pair"
    file, whole = place / "ann" / "CLAUDE.md", place / "team_instruction.md"
    team, ann = with_instructions(user, "Be kind.")
    write_instructions(user.project, team, ann, InstructionFile("CLAUDE.md", True))
    assert file.read_text() == f"{OURS}\n\nYou are Ann.\n\n@../team_instruction.md\n"
    assert whole.read_text() == f"{OURS}\n\nBe kind.\n"
    assert (place / "_shared_assets").is_dir()
    team, ann = with_instructions(user)
    write_instructions(user.project, team, ann, InstructionFile("CLAUDE.md", False))
    assert "are in ../team_instruction.md: read them first" in file.read_text()
    assert whole.read_text() == f"{UNWRITTEN}\n"
    for path in (file, whole):
        path.write_text("My own words.\n")
    team, ann = with_instructions(user, "Be quick.")
    write_instructions(user.project, team, ann, InstructionFile("CLAUDE.md", False))
    assert {path.read_text() for path in (file, whole)} == {"My own words.\n"}


def test_a_link_in_the_place_of_an_instruction_file_is_a_persons(user: IsolatedUser) -> None:
    team, ann = with_instructions(user)
    file = user.project / ".coterie" / "teams" / "pair" / "ann" / "AGENTS.md"
    file.symlink_to(user.home / "none")
    write_instructions(user.project, team, ann, InstructionFile("AGENTS.md", False))
    assert file.is_symlink()


def test_a_member_elsewhere_learns_where_the_teams_text_is(
    user: IsolatedUser, tmp_path: Path
) -> None:
    team, ann = with_instructions(user, working_dir=str(tmp_path / "ann"))
    write_instructions(user.project, team, ann, InstructionFile("CLAUDE.md", True))
    text = user.project / ".coterie" / "teams" / "pair" / "team_instruction.md"
    assert f"@{text}" in (tmp_path / "ann" / "CLAUDE.md").read_text()
