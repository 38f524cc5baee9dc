"""Running git: safely in an untrusted repository, and without losing anything."""

from __future__ import annotations

import os
import select
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.errors import GitFailed
from coterie.model.workspace import unfinished_name
from coterie.workspace.git import Git, LinkedWorktree, repository_of
from coterie.workspace.worktree import Worktree, checkout_at
from tests.conftest import IsolatedUser
from tests.unit.workspace.repository import bare_git, commit, new_repository


@pytest.fixture
def repository(user: IsolatedUser) -> Git:
    return new_repository(user.project)


def add(git: Git, name: str = "tree", branch: str = "coterie/pair/ann") -> Path:
    path = git.folder.parent / name
    git.add_worktree(path, branch, git.head() or "")
    return path


# -- reading a repository ----------------------------------------------------------------------


def test_a_folder_is_in_a_repository_or_in_none(user: IsolatedUser, repository: Git) -> None:
    inner = user.project / "a" / "b"
    inner.mkdir(parents=True)
    assert repository_of(inner) == Git(user.project)
    assert repository_of(user.home) is None
    assert repository.common_dir == user.project / ".git"
    tree = add(repository)
    assert repository_of(tree) == Git(tree)
    assert Git(tree).common_dir == user.project / ".git"


def test_head(user: IsolatedUser, repository: Git) -> None:
    assert repository.head() == bare_git(user.project, "rev-parse", "HEAD")
    assert repository.commit("refs/heads/nobody") is None
    empty = user.home / "empty"
    bare_git(user.home, "init", "-q", "empty")
    assert Git(empty).head() is None


REFS = ("HEAD", "refs/heads/side", "refs/coterie/one", "refs/heads/side~1", "refs/tags/one")


@pytest.mark.parametrize(
    ("change", "only_git_can_tell"),
    [
        ("true", ""),
        ("git branch -D side", ""),
        ("git checkout side", ""),
        ("git checkout --detach side", ""),
        ("git checkout --orphan new", ""),
        ("git pack-refs --all", "HEAD refs/heads/side"),
        ("git pack-refs --all; git branch -f side HEAD~1", "HEAD"),
        ("git gc", "HEAD refs/heads/side"),
        ("git symbolic-ref refs/coterie/one refs/heads/side", "refs/coterie/one"),
        ("git symbolic-ref HEAD refs/tags/one", "HEAD"),
        ("echo nonsense >.git/refs/heads/side", "refs/heads/side"),
        ("echo 'ref: HEAD' >.git/refs/heads/side", "refs/heads/side"),
        (f"echo {'1' * 40} >.git/refs/heads/side", "refs/heads/side"),
        ("mv .git/refs/heads/side .git/one; ln -s ../../one .git/refs/heads/side", REFS[1]),
        ("mkdir .git/reftable", "refs/coterie/one"),
    ],
)
def test_a_ref_is_what_git_says_although_git_is_rarely_asked(
    user: IsolatedUser, repository: Git, change: str, only_git_can_tell: str
) -> None:
    (user.project / "file.txt").write_text("second\n")
    commit(user.project, "second")
    bare_git(user.project, "branch", "side")
    subprocess.run(["sh", "-c", change], cwd=user.project, check=True, capture_output=True)
    place = checkout_at(user.project)
    assert place is not None
    unknown = set[str]()
    for name in REFS:
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        expected = bare_git(user.project, *words, check=False) or None
        assert repository.commit(name) == expected, name
        try:
            assert place.commit_of(name) == expected
        except LookupError:
            unknown.add(name)
    assert unknown == {*only_git_can_tell.split(), *REFS[3:]}


def test_what_is_there_is_seen_and_nothing_in_its_place(
    user: IsolatedUser, repository: Git
) -> None:
    first = bare_git(user.project, "rev-parse", "HEAD")
    true, other = (
        bare_git(user.project, "commit-tree", "-p", first, "-m", word, f"{first}^{{tree}}")
        for word in ("true", "other")
    )
    bare_git(user.project, "replace", true, other)
    (user.project / ".git" / "info").mkdir(exist_ok=True)
    (user.project / ".git" / "info" / "grafts").write_text(f"{true}\n")
    said = ("log", "-1", "--format=%s %P", true)
    assert bare_git(user.project, *said) == "other"  # the control: replaced, without a parent
    assert repository.run(*said).strip() == f"true {first}"


