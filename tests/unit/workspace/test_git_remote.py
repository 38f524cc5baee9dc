"""Refs on the user's remote: created once, fetched, removed; and whose git settings apply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.errors import GitFailed, UsageError
from coterie.model.remote import GitRemote
from coterie.workspace.git import Git
from coterie.workspace.git_remote import fetch, push_new, remote_refs, remove_refs, sent_ref
from tests.unit.workspace.repository import bare_git, commit, new_repository

SESSION = "k3f9"


@dataclass(frozen=True)
class ExchangingClones:
    """Two clones, and the bare repository through which they exchange branches."""

    here: Git
    there: Git
    remote: GitRemote

    @property
    def bare(self) -> Path:
        return Path(self.remote.url)

    def work(self, text: str) -> str:
        """Make a new commit in `here`."""
        (self.here.folder / "file.txt").write_text(text)
        return commit(self.here.folder, text)


@pytest.fixture
def clones(tmp_path: Path) -> ExchangingClones:
    here, bare = new_repository(tmp_path / "here"), tmp_path / "bare git.git"
    bare_git(tmp_path, "clone", "-q", str(here.folder), "there")
    bare_git(tmp_path, "init", "-q", "--bare", str(bare))
    return ExchangingClones(here, Git(tmp_path / "there"), GitRemote(str(bare)))


def test_a_ref_is_made_once_and_fetched_by_another_clone(clones: ExchangingClones) -> None:
    here, there, remote = clones.here, clones.there, clones.remote
    made = clones.work("second")
    ref = sent_ref(SESSION, "T1", 3, made)
    assert ref == f"refs/coterie/k3f9/T1/3/{made}"
    for _ in range(2):  # repeated as if the answer had been lost
        push_new(here, remote, ref, made)
    assert there.commit(made) is None
    before = bare_git(there.folder, "for-each-ref")
    fetch(there, remote, {ref: made})
    assert there.commit(made) == made
    assert bare_git(there.folder, "for-each-ref") == before
    assert not (there.folder / ".git" / "FETCH_HEAD").exists()


def test_a_late_push_to_a_ref_that_is_taken_is_refused(clones: ExchangingClones) -> None:
    here, remote, first, second = clones.here, clones.remote, clones.work("1"), clones.work("2")
    ref = sent_ref(SESSION, "T1", 3, first)
    push_new(here, remote, ref, first)
    with pytest.raises(UsageError, match="is already on the remote, at "):
        push_new(here, remote, ref, second)
    assert remote_refs(here, remote) == {ref: first}


def test_a_missing_or_different_commit_is_distinguished_from_an_unreachable_remote(
    clones: ExchangingClones,
) -> None:
    here, there, remote, made = clones.here, clones.there, clones.remote, clones.work("second")
    ref = sent_ref(SESSION, "T1", 3, made)
    with pytest.raises(UsageError, match="no longer on the remote"):
        fetch(there, remote, {ref: made})
    bare_git(here.folder, "push", "-q", remote.url, f"HEAD~1:{ref}")
    with pytest.raises(UsageError, match="sent under that name"):
        fetch(there, remote, {ref: made})
    clones.bare.rename(clones.bare.with_name("away"))
    with pytest.raises(GitFailed):
        fetch(there, remote, {ref: made})
    with pytest.raises(GitFailed):
        push_new(here, remote, ref, made)


def test_refs_of_a_session_are_listed_and_removed_as_they_were_seen(
    clones: ExchangingClones,
) -> None:
    here, remote, first, second = clones.here, clones.remote, clones.work("1"), clones.work("2")
    mine = {sent_ref(SESSION, "T1", 3, first): first, sent_ref(SESSION, "T2", 1, second): second}
    others = {sent_ref("k3f9x", "T1", 1, first): first}
    for ref, made in {**mine, **others}.items():
        push_new(here, remote, ref, made)
    assert remote_refs(here, remote, f"refs/coterie/{SESSION}") == mine
    with pytest.raises(GitFailed):
        remove_refs(here, remote, {next(iter(mine)): second})
    assert remote_refs(here, remote, f"refs/coterie/{SESSION}") == mine
    remove_refs(here, remote, mine)
    remove_refs(here, remote, {})
    assert remote_refs(here, remote) == others


# -- whose git settings apply ----------------------------------------------------------------------


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


HOOKS = (
    "pre-push", "reference-transaction", "pre-receive", "update", "post-receive", "post-update"
)  # fmt: skip


def plant(clones: ExchangingClones, marks: Path) -> None:
    """Make every git that trusts either repository leave a mark or talk to another remote."""
    marks.mkdir()
    url, here = clones.remote.url, clones.here.folder
    for folder in (here / ".git", clones.bare):
        for name in HOOKS:
            program(folder / "hooks" / name, f"touch {marks}/{name}; cat > {marks}/null")
    bare_git(marks.parent, "init", "-q", "--bare", "elsewhere.git")
    served = program(marks.parent / "served", f"touch {marks}/served; exec git receive-pack $*")
    settings = {
        f"url.{marks.parent}/elsewhere.git.pushInsteadOf": url,
        "remote.x.url": url,
        "remote.x.receivepack": str(served),
        "core.sshCommand": str(program(marks.parent / "ssh", f"touch {marks}/ssh; exit 1")),
        "credential.helper": f"!touch {marks}/credential",
        "protocol.ext.allow": "always",
    }
    for key, value in settings.items():
        bare_git(here, "config", key, value)


def test_settings_and_hooks_of_either_repository_do_nothing(
    clones: ExchangingClones, tmp_path: Path
) -> None:
    marks, made = tmp_path / "marks", clones.work("second")
    plant(clones, marks)
    here, there, remote, ref = clones.here, clones.there, clones.remote, f"refs/coterie/k/{made}"
    push_new(here, remote, ref, made)
    fetch(there, remote, {ref: made})
    nobody = GitRemote("ssh://nobody@localhost:1/shop.git")
    with pytest.raises(GitFailed):
        push_new(here, nobody, ref, made)
    remove_refs(here, remote, {ref: made})
    push_new(here, remote, ref, made)
    assert list(marks.iterdir()) == []
    assert remote_refs(here, remote) == {ref: made}
    # Plain git falls for all of it.
    bare_git(here.folder, "push", "-q", "x", "HEAD:refs/x/y")
    bare_git(here.folder, "push", "-q", nobody.url, "HEAD:refs/x/y", check=False)
    assert {path.name for path in marks.iterdir()} >= {"pre-push", "ssh", "served"}
    bare_git(here.folder, "config", "--remove-section", "remote.x")
    bare_git(here.folder, "push", "-q", remote.url, "HEAD:refs/x/z")
    assert "refs/x/z" in bare_git(tmp_path / "elsewhere.git", "for-each-ref")
    bare_git(there.folder, "push", "-q", remote.url, "HEAD:refs/x/z")
    assert {path.name for path in marks.iterdir()} >= {*HOOKS}


@pytest.mark.parametrize("url", ["ext::touch {}", "git://localhost/x", "http://localhost/x", "x"])
def test_no_other_protocol_is_spoken(clones: ExchangingClones, tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="is not "):
        remote_refs(clones.here, GitRemote(url.format(tmp_path / "mark")))
    assert not (tmp_path / "mark").exists()


def ssh(tmp_path: Path, text: str) -> GitRemote:
    """A remote reached through the user's own ssh."""
    command = str(program(tmp_path / "own ssh", text))
    return GitRemote("ada@db.example.org:shop.git", {"GIT_SSH_COMMAND": f"'{command}'"})


