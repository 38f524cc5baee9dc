"""Links in a folder that others write to: nothing outside it is read or written through them.

`os.path.realpath` leaves a link in a loop unresolved, and with it all that follows: in that form
`loop/../out/key` seems to be inside the folder, and opening it leads out.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coterie.errors import ArtifactWrong
from coterie.model.envelope import ArtifactRef
from coterie.ports import HandedOut
from coterie.workflows.tickets.handed_out import write_sent_files
from coterie.workspace.beneath import open_within
from coterie.workspace.homes import documents_of
from coterie.workspace.session_files import artifacts_folder, register_artifact
from coterie.workspace.ticket_worktrees import open_ticket_worktrees
from tests.conftest import init_project
from tests.unit.workflows.test_shared_files import MemorySharing

SECRET = "the user's own"
WAYS_OUT = ("out/key", "loop/../out/key", "loop/../loop/../out/key", "key", "twice", "../key")


def tangled(folder: Path) -> Path:
    """Create links in this folder that lead to a file of the user's outside it."""
    folder.mkdir(parents=True, exist_ok=True)
    outside = folder.parent
    (outside / "key").write_text(SECRET)
    links = {"out": outside, "loop": "loop", "key": outside / "key", "twice": "loop/../out/key"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (folder / "own").write_text("its own")
    (folder / "inside").symlink_to("own")
    return folder


@pytest.mark.parametrize("name", WAYS_OUT)
def test_no_file_outside_is_opened(tmp_path: Path, name: str) -> None:
    folder = tangled(tmp_path / "work")
    with pytest.raises(OSError, match=r"leads out|symbolic links|No such file"):
        open_within(folder, folder / name).close()


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    folder = tangled(tmp_path / "work")
    (tmp_path / "alias").symlink_to(folder)
    for name in ("own", "inside", "../work/own"):
        with open_within(folder, tmp_path / "alias" / name) as file:
            assert file.read() == b"its own"


@pytest.mark.parametrize("name", WAYS_OUT)
def test_no_file_outside_becomes_an_artifact(tmp_path: Path, name: str) -> None:
    init_project(tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    words = ("commit", "-q", "--allow-empty", "-m", "Begin")
    subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True)
    worktrees = open_ticket_worktrees(tmp_path, "k3f9", None)
    assert worktrees is not None
    folder = tangled(worktrees.open("T1"))
    made = [one.label for one in worktrees.store_uncommitted("T1", [name, "own", "inside"])]
    assert made == ["own"]  # once, however often it is named
    with pytest.raises(ArtifactWrong):
        register_artifact(
            tmp_path, "k3f9", "T1", folder, ArtifactRef(label="it", uri=name, digest=None)
        )
    kept = [path for path in artifacts_folder(tmp_path, "k3f9").rglob("*") if path.is_file()]
    assert [path.read_text() for path in kept] == ["its own"]


@pytest.mark.parametrize("target", WAYS_OUT)
def test_the_projects_own_instructions_come_from_the_project(tmp_path: Path, target: str) -> None:
    folder = tangled(tmp_path / "work")
    (folder / ".git").mkdir()
    (folder / "AGENTS.md").symlink_to(target)
    assert documents_of(folder, ["AGENTS.md"]) == ""
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").symlink_to("inside")
    assert documents_of(folder, ["AGENTS.md"]) == "its own"


@pytest.mark.parametrize(
    "name",
    [*WAYS_OUT, "out/new", "loop/../out/new", ".git/hooks/x", "sub/.GIT/config", "/etc/x", "", "."],
)
async def test_files_from_another_machine_are_written_to_the_worktree_alone(
    tmp_path: Path, name: str
) -> None:
    folder = tangled(tmp_path / "work")
    before = set(tmp_path.rglob("*"))
    sharing = MemorySharing()
    sent = {name: await sharing.put(b"new"), "build/a.bin": await sharing.put(b"a")}
    await write_sent_files(sharing, folder, HandedOut("completed", "done", steps={"send": sent}))
    new = [path for path in set(tmp_path.rglob("*")) - before if path.is_file()]
    assert {path: path.read_text() for path in new} == {folder / "build/a.bin": "a"}
    assert (tmp_path / "key").read_text() == SECRET