def test_what_git_says_when_it_fails(user: IsolatedUser, repository: Git) -> None:
    with pytest.raises(GitFailed) as caught:
        repository.run("rev-parse", "--verify", "nobody")
    failed = caught.value
    assert (failed.command, failed.folder, failed.status) == ("rev-parse", str(user.project), 128)
    assert str(failed) == (
        f"git rev-parse failed in {user.project}: fatal: Needed a single revision"
    )
    with pytest.raises(GitFailed, match="not a git repository"):
        _ = Git(user.home).common_dir


def test_without_git(repository: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitFailed, match="git is not installed"):
        repository.worktrees()


def test_git_is_given_words(repository: Git) -> None:
    made = repository.run("hash-object", "-w", "--stdin", input="hällo\n")
    assert repository.run("cat-file", "blob", made.strip()) == "hällo\n"


def test_one_that_never_ends_is_ended_with_what_it_started(
    user: IsolatedUser, repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = user.home / "git"
    held = user.home / "held"
    os.mkfifo(held)
    program.write_text(f"#!/bin/sh\nsleep 60 > {held} &\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{user.home}:{os.environ['PATH']}")
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(reader, "rb") as file:
        with pytest.raises(GitFailed, match=r"status failed in .*: it took longer than 1 s$"):
            repository.run("status", timeout=1)
        # Readable, and at EOF, once the last process holding it is dead.
        assert select.select([file], [], [], 30)[0] == [file]
        assert file.read() == b""


@pytest.mark.parametrize("name", [".gitignore", "lib/.gitignore", "lib/.gitattributes"])
def test_a_pipe_that_git_would_wait_for_is_named_soon(repository: Git, name: str) -> None:
    pipe = repository.folder / name
    pipe.parent.mkdir(exist_ok=True)
    (pipe.parent / "a.txt").write_text("new\n")
    os.mkfifo(pipe)
    with pytest.raises(GitFailed, match=rf"{name} is no regular file: git waits for it"):
        repository.run("add", "--all", timeout=30)


def test_the_environment_of_a_hook_does_not_lead_elsewhere(
    user: IsolatedUser, repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(user.home))
    assert repository.head() is not None
    assert add(repository).is_dir()


# -- an untrusted repository --------------------------------------------------------------------


def hostile(user: IsolatedUser) -> Path:
    """Create a repository whose own configuration would run a program at every opportunity."""
    fired = user.home / "fired"
    fires = f"touch {fired}"
    git = user.project / ".git"
    (user.project / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (user.project / "new.txt").write_text("new\n")
    commit(user.project, "attributes")
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit"):
        hook = git / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{fires}\n")
        hook.chmod(0o755)
    program = user.home / "program"
    program.write_text(f"#!/bin/sh\n{fires}\nexit 1\n")
    program.chmod(0o755)
    for key, value in {
        "core.fsmonitor": program,
        "core.pager": program,
        "core.editor": program,
        "core.sshCommand": program,
        "commit.gpgSign": "true",
        "gpg.program": program,
        "diff.external": program,
        "diff.evil.command": program,
        "diff.evil.textconv": program,
        "filter.evil.clean": program,
        "filter.evil.smudge": program,
        "filter.evil.process": program,
        "filter.evil.required": "true",
    }.items():
        bare_git(user.project, "config", key, str(value))
    return fired


def test_nothing_of_a_hostile_repository_runs(user: IsolatedUser, repository: Git) -> None:
    fired = hostile(user)
    tree = add(repository)
    assert (tree / "new.txt").read_text() == "new\n"
    (tree / "new.txt").write_text("changed\n")
    git = Git(tree)
    assert "+changed" in git.run("diff")
    assert git.run("status", "--porcelain") == " M new.txt\n"
    assert git.run("log", "--patch", "--format=%s").startswith("attributes\n")
    kept = git.snapshot("kept")
    assert repository.run("show", f"{kept}:new.txt") == "changed\n"
    assert not fired.exists()


@pytest.mark.parametrize(
    "config",
    [
        '[Filter "evil"]\n\tclean = "{0}"\n\tsmudge = "{0}"\n\trequired = true\n',
        '[core] [FILTER \t"evi\\l"] smudge = "{0}"\n',
        '[filter.evil]\nsmudge = "{0}"\n',
        "[include]\npath = included\n",
        '[includeIf "gitdir:/"]\npath = included\n',
    ],
)
@pytest.mark.parametrize("file", ["config", "config.worktree"])
def test_a_filter_is_off_however_it_is_configured(
    user: IsolatedUser, repository: Git, config: str, file: str
) -> None:
    fired, program = user.home / "fired", user.home / "program"
    program.write_text(f"#!/bin/sh\ntouch {fired}\nexit 1\n")
    program.chmod(0o755)
    (user.project / ".gitattributes").write_text("* filter=evil\n")
    commit(user.project, "attributes")
    bare_git(user.project, "config", "extensions.worktreeConfig", "true")
    included = f'[filter "evil"]\nsmudge = "{program}"\n'
    (user.project / ".git" / "included").write_text(included)
    with (user.project / ".git" / file).open("a") as written:
        written.write(config.format(program))
    (user.project / "file.txt").unlink()
    repository.run("reset", "--hard", "--quiet")
    assert (user.project / "file.txt").exists()
    assert not fired.exists()
    (user.project / "file.txt").unlink()
    bare_git(user.project, "reset", "--hard", "--quiet", check=False)
    assert fired.exists()  # plain git obeys it


def test_one_call_is_one_process(
    user: IsolatedUser, repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(user)
    program, calls = user.home / "git", user.home / "calls"
    real = next(path for path in os.get_exec_path() if Path(path, "git").exists())
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {real}/git "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{user.home}:{os.environ['PATH']}")
    assert repository.worktrees() == ()
    assert len(calls.read_text().splitlines()) == 1


def test_a_configuration_that_cannot_be_read_does_not_hold_us_up(
    user: IsolatedUser, repository: Git
) -> None:
    os.mkfifo(user.project / ".git" / "config.worktree")
    assert repository.head() is not None


@pytest.mark.parametrize(
    "words",
    [
        ("worktree", "add", "-q", "../other"),
        ("status",),
        ("diff",),
        ("commit", "-qam", "signed"),
    ],
)
def test_the_same_repository_harms_a_bare_git(
    user: IsolatedUser, repository: Git, words: tuple[str, ...]
) -> None:
    fired = hostile(user)
    (user.project / "new.txt").write_text("changed\n")
    subprocess.run(["git", *words], cwd=user.project, capture_output=True, check=False)
    assert fired.exists()


def test_a_filter_of_the_users_own_counts(user: IsolatedUser, repository: Git) -> None:
    (user.project / ".gitattributes").write_text("*.txt filter=mine\n")
    (user.project / "new.txt").write_text("new\n")
    commit(user.project, "attributes")
    bare_git(user.project, "config", "--global", "filter.mine.smudge", "tr a-z A-Z")
    assert (add(repository) / "new.txt").read_text() == "NEW\n"


def test_a_folder_that_looks_like_a_repository(user: IsolatedUser, repository: Git) -> None:
    inner = user.project / "inner"
    bare_git(user.project, "init", "-q", "--bare", "inner")
    with pytest.raises(GitFailed, match="not a git repository"):
        Git(inner).run("status")


def test_a_pointer_that_an_agent_forged_is_not_asked(user: IsolatedUser, repository: Git) -> None:
    tree = add(repository)
    [linked] = repository.worktrees()
    bare_git(user.home, "init", "-q", "forged")
    (tree / "loop").symlink_to("loop")
    for forged in (f"{user.home}/forged/.git", "loop", "loop/.git", "a\0b"):
        (tree / ".git").write_text(f"gitdir: {forged}\n")
        assert not linked.alive
        with pytest.raises(GitFailed, match="does not point back to this folder"):
            Git(tree).head()
    known = Worktree(tree, linked.git_dir, repository.common_dir)
    assert Git(tree, known).head() == repository.head()


# -- worktrees ---------------------------------------------------------------------------------


def test_worktrees(user: IsolatedUser, repository: Git) -> None:
    head = repository.head()
    assert repository.worktrees() == ()
    tree = add(repository)
    detached = user.home / "detached"
    bare_git(user.project, "worktree", "add", "-q", "--detach", str(detached))
    places = user.project / ".git" / "worktrees"
    assert set(repository.worktrees()) == {
        LinkedWorktree(tree, places / "tree", head, "coterie/pair/ann"),
        LinkedWorktree(detached, places / "detached", head, None),
    }
    assert all(one.alive for one in repository.worktrees())
    assert bare_git(user.project, "config", "--local", "--get-regexp", "^branch", check=False) == ""


def test_a_branch_that_is_there_is_gone_on_with(repository: Git) -> None:
    tree = add(repository)
    (tree / "work.txt").write_text("work\n")
    done = commit(tree, "work")
    bare_git(repository.folder, "worktree", "remove", str(tree))
    assert Git(add(repository)).head() == done


def test_a_snapshot_holds_all_that_is_not_ignored(user: IsolatedUser, repository: Git) -> None:
    tree = add(repository)
    (tree / "staged.txt").write_text("staged\n")
    bare_git(tree, "add", "staged.txt")
    (tree / "untracked.txt").write_text("untracked\n")
    (tree / "file.txt").unlink()
    kept = Git(tree).snapshot("Kept")
    assert repository.run("diff", "--name-status", "HEAD", kept).splitlines() == [
        "D\tfile.txt",
        "A\tstaged.txt",
        "A\tuntracked.txt",
    ]
    shown = repository.run("log", "-1", "--format=%an <%ae> %s", kept).strip()
    assert shown == "Coterie <coterie@localhost> Kept"
    assert repository.commit("coterie/pair/ann") == repository.head()
    assert bare_git(user.project, "status", "--porcelain") == ""


def test_a_snapshot_touches_nothing(user: IsolatedUser, repository: Git) -> None:
    before = bare_git(user.project, "for-each-ref"), (user.project / ".git/index").read_bytes()
    assert repository.snapshot("nothing new") == repository.head()
    (user.project / "new.txt").write_text("new\n")
    bare_git(user.project, "config", "--global", "user.name", "Ada")
    bare_git(user.project, "config", "--global", "user.email", "ada@example.org")
    made = repository.snapshot("new")
    assert repository.run("log", "-1", "--format=%an %ae %P", made).split() == [
        "Ada",
        "ada@example.org",
        repository.head(),
    ]
    after = bare_git(user.project, "for-each-ref"), (user.project / ".git/index").read_bytes()
    assert after == before


def test_what_a_crash_left_half_way_is_in_no_snapshot(user: IsolatedUser, repository: Git) -> None:
    for folder in (user.project, user.project / "deep" / "er"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / unfinished_name()).write_text("half")
        (folder / ".coterie-of-mine").write_text("whole")
    made = repository.snapshot("new")
    listed = repository.run("diff-tree", "-r", "--name-only", f"{made}^", made).split()
    assert listed == [".coterie-of-mine", "deep/er/.coterie-of-mine"]


def test_a_repository_inside_is_not_lost(repository: Git) -> None:
    tree = add(repository)
    new_repository(tree / "inner")
    with pytest.raises(GitFailed, match="inner is a separate repository"):
        Git(tree).snapshot("Kept")


def test_the_folder_is_gone_already(repository: Git) -> None:
    tree = add(repository)
    bare_git(tree, "switch", "-q", "--detach")
    done = bare_git(tree, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "loose")
    bare_git(tree, "reset", "-q", "--hard", done)
    tree.rename(tree.with_name("elsewhere"))
    [linked] = repository.worktrees()
    kept = repository.forget(linked)
    assert kept is not None
    assert kept.startswith("refs/coterie/kept/tree/")
    assert repository.commit(kept) == done
    assert repository.worktrees() == ()


def test_a_lock_is_held_by_git_too(repository: Git) -> None:
    read, write = os.pipe()
    try:
        told = replace(repository, pass_fds=(write,)).run(
            "-c", f"alias.tell=!echo held > /dev/fd/{write}", "tell"
        )
        assert (told, os.read(read, 100)) == ("", b"held\n")
    finally:
        os.close(read)
        os.close(write)
