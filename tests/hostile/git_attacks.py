"""Repositories whose git runs something: each attack with a plain git command that triggers it."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.ticket_project import git

HOOKS = """
applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit
post-index-change post-merge post-receive post-rewrite post-update pre-applypatch pre-auto-gc
pre-commit pre-merge-commit pre-push pre-rebase pre-receive prepare-commit-msg proc-receive
push-to-checkout reference-transaction sendemail-validate update
"""


@dataclass(frozen=True)
class HostileRepository:
    """A repository with planted attacks, and the folder where they leave their marks."""

    root: Path
    marks: Path

    @property
    def git_dir(self) -> Path:
        return self.root / ".git"

    def fires(self, name: str, then: str = "cat") -> str:
        """Return a shell command that leaves the mark of this name."""
        return f"touch {self.marks / name}; {then}"

    def program(self, name: str, then: str = "cat") -> Path:
        """Write the same command as a program."""
        path = self.marks.parent / f"run-{name}"
        path.write_text(f"#!/bin/sh\n{self.fires(name, then)}\n")
        path.chmod(0o755)
        return path

    def config(self, key: str, value: str | Path, file: str = "config") -> None:
        git(self.root, "config", "--file", str(self.git_dir / file), key, str(value))

    def attribute(self, line: str) -> None:
        with (self.root / ".gitattributes").open("a") as file:
            file.write(f"{line}\n")

    def file(self, name: str, text: str = "1\n") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


Words = tuple[str, ...]


@dataclass(frozen=True)
class Attack:
    """What is planted, and the plain git commands that fire it."""

    name: str
    plant: Callable[[HostileRepository], None]
    control: tuple[Words, ...]


def _filter(
    kind: str, file: str = "config", attributes: str = "tree"
) -> Callable[[HostileRepository], None]:
    name = f"{kind}-{file.replace('.', '-')}-{attributes}"

    def plant(hostile: HostileRepository) -> None:
        hostile.config(f"filter.{name}.{kind}", hostile.fires(name), file)
        hostile.file(f"file.{name}")
        line = f"*.{name} filter={name}"
        if attributes == "tree":
            hostile.attribute(line)
        else:
            (hostile.git_dir / "info").mkdir(exist_ok=True)
            with (hostile.git_dir / "info" / "attributes").open("a") as written:
                written.write(f"{line}\n")

    return plant


def _clean(name: str) -> tuple[Words, ...]:
    return ((*_SH, f"echo 2 >> file.{name}"), ("add", f"file.{name}"))


def _smudge(name: str) -> tuple[Words, ...]:
    return ((*_SH, f"rm file.{name}"), ("checkout", "--", f"file.{name}"))


_SH = ("!sh", "-c")
_CHANGED = (*_SH, "echo 2 >> cart.py")


def _setting(key: str, name: str) -> Callable[[HostileRepository], None]:
    return lambda hostile: hostile.config(key, hostile.program(name))


def _hooks(hostile: HostileRepository) -> None:
    for name in HOOKS.split():
        path = hostile.git_dir / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{hostile.fires(f'hook-{name}', 'exit 0')}\n")
        path.chmod(0o755)


def _driver(key: str, name: str) -> Callable[[HostileRepository], None]:
    def plant(hostile: HostileRepository) -> None:
        hostile.config(f"diff.{name}.{key}", hostile.program(name))
        hostile.attribute(f"*.{name} diff={name}")
        hostile.file(f"file.{name}")

    return plant


def _merge_driver(hostile: HostileRepository) -> None:
    hostile.config("merge.evil.driver", hostile.fires("merge-driver", "true"))
    hostile.attribute("*.py merge=evil")


def _included(condition: str, name: str) -> Callable[[HostileRepository], None]:
    def plant(hostile: HostileRepository) -> None:
        _filter("clean", f"{name}.inc")(hostile)
        hostile.config(f"{condition}.path", f"{name}.inc")

    return plant


def _worktree_config(hostile: HostileRepository) -> None:
    hostile.config("extensions.worktreeConfig", "true")
    _filter("clean", "config.worktree")(hostile)


def _submodule(hostile: HostileRepository) -> None:
    inner = hostile.root / "inner"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main")
    (inner / "f").write_text("1\n")
    git(inner, "add", "f")
    git(inner, "commit", "-qm", "inner")
    git(inner, "config", "core.fsmonitor", hostile.fires("submodule", "false"))
    hostile.file(
        ".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n'
    )


def _submodule_update(hostile: HostileRepository) -> None:
    hostile.config("submodule.inner.url", "./inner")
    hostile.config("submodule.inner.update", f"!{hostile.program('submodule-update', 'true')}")
    hostile.config("submodule.recurse", "true")


def _transport(hostile: HostileRepository) -> None:
    hostile.config("protocol.ext.allow", "always")
    hostile.config("remote.ext.url", f"ext::{hostile.program('transport', 'false')} %S")
    hostile.config("remote.ext.fetch", "+refs/heads/*:refs/remotes/ext/*")


def _gpg(hostile: HostileRepository) -> None:
    hostile.config("gpg.program", hostile.program("gpg", "false"))
    hostile.config("commit.gpgSign", "true")


def _ssh(hostile: HostileRepository) -> None:
    hostile.config("core.sshCommand", hostile.program("ssh", "false"))
    hostile.config("remote.ssh.url", "ssh://nowhere.invalid/x")


ATTACKS: Sequence[Attack] = (
    Attack(
        "fsmonitor",
        lambda hostile: hostile.config("core.fsmonitor", hostile.fires("fsmonitor", "false")),
        (("status",),),
    ),
    Attack("hook-post-checkout", _hooks, (("checkout", "-q", "-b", "other"),)),
    Attack("hook-reference-transaction", lambda _: None, (("update-ref", "refs/x/y", "HEAD"),)),
    Attack("hook-post-index-change", lambda _: None, (("update-index", "--refresh"), _CHANGED)),
    Attack("hook-pre-commit", lambda _: None, (("commit", "--allow-empty", "-qm", "x"),)),
    Attack(
        "hook-post-commit",
        lambda _: None,
        (("commit", "--no-gpg-sign", "--allow-empty", "-qm", "x"),),
    ),
    Attack("hook-post-merge", lambda _: None, (("merge", "-q", "--ff-only", "ahead"),)),
    Attack("clean-config-tree", _filter("clean"), _clean("clean-config-tree")),
    Attack("smudge-config-tree", _filter("smudge"), _smudge("smudge-config-tree")),
    Attack("process-config-tree", _filter("process"), _clean("process-config-tree")),
    Attack(
        "clean-config-info", _filter("clean", attributes="info"), _clean("clean-config-info")
    ),
    Attack("clean-config-worktree-tree", _worktree_config, _clean("clean-config-worktree-tree")),
    Attack(
        "clean-onbranch-inc-tree",
        _included("includeIf.onbranch:coterie/**", "onbranch"),
        (("checkout", "-q", "-b", "coterie/x/T1"), *_clean("clean-onbranch-inc-tree")),
    ),
    Attack(
        "clean-linked-inc-tree",
        _included("includeIf.gitdir:**/worktrees/**", "linked"),
        (
            ("worktree", "add", "-q", "linked"),
            (*_SH, "cd linked; for f in *.clean-linked*; do echo 2 >> $f; git add $f; done"),
        ),
    ),
    Attack(
        "clean-remote-inc-tree",
        _included("includeIf.hasconfig:remote.*.url:ssh://**", "remote"),
        _clean("clean-remote-inc-tree"),
    ),
    Attack("clean-plain-inc-tree", _included("include", "plain"), _clean("clean-plain-inc-tree")),
    Attack("textconv", _driver("textconv", "textconv"), (
        (*_SH, "echo 2 >> file.textconv"), ("diff", "--no-ext-diff"),
    )),
    Attack("diff-command", _driver("command", "diff-command"), (
        (*_SH, "echo 2 >> file.diff-command"), ("diff",),
    )),
    Attack("diff-external", _setting("diff.external", "diff-external"), (_CHANGED, ("diff",))),
    Attack("merge-driver", _merge_driver, (
        ("merge-tree", "--write-tree", "left", "right"),
    )),
    Attack("gpg", _gpg, (("commit", "--allow-empty", "-qm", "x"),)),
    Attack("ssh", _ssh, (("fetch", "ssh"),)),
    Attack("transport", _transport, (("fetch", "ext"),)),
    Attack("credential", lambda hostile: hostile.config(
        "credential.helper", f"!{hostile.program('credential')}"
    ), ((*_SH, "echo url=https://x.invalid | git credential fill"),)),
    Attack("editor", _setting("core.editor", "editor"), (("commit", "--allow-empty"),)),
    Attack("pager", _setting("core.pager", "pager"), (("!tty", "git", "log"),)),
    Attack("askpass", _setting("core.askPass", "askpass"), (
        (*_SH, "echo url=https://x.invalid | git -c credential.helper= credential fill"),
    )),
    Attack("submodule", _submodule, (("status",),)),
    Attack("submodule-update", _submodule_update, (
        (*_SH, "git -C inner commit -q --allow-empty -m x; git submodule update"),
    )),
)  # fmt: skip
"""All are planted in one repository: none of them interferes with another."""


def plant_all(hostile: HostileRepository) -> None:
    """Plant every attack in a repository with a first commit, and commit the planted files."""
    quiet = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c")
    for attack in ATTACKS:
        attack.plant(hostile)
    unsigned = (*quiet, "commit.gpgSign=false", "-c", "core.attributesFile=/dev/null")
    config, git_dir = hostile.git_dir / "config", hostile.git_dir
    kept = config.read_text()
    config.write_text("[core]\n\trepositoryformatversion = 0\n")  # for the commits below
    info = git_dir / "info" / "attributes"
    attributes = info.read_text()
    info.unlink()
    git(hostile.root, *unsigned, "add", "--all", "--", ".", ":(exclude).coterie")
    git(hostile.root, *unsigned, "commit", "-qm", "planted")
    for branch in ("left", "right"):
        git(hostile.root, *unsigned, "checkout", "-q", "-b", branch, "main")
        (hostile.root / "cart.py").write_text(f"total = '{branch}'\n")
        git(hostile.root, *unsigned, "commit", "-qam", branch)
    git(hostile.root, *unsigned, "checkout", "-q", "-b", "ahead", "main")
    git(hostile.root, *unsigned, "commit", "-q", "--allow-empty", "-m", "ahead")
    git(hostile.root, *unsigned, "checkout", "-q", "main")
    info.write_text(attributes)
    config.write_text(kept)


def run_plain_git(root: Path, words: Words, home: Path) -> None:
    """Run a command as a careless user would."""
    env = {**os.environ, "HOME": str(home), "GIT_TERMINAL_PROMPT": "0"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "You", f"GIT_{role}_EMAIL": "you@example.com"}
    kind, *rest = words
    command = rest if kind[0] == "!" else ["git", *words]
    if kind == "!tty":
        _on_a_terminal(root, command, env)
        return
    if kind == "!sh":
        command = ["sh", *rest]
    subprocess.run(
        command, cwd=root, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )


def _on_a_terminal(root: Path, command: Sequence[str], env: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    words = ["sh", "-c", f"{shlex.join(command)} | cat > /dev/null; {shlex.join(command)}"]
    subprocess.run(words, cwd=root, env=env, stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    os.close(ours)
