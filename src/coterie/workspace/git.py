"""The only module that runs git; safe in a repository from an untrusted source.  All calls block.

Which configuration applies:

- The user's and the system's configuration are read, as when the user types `git`: identity, line
  endings, Git LFS.  So GIT_CONFIG_NOSYSTEM is not set.
- The repository's own is never given to git.  It does not come with a clone, but it does come with
  a copied or unpacked folder, and an agent may have written to it.  Git gets a directory of ours
  instead (`git_directory`), with our configuration (`git_settings`): there are no hooks, and
  nothing from `.git/config` applies except a few plain settings.
- The environment is built from nothing and names git directory and work tree: nothing is searched.
- No other repository is contacted, except one that the user names (`git_remote`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.from_thread

from coterie.errors import GitFailed
from coterie.model.remote import GitRemote
from coterie.model.workspace import UNFINISHED
from coterie.workspace.beneath import remove_tree
from coterie.workspace.git_control_files import special_file
from coterie.workspace.git_directory import (
    FixedSettings,
    empty_folder,
    git_directory,
    prepare_for_writing,
)
from coterie.workspace.worktree import HEADS, Worktree, checkout_at, folder_of, line_of, top_of

TIMEOUT = 60.0
CHECKOUT_TIMEOUT = 900.0
"""Timeout for writing a whole tree, on the slowest disk with the largest repository."""
_POLL_INTERVAL, _SLOW = 0.25, 8  # seconds between checks; after how many git may be stuck
KEPT = "refs/coterie/kept"
"""Refs for commits of worktrees whose folders are gone."""
_TAIL = 2000
_UNFINISHED_FILES = f":(exclude,glob)**/{UNFINISHED}"  # left by a crash before a rename
_VARIABLES = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_EDITOR": ":",
    # Show and use the objects that exist, not replacements that a ref or a file specifies.
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_TERMINAL_PROMPT": "0",
}
_DIFF_COMMANDS = ("diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "show")
_OPTIONS = {
    **dict.fromkeys(_DIFF_COMMANDS, ("--no-ext-diff", "--no-textconv")),
    # To see whether files of a submodule changed, git would start another git there.
    "status": ("--ignore-submodules=dirty",),
}
_WRITES_HEAD = frozenset({"checkout", "commit", "merge", "reset", "worktree"})
"""Commands that write the checked-out branch or its log."""


@dataclass(frozen=True)
class LinkedWorktree:
    """A linked worktree as recorded in its repository."""

    path: Path
    git_dir: Path
    head: str | None
    branch: str | None
    """Its short name; None if HEAD is detached."""

    @property
    def alive(self) -> bool:
        """Whether its folder still exists and points back."""
        current = Worktree.at(self.path)
        return current is not None and current.git_dir == self.git_dir


@dataclass(frozen=True)
class Git:
    """Git in one folder, the top of a working tree."""

    folder: Path
    worktree: Worktree | None = None
    """The repository; None: the one that `.git` in the folder names, where agents can write."""
    pass_fds: tuple[int, ...] = ()
    """Open files, such as locks, that git inherits and so keeps open even if this process dies."""
    settings: FixedSettings | None = None
    """The configuration, for a repository of ours."""
    remote: GitRemote | None = None
    """The one repository that git may contact; git then ends with the task that waits for it."""

    def run(
        self,
        *words: str,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        accept: Collection[int] = (0,),
    ) -> str:
        """Return git's output; raises GitFailed on any other exit status, or on a timeout."""
        first, *more = words
        command = " ".join(words[:2]) if first == "worktree" else first
        every = ("--no-pager", first, *_OPTIONS.get(first, ()), *more)
        directories, lock = self._directories(command, words)
        git = replace(self, pass_fds=(*self.pass_fds, lock))
        named = {**directories, **(env or {})}
        status, out, errors = git._run_git(command, every, input, named, timeout)
        if status not in accept:
            raise self._failed(command, errors, status)
        return out

    @property
    def common_dir(self) -> Path:
        """The `.git` directory that all worktrees of this repository share."""
        return self._locate("rev-parse").common

    def head(self) -> str | None:
        """Return the checked-out commit; None in a repository without commits."""
        return self.commit("HEAD")

    def commit(self, name: str) -> str | None:
        """Return the commit that a branch, ref or revision names; None if there is none."""
        with suppress(LookupError):
            return self._locate("rev-parse").commit_of(name)
        commit = self.run("rev-parse", "-q", "--verify", f"{name}^{{commit}}", accept=(0, 1))
        return commit.strip() or None

    def worktrees(self) -> tuple[LinkedWorktree, ...]:
        """Return the linked worktrees of this repository, including those whose folder is gone."""
        listed = dict(_listed(self.run("worktree", "list", "--porcelain")))
        places = sorted((self.common_dir / "worktrees").glob("*/"))
        known = ((folder_of(place), place) for place in places)
        return tuple(
            LinkedWorktree(path, place, *listed.get(str(path), (None, None)))
            for path, place in known
            if path is not None
        )

    @classmethod
    def init(cls, folder: Path, branch: str) -> Git:
        """Create a repository in a folder of ours."""
        git = cls(folder)
        words = ("init", "--quiet", "-b", branch)
        env = {"GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)}
        status, _, errors = git._run_git("init", words, None, env, TIMEOUT)
        if status != 0:
            raise git._failed("init", errors, status)
        return git

    def add_worktree(self, path: Path, branch: str, at: str, *, checkout: bool = True) -> None:
        """Create a worktree on a branch, which is created `at` this commit if it does not exist."""
        exists = self.commit(f"{HEADS}{branch}") is not None
        which = (str(path), branch) if exists else ("--no-track", "-b", branch, str(path), at)
        files = () if checkout else ("--no-checkout",)
        with self._refusing("worktree add"):
            prepare_for_writing(self._locate("worktree add"), f"{HEADS}{branch}")
        self.run("worktree", "add", "--quiet", *files, *which, timeout=CHECKOUT_TIMEOUT)

    def forget(self, linked: LinkedWorktree) -> str | None:
        """Remove the record of a worktree whose folder is gone.

        Commits on no branch are kept: return the ref that keeps them, None if there are none.
        """
        ref = None
        if linked.head and not linked.branch:
            ref = f"{KEPT}/{linked.git_dir.name}/{linked.head[:12]}"
            self.run("update-ref", ref, linked.head)
        remove_tree(linked.git_dir)
        return ref

    def snapshot(self, message: str) -> str:
        """Commit everything in the folder that is not ignored; return HEAD if nothing changed.

        No branch, index or file is touched; no ref points at the commit yet.
        """
        head, before = self._head_and_tree()
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            self.run("read-tree", head or "--empty", env=index)
            self._refuse_repositories(index)  # `add` would start another git in each
            try:
                words = ("add", "--all", "--", ".", _UNFINISHED_FILES)
                self.run(*words, env=index, timeout=CHECKOUT_TIMEOUT)
            except GitFailed:
                self._refuse_new_repositories(index)  # `add` fails on a repository without a commit
                raise
            self._refuse_repositories(index)
            tree = self.run("write-tree", env=index).strip()
        if head and tree == before:
            return head
        parents = ("-p", head) if head else ()
        return self.run("commit-tree", tree, *parents, "-m", message, env=self.identity()).strip()

    def _head_and_tree(self) -> tuple[str | None, str | None]:
        query = "HEAD^{commit}\nHEAD^{tree}\n"
        lines = self.run("cat-file", "--batch-check", input=query).splitlines()
        head, tree = (None if line.endswith(" missing") else line.split()[0] for line in lines)
        return head, tree

    def identity(self) -> dict[str, str]:
        """Return the committer: the identity that the user configured in git, otherwise Coterie."""
        words = ("config", "--name-only", "--get-regexp", r"^user\.(name|email)$")
        known = self.run(*words, accept=(0, 1)).split()
        return {
            f"GIT_{role}_{key.upper()}": fallback
            for key, fallback in (("name", "Coterie"), ("email", "coterie@localhost"))
            if f"user.{key}" not in known
            for role in ("AUTHOR", "COMMITTER")
        }

    def _refuse_repositories(self, index: Mapping[str, str]) -> None:
        """Refuse repositories inside the folder: a commit would record only the id of each."""
        for entry in self.run("ls-files", "--stage", "-z", env=index).split("\0"):
            facts, _, name = entry.partition("\t")
            if not facts.startswith("160000 "):
                continue
            if os.path.lexists(self.folder / name / ".git"):
                raise self._repository_within(name)
            if _holds_something(self.folder / name):
                problem = f"{name} is a submodule, whose files a commit does not contain"
                raise self._failed("add", f"{problem}: run the task in the submodule", None)

    def _refuse_new_repositories(self, index: Mapping[str, str]) -> None:
        """Refuse those that the index does not know yet: git lists them as folders."""
        words = ("ls-files", "--others", "--exclude-standard", "-z")
        for name in self.run(*words, env=index).split("\0"):
            if name.endswith("/"):
                raise self._repository_within(name[:-1])

    def _repository_within(self, name: str) -> GitFailed:
        problem = f"{name} is a separate repository, which a commit cannot contain"
        return self._failed("add", problem, None)

    def _locate(self, command: str) -> Worktree:
        """Return which repository this is."""
        worktree = self.worktree or checkout_at(self.folder)
        if worktree is None:
            pointer = self.folder / ".git"
            problem = f"{pointer} points to a git directory that does not point back to this folder"
            there = os.path.lexists(pointer)
            raise self._failed(command, problem if there else "not a git repository", None)
        return worktree

    def _directories(self, command: str, words: Sequence[str]) -> tuple[dict[str, str], int]:
        """Return all directories that git would otherwise search or read from a configuration.

        The second value is a descriptor whose lock keeps our directory in existence.
        """
        place = self._locate(command)
        with self._refusing(command):
            common, lock = git_directory(place, self.settings)
            if words[0] == "update-ref":
                prepare_for_writing(place, next(word for word in words if word[:5] == "refs/"))
            elif words[0] in _WRITES_HEAD:
                prepare_for_writing(place, line_of(place.git_dir / "HEAD").removeprefix("ref: "))
        # Merging trees would look into checked-out submodules.
        work = empty_folder(common) if words[0] == "merge-tree" else self.folder
        named = {"GIT_DIR": place.git_dir, "GIT_COMMON_DIR": common, "GIT_WORK_TREE": work}
        return {name: str(path) for name, path in named.items()}, lock

    @contextmanager
    def _refusing(self, command: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError) as refused:
            raise self._failed(command, str(refused), None) from refused

    def _run_git(
        self,
        command: str,
        words: Sequence[str],
        input: str | None,
        env: Mapping[str, str],
        timeout: float,
    ) -> tuple[int, str, str]:
        try:
            child = subprocess.Popen(
                ["git", *words],
                cwd=env.get("GIT_WORK_TREE", self.folder),
                env={**self._environment(), **env},
                stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=self.pass_fds,
                start_new_session=True,  # no terminal, so nobody is asked for a passphrase
            )
        except OSError as error:
            absent = shutil.which("git") is None
            problem = "git is not installed" if absent else f"git cannot be run: {error}"
            raise self._failed(command, problem, None) from error
        with child:
            try:
                data = None if input is None else input.encode("utf-8", "surrogateescape")
                out, errors = self._communicate(command, child, data, timeout)
            except BaseException as error:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # git and its child processes
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise self._failed(command, f"it took longer than {timeout:g} s", None) from None
        return child.returncode, _text(out), _text(errors)

    def _communicate(
        self, command: str, child: subprocess.Popen[bytes], data: bytes | None, timeout: float
    ) -> tuple[bytes, bytes]:
        for number in range(int(timeout / _POLL_INTERVAL)):
            with suppress(subprocess.TimeoutExpired):
                return child.communicate(None if number else data, _POLL_INTERVAL)
            if self.remote is not None:
                with suppress(RuntimeError):  # no task waits for this thread
                    anyio.from_thread.check_cancelled()
            elif number == _SLOW and (name := special_file(self.folder)) is not None:
                raise self._failed(command, f"{name} is no regular file: git waits for it", None)
        raise subprocess.TimeoutExpired(child.args, timeout)

    def _environment(self) -> dict[str, str]:
        env = {"PATH": os.pathsep.join(os.get_exec_path()), **_VARIABLES}
        with suppress(RuntimeError):  # no home, so no user configuration
            env["HOME"] = str(Path.home())
        there = self.remote
        return env if there is None else {**there.environment, **env, **there.allowed}

    def _failed(self, command: str, problem: str, status: int | None) -> GitFailed:
        return GitFailed(command, str(self.folder), problem.strip()[-_TAIL:], status)


@dataclass(frozen=True)
class FileDiffStat:
    """How many lines of a file differ between two trees; None for binary files."""

    path: str
    added: int | None
    removed: int | None

    def __str__(self) -> str:
        counts = "(binary)" if self.added is None else f"+{self.added} -{self.removed}"
        return f"{self.path} {counts}"


def diff_trees(
    run: Callable[..., str], before: str, after: str
) -> tuple[str, tuple[FileDiffStat, ...]]:
    """Return the diff between two trees or commits: a patch for `git apply`, and its statistics."""
    words = ("diff-tree", "-r", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
    text = run(*words, "-p", "--binary", "--abbrev=7", before, after)
    entries = run(*words, "--numstat", "-z", before, after).split("\0")[:-1]
    stats: list[FileDiffStat] = []
    for entry in entries:
        *counts, path = entry.split("\t", 2)
        stats.append(FileDiffStat(path, *(None if n == "-" else int(n) for n in counts)))
    return text, tuple(stats)


def repository_of(folder: Path) -> Git | None:
    """Return the repository that contains a folder, or None.  Runs no git."""
    top = top_of(folder.resolve())
    return None if top is None else Git(top)


@contextmanager
def locked(folder: Path) -> Generator[int]:
    """Lock out other processes and threads; git may inherit the lock and outlive this process."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _listed(output: str) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for block in output.split("\n\n"):
        lines = (line.partition(" ") for line in block.splitlines())
        facts = {word: rest for word, _, rest in lines}
        if "worktree" in facts:
            branch = facts.get("branch")
            head = facts.get("HEAD", "").strip("0") and facts["HEAD"]
            yield facts["worktree"], (head or None, branch and branch.removeprefix(HEADS))


def _holds_something(folder: Path) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return next(entries, None) is not None
    return False


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