def test_the_user_s_own_way_to_a_host_is_taken(clones: ExchangingClones, tmp_path: Path) -> None:
    runs = f'shift $(($# - 1)); echo "$1" > {tmp_path}/asked; cd {tmp_path}; eval "$1"'
    remote, made = ssh(tmp_path, runs), clones.work("second")
    bare_git(tmp_path, "init", "-q", "--bare", "shop.git")
    push_new(clones.here, remote, f"refs/coterie/k/{made}", made)
    assert (tmp_path / "asked").read_text() == "git-receive-pack 'shop.git'\n"
    assert remote_refs(clones.here, remote) == {f"refs/coterie/k/{made}": made}


def runs(pid: int) -> bool:
    """Whether the process is running; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_remote_that_hangs_is_waited_for_no_longer_than_somebody_wants(
    clones: ExchangingClones, tmp_path: Path
) -> None:
    """Afterwards git and its children are gone, and nothing was asked on the terminal."""
    begun = tmp_path / "begun"
    remote = ssh(tmp_path, f"(: < /dev/tty) 2> {tmp_path}/tty; echo $$ > {begun}; exec sleep 600")

    async def push() -> None:
        await anyio.to_thread.run_sync(push_new, clones.here, remote, "refs/coterie/k/1", "HEAD")

    async with anyio.create_task_group() as group:
        group.start_soon(push)
        with anyio.fail_after(60):
            while not (begun.exists() and begun.read_text().strip()):  # noqa: ASYNC110 - its doing
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    with anyio.fail_after(60):
        while runs(int(begun.read_text())):  # noqa: ASYNC110 - the kernel's doing
            await anyio.sleep(0.01)
    assert (tmp_path / "tty").read_text()
