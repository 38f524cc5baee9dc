"""The one place that runs git; safe in a repository that nobody here wrote.  All of it blocks.

Whose configuration counts:

- The user's own configuration and the system's are read, as when the user types `git`: who they
  are, line endings, Git LFS.  So GIT_CONFIG_NOSYSTEM is not set.
- The repository's own is never given to git.  It does not come with a clone, but with a folder
  that was copied or unpacked it does, and an agent may have written to it.  Git is told of a
  directory of ours in its place (`git_directory`), with a configuration of ours (`git_settings`):
  there are no hooks, and what only `.git/config` knows does not exist.
- The environment is built from nothing, and names the git directory and the work tree: nothing
  is discovered, and no submodule is entered.
- No other repository is spoken to, but one that the user names themselves (`git_remote`).
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

from coterie.errors import GitFailed
from coterie.model.remote import GitRemote
from coterie.model.workspace import UNFINISHED
from coterie.workspace.git_directory import (
    GivenSettings,
    empty_folder,
    git_directory,
    prepare_for_writing,
)
from coterie.workspace.worktree import HEADS, Worktree, checkout_at, folder_of, line_of, top_of

PATIENCE = 60.0
CHECKOUT = 900.0
"""How long writing a whole tree may take, on the slowest disk with the largest repository."""
_LOOK = 0.25  # seconds: how often it is looked whether a remote is still waited for
KEPT = "refs/coterie/kept"
"""Where commits of a worktree whose folder is gone are found again."""

_TAIL = 2000
_UNFINISHED_FILES = f":(exclude,glob)**/{UNFINISHED}"
"""Files of ours that a crash left before they were renamed."""
_VARIABLES = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_EDITOR": ":",
    # What is shown and taken is what is there, not what a ref or a file says to show in its place.
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_TERMINAL_PROMPT": "0",
}
_SHOWING = {"diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "show"}
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_OF_STATUS = ("--ignore-submodules=dirty",)
"""To see whether files of a submodule changed, git would start another git in it."""
_WRITES_HEAD = frozenset({"checkout", "commit", "merge", "reset", "worktree"})
"""Commands that write the branch that is checked out, or its log."""


@dataclass(frozen=True)
class LinkedWorktree:
    """A linked worktree, as its repository knows it."""

    path: Path
    git_dir: Path
    head: str | None
    branch: str | None
    """Its short name; None where HEAD is detached."""

    @property
    def alive(self) -> bool:
        """Whether its folder is still there and agrees."""
        found = Worktree.at(self.path)
        return found is not None and found.git_dir == self.git_dir


@dataclass(frozen=True)
class Git:
    """Git in one folder: the top of a working tree."""

    folder: Path
    worktree: Worktree | None = None
    """Which repository is meant; without it `.git` in the folder says, where agents write."""
    held: tuple[int, ...] = ()
    """Open files, such as a lock, that stay open as long as git runs, even without us."""
    given: GivenSettings | None = None
    """Of a repository that is ours: its configuration."""
    remote: GitRemote | None = None
    """The one repository that may be spoken to; git then ends with the task that waits for it."""

    def run(
        self,
        *words: str,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
        accept: Collection[int] = (0,),
    ) -> str:
        """What git prints; raises GitFailed on another exit status, or when it takes too long."""
        first, *more = words
        options = _NO_PROGRAMS if first in _SHOWING else _OF_STATUS if first == "status" else ()
        command = " ".join(words[:2]) if first == "worktree" else first
        every = ("--no-pager", first, *options, *more)
        directories, lock = self._directories(command, words)
        git = replace(self, held=(*self.held, lock))
        named = {**directories, **(env or {})}
        status, out, errors = git._child(command, every, input, named, patience)
        if status not in accept:
            raise self._failed(command, errors, status)
        return out

    @property
    def common_dir(self) -> Path:
        """The `.git` that all worktrees of this repository share."""
        return self._place("rev-parse").common

    def head(self) -> str | None:
        """The commit that is checked out; None in a repository without one."""
        return self.commit("HEAD")

    def commit(self, name: str) -> str | None:
        """The commit that a branch, ref or revision means; None if there is no such thing."""
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return self.run(*words, accept=(0, 1)).strip() or None

    def worktrees(self) -> tuple[LinkedWorktree, ...]:
        """The linked worktrees of this repository, also those whose folder is gone."""
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
        """A new repository in a folder of ours."""
        git = cls(folder)
        words = ("init", "--quiet", "-b", branch)
        env = {"GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)}
        status, _, errors = git._child("init", words, None, env, PATIENCE)
        if status != 0:
            raise git._failed("init", errors, status)
        return git

    def add_worktree(self, path: Path, branch: str, at: str, *, checkout: bool = True) -> None:
        """Make a worktree on a branch, which begins `at` this commit if there is none yet."""
        exists = self.commit(f"{HEADS}{branch}") is not None
        which = (str(path), branch) if exists else ("--no-track", "-b", branch, str(path), at)
        files = () if checkout else ("--no-checkout",)
        with self._refusing("worktree add"):
            prepare_for_writing(self._place("worktree add"), f"{HEADS}{branch}")
        self.run("worktree", "add", "--quiet", *files, *which, patience=CHECKOUT)

    def forget(self, linked: LinkedWorktree) -> str | None:
        """Drop what the repository still knows of a worktree whose folder is gone.

        Commits that are on no branch are kept: the ref that does so, None if there are none.
        """
        ref = None
        if linked.head and not linked.branch:
            ref = f"{KEPT}/{linked.git_dir.name}/{linked.head[:12]}"
            self.run("update-ref", ref, linked.head)
        shutil.rmtree(linked.git_dir)
        return ref

    def snapshot(self, message: str) -> str:
        """A commit of all that is in the folder and not ignored; HEAD's own if nothing changed.

        No branch, no index and no file is touched; the commit has no name yet.
        """
        head, before = self._head_and_tree()
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            self.run("read-tree", head or "--empty", env=index)
            self._refuse_repositories(index)  # `add` would start another git in each
            try:
                self.run("add", "--all", "--", ".", _UNFINISHED_FILES, env=index, patience=CHECKOUT)
            except GitFailed:
                self._refuse_new_repositories(index)  # one without a commit cannot be added at all
                raise
            self._refuse_repositories(index)
            tree = self.run("write-tree", env=index).strip()
        if head and tree == before:
            return head
        parents = ("-p", head) if head else ()
        words = ("commit-tree", tree, *parents, "-m", message)
        return self.run(*words, env=self.identity()).strip()

    def _head_and_tree(self) -> tuple[str | None, str | None]:
        asked = "HEAD^{commit}\nHEAD^{tree}\n"
        lines = self.run("cat-file", "--batch-check", input=asked).splitlines()
        head, tree = (None if line.endswith(" missing") else line.split()[0] for line in lines)
        return head, tree

    def identity(self) -> dict[str, str]:
        """Who commits: whoever the user told git they are, else Coterie."""
        words = ("config", "--name-only", "--get-regexp", r"^user\.(name|email)$")
        known = self.run(*words, accept=(0, 1)).split()
        return {
            f"GIT_{role}_{key.upper()}": fallback
            for key, fallback in (("name", "Coterie"), ("email", "coterie@localhost"))
            if f"user.{key}" not in known
            for role in ("AUTHOR", "COMMITTER")
        }

    def _refuse_repositories(self, index: Mapping[str, str]) -> None:
        """A repository inside the folder is no more than a number to a commit."""
        for entry in self.run("ls-files", "--stage", "-z", env=index).split("\0"):
            facts, _, name = entry.partition("\t")
            if not facts.startswith("160000 "):
                continue
            if os.path.lexists(self.folder / name / ".git"):
                raise self._repository_within(name)
            if _holds_something(self.folder / name):
                problem = f"{name} is a submodule, and a commit holds none of its files"
                raise self._failed("add", f"{problem}: run it in the submodule", None)

    def _refuse_new_repositories(self, index: Mapping[str, str]) -> None:
        """The same of those that the index does not know: git lists them as folders."""
        words = ("ls-files", "--others", "--exclude-standard", "-z")
        for name in self.run(*words, env=index).split("\0"):
            if name.endswith("/"):
                raise self._repository_within(name[:-1])

    def _repository_within(self, name: str) -> GitFailed:
        return self._failed(
            "add", f"{name} is a repository of its own, which a commit does not hold", None
        )

    def _place(self, command: str) -> Worktree:
        """Which repository this is."""
        found = self.worktree or checkout_at(self.folder)
        if found is None:
            pointer = self.folder / ".git"
            problem = f"{pointer} leads to a git directory that does not name this folder"
            there = os.path.lexists(pointer)
            raise self._failed(command, problem if there else "not a git repository", None)
        return found

    def _directories(self, command: str, words: Sequence[str]) -> tuple[dict[str, str], int]:
        """All directories that git would else look for, or read of in a configuration; and the
        lock that keeps ours there."""
        place = self._place(command)
        with self._refusing(command):
            common, lock = git_directory(place, self.given)
            if words[0] == "update-ref":
                prepare_for_writing(place, next(word for word in words if word[:5] == "refs/"))
            elif words[0] in _WRITES_HEAD:
                prepare_for_writing(place, line_of(place.git_dir / "HEAD").removeprefix("ref: "))
        # A merge of trees would look into submodules that are checked out.
        work = empty_folder(common) if words[0] == "merge-tree" else self.folder
        named = {"GIT_DIR": place.git_dir, "GIT_COMMON_DIR": common, "GIT_WORK_TREE": work}
        return {name: str(path) for name, path in named.items()}, lock

    @contextmanager
    def _refusing(self, command: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError) as refused:
            raise self._failed(command, str(refused), None) from refused

    def _child(
        self,
        command: str,
        words: Sequence[str],
        input: str | None,
        env: Mapping[str, str],
        patience: float,
    ) -> tuple[int, str, str]:
        try:
            child = subprocess.Popen(
                ["git", *words],
                cwd=env.get("GIT_WORK_TREE", self.folder),
                env={**self._environment(), **env},
                stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=self.held,
                start_new_session=True,  # without a terminal: nobody is asked for a passphrase
            )
        except OSError as error:
            absent = shutil.which("git") is None
            problem = "git is not installed" if absent else f"git cannot be run: {error}"
            raise self._failed(command, problem, None) from error
        with child:
            try:
                data = None if input is None else input.encode("utf-8", "surrogateescape")
                out, errors = self._communicate(child, data, patience)
            except BaseException as error:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # git and what it started
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise self._failed(command, f"it took over {patience:g} s", None) from None
        return child.returncode, _text(out), _text(errors)

    def _communicate(
        self, child: subprocess.Popen[bytes], data: bytes | None, patience: float
    ) -> tuple[bytes, bytes]:
        if self.remote is None:
            return child.communicate(data, patience)
        import anyio.from_thread

        for _ in range(int(patience / _LOOK)):
            with suppress(subprocess.TimeoutExpired):
                return child.communicate(data, _LOOK)
            data = None  # it is under way
            with suppress(RuntimeError):  # nobody waits for this thread
                anyio.from_thread.check_cancelled()
        raise subprocess.TimeoutExpired(child.args, patience)

    def _environment(self) -> dict[str, str]:
        env = {"PATH": os.pathsep.join(os.get_exec_path()), **_VARIABLES}
        with suppress(RuntimeError):  # no home: then there is no configuration of a user's
            env["HOME"] = str(Path.home())
        there = self.remote
        return env if there is None else {**there.environment, **env, **there.allowed}

    def _failed(self, command: str, problem: str, status: int | None) -> GitFailed:
        return GitFailed(command, str(self.folder), problem.strip()[-_TAIL:], status)


@dataclass(frozen=True)
class FileDiffStat:
    """How many lines of a file differ between two trees; None of what is no text."""

    path: str
    added: int | None
    removed: int | None

    def __str__(self) -> str:
        counts = "(binary)" if self.added is None else f"+{self.added} -{self.removed}"
        return f"{self.path} {counts}"


def diff_trees(
    run: Callable[..., str], before: str, after: str
) -> tuple[str, tuple[FileDiffStat, ...]]:
    """What differs between two trees or commits: a patch that `git apply` takes, and its size."""
    words = ("diff-tree", "-r", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
    text = run(*words, "-p", "--binary", "--abbrev=7", before, after)
    entries = run(*words, "--numstat", "-z", before, after).split("\0")[:-1]
    stats: list[FileDiffStat] = []
    for entry in entries:
        *counts, path = entry.split("\t", 2)
        stats.append(FileDiffStat(path, *(None if n == "-" else int(n) for n in counts)))
    return text, tuple(stats)


def repository_of(folder: Path) -> Git | None:
    """The repository that a folder is in, None if it is in none.  Runs no git."""
    top = top_of(folder.resolve())
    return None if top is None else Git(top)


@contextmanager
def locked(folder: Path) -> Generator[int]:
    """Keep other processes and threads out; hand the lock on to git, which may outlive us."""
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
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
