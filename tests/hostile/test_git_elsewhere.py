"""A repository that leads git elsewhere: to the user's other folders and repositories.

Whatever Coterie's git does with it or refuses, nothing outside the project changes or runs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, git, register_agents
from tests.hostile.leftovers import shell


@dataclass(frozen=True)
class GitRedirect:
    """How `.git` leads to `../other`, a repository, or `../victim`; what plain git does there."""

    name: str
    lead: str
    control: str


WAYS = (
    GitRedirect("work-tree", "git config core.worktree ../../victim", "git reset -q --hard"),
    GitRedirect(
        "common",
        "rm -r .git/refs .git/objects; echo ../../other/.git > .git/commondir",
        "git update-ref refs/heads/x HEAD",
    ),
    GitRedirect(
        "pointer",
        "mv .git ../moved; echo gitdir: ../other/.git > .git",
        "git update-ref refs/heads/x HEAD",
    ),
    GitRedirect("link", "mv .git ../moved; ln -s ../other/.git .git", "git branch x"),
    GitRedirect(
        "worktree",
        "mkdir -p .git/worktrees/x; echo ../../other/.git > .git/worktrees/x/commondir; "
        "git -C ../other worktree add -q ../w -b w; mv .git ../moved; cp ../w/.git .git",
        "git update-ref refs/heads/x HEAD",
    ),
    GitRedirect(
        "refs",
        "cp -r .git/refs ../other/.git; rm -r .git/refs; ln -s ../../other/.git/refs .git/refs",
        "git branch x",
    ),
    GitRedirect(
        "branches", "ln -s ../../../../victim .git/refs/heads/coterie", "git branch coterie/x"
    ),
    GitRedirect(
        "log",
        "rm .git/logs/HEAD; ln -s ../../../victim/file .git/logs/HEAD; git config user.name ';id;'",
        "git commit -q --allow-empty -m x",
    ),
    GitRedirect(
        "logs-of-branches",
        "mkdir -p .git/logs/refs/heads; ln -s ../../../../../victim .git/logs/refs/heads/coterie",
        "git branch coterie/x",
    ),
    GitRedirect("logs", "rm -r .git/logs; ln -s ../../victim .git/logs", "git branch x"),
    GitRedirect(
        "objects",
        "cp -r .git/objects/* ../other/.git/objects; rm -r .git/objects; "
        "ln -s ../../other/.git/objects .git/objects",
        "echo new | git hash-object -w --stdin",
    ),
    GitRedirect(
        "index", "mv .git/index ../victim/file; ln -s ../../victim/file .git/index", "git rm *.py"
    ),
    GitRedirect(
        "packed", "ln -s ../../victim/packed .git/packed-refs", "git pack-refs --all"
    ),
    GitRedirect(
        "promisor",
        "git config extensions.partialClone p; git config remote.p.promisor true; "
        "git config remote.p.url ../other; git config core.repositoryformatversion 1; "
        "git config remote.p.uploadpack 'touch ../victim/ran; git-upload-pack'; "
        "rm -f .git/objects/$(git rev-parse HEAD:cart.py | sed 's,..,&/,')",
        "git cat-file -p HEAD:cart.py",
    ),
)  # fmt: skip


def set_up(base: Path, project: Path, way: GitRedirect) -> Callable[[], dict[str, str]]:
    """Make the project lead elsewhere; return a function that reports what is there."""
    for name in ("other", "victim"):
        (base / name).mkdir()
    (base / "victim" / "file").write_text("mine\n")
    shell(base / "other", "git init -q -b main . && git commit -q --allow-empty -m theirs")
    shell(project, way.lead, HOME=str(base))

    def elsewhere() -> dict[str, str]:
        files = (path for name in ("other", "victim") for path in (base / name).rglob("*"))
        return {
            str(path.relative_to(base)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
            if path.is_file()
        }

    return elsewhere


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_nothing_changes_elsewhere(bare: Cli, way: GitRedirect) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    base = project.root.parent
    elsewhere = set_up(base, project.root, way)
    before = elsewhere()
    for words in (("run", "--yes", "Add coupons"), ("accept", "last"), ("diff", "last")):
        project(*words)
    assert elsewhere() == before


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_bare_git_does_change_it(tmp_path: Path, way: GitRedirect) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "cart.py").write_text("total = 0\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "cart.py")
    git(project, "commit", "-qm", "begin")
    elsewhere = set_up(tmp_path, project, way)
    before = elsewhere()
    said = shell(project, way.control, HOME=str(tmp_path))
    assert elsewhere() != before, said


def test_a_link_is_refused_by_name(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    refs = project.root / ".git" / "refs"
    shutil.move(refs, project.root.parent / "refs")
    refs.symlink_to(project.root.parent / "refs")
    ran = project("run", "--yes", "Add coupons")
    assert ran.code != 0
    assert f"{refs} is a link; replace it with its target" in ran.err
