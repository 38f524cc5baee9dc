"""The one place that runs git; safe in a repository that nobody here wrote.  All of it blocks.

Whose configuration counts:

- The user's own configuration and the system's are read, as when the user types `git`: who they
  are, which folders are safe, line endings, Git LFS.  So GIT_CONFIG_NOSYSTEM is not set.
- Of the repository's own configuration nothing is run.  It does not come with a clone, but with
  a folder that was copied or unpacked it does, and an agent may have written to it.  So no
  hooks, no fsmonitor, no pager, editor, signing, diff program or transport, and a filter that
  only `.git/config` knows is passed over: files stay as they are committed.
- The environment is built from nothing: a GIT_DIR or GIT_INDEX_FILE of ours, which there is one
  of when Coterie is started from a hook, would lead git to another repository.

Nothing here merges; `ticket_worktrees` does, and refuses the merge drivers of a repository.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import GitFailed
from coterie.model.workspace import UNFINISHED
from coterie.workspace.worktree import HEADS, Worktree, common_of, folder_of, named_by, top_of

PATIENCE = 60.0
CHECKOUT = 900.0
"""How long writing a whole tree may take, on the slowest disk with the largest repository."""
KEPT = "refs/coterie/kept"
"""Where commits of a worktree whose folder is gone are found again."""

_TAIL = 2000
_UNFINISHED_FILES = f":(exclude,glob)**/{UNFINISHED}"
"""Files of ours that a crash left before they were renamed."""
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.safecrlf=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    # A folder of the material may look like a repository, with a configuration of its own.
    "safe.bareRepository=explicit",
)
_VARIABLES = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_EDITOR": ":",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_TERMINAL_PROMPT": "0",
}
_SHOWING = {"diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "show"}
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_USER_SCOPES = frozenset({"system", "global", "command"})
"""Scopes of settings that the user or the machine made, and no repository."""
_FILTER_SECTION = re.compile(rb"\[\s*filter", re.IGNORECASE)
_FILTER_NAME = re.compile(rb'\[filter[ \t]+"((?:[^"\\\n]|\\.)*)"\]', re.IGNORECASE)
_LARGEST_CONFIG = 1_000_000
_INCLUDE = re.compile(rb"\[\s*include", re.IGNORECASE)


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
    """Which repository is meant; without it git reads `.git` in the folder, where agents write."""
    held: tuple[int, ...] = ()
    """Open files, such as a lock, that stay open as long as git runs, even without us."""

    def run(
        self,
        *words: str,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
        accept: Collection[int] = (0,),
    ) -> str:
        """What git prints; raises GitFailed on another exit status, or when it takes too long."""
        settings = [word for setting in self._settings() for word in ("-c", setting)]
        first, *more = words
        options = _NO_PROGRAMS if first in _SHOWING else ()
        command = " ".join(words[:2]) if first == "worktree" else first
        every = ("--no-pager", *settings, first, *options, *more)
        status, out, errors = self._child(command, every, input, env or {}, patience)
        if status not in accept:
            raise self._failed(command, errors, status)
        return out

    @property
    def common_dir(self) -> Path:
        """The `.git` that all worktrees of this repository share."""
        if self.worktree is not None:
            return self.worktree.common
        found = common_of(self.folder / ".git")
        if found is None:
            raise self._failed("rev-parse", "not a git repository", None)
        return found

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

    def add_worktree(self, path: Path, branch: str, at: str, *, checkout: bool = True) -> None:
        """Make a worktree on a branch, which begins `at` this commit if there is none yet."""
        exists = self.commit(f"{HEADS}{branch}") is not None
        which = (str(path), branch) if exists else ("--no-track", "-b", branch, str(path), at)
        files = () if checkout else ("--no-checkout",)
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
        head = self.head()
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            self.run("read-tree", head or "--empty", env=index)
            self.run("add", "--all", "--", ".", _UNFINISHED_FILES, env=index, patience=CHECKOUT)
            self._refuse_repositories(index)
            tree = self.run("write-tree", env=index).strip()
        if head and tree == self.run("rev-parse", f"{head}^{{tree}}").strip():
            return head
        parents = ("-p", head) if head else ()
        words = ("commit-tree", tree, *parents, "-m", message)
        return self.run(*words, env=self.identity()).strip()

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
            if facts.startswith("160000 ") and (self.folder / name / ".git").exists():
                problem = f"{name} is a repository of its own, which a commit does not hold"
                raise self._failed("add", problem, None)

    def _settings(self) -> Iterator[str]:
        yield from _SETTINGS
        for name in sorted(self._repository_filters()):
            if "=" in name:
                raise self._failed("config", f"its config has a filter called {name}", None)
            yield from (f"filter.{name}.{key}=" for key in ("clean", "smudge", "process"))
            yield f"filter.{name}.required=false"

    def _repository_filters(self) -> set[str]:
        """The filters that the repository's own configuration names.

        Its files are read here, as a git of its own for this would double the cost of each call;
        git is asked where they include others, or where only git knows how to read them.
        """
        config = self._repository_config()
        if config is None or _INCLUDE.search(config):
            return self._filters_by_git()
        names = _FILTER_NAME.findall(config)
        if len(names) != len(_FILTER_SECTION.findall(config)):
            return self._filters_by_git()
        return {_text(re.sub(rb"\\(.)", rb"\1", name)) for name in names}

    def _repository_config(self) -> bytes | None:
        """The text of the repository's configuration; None where it cannot be found or read."""
        pointer = self.folder / ".git"
        common = self.worktree.common if self.worktree else common_of(pointer)
        git_dir = self.worktree.git_dir if self.worktree else named_by(pointer) or common
        if common is None or git_dir is None:
            return None
        texts = [_config_text(path) for path in (common / "config", git_dir / "config.worktree")]
        return None if None in texts else b"\n".join(text for text in texts if text)

    def _filters_by_git(self) -> set[str]:
        words = ("config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\.")
        status, out, errors = self._child("config", words, None, {}, PATIENCE)
        if status not in (0, 1):  # 1: there are none
            raise self._failed("config", errors, status)
        fields = out.split("\0")[:-1]
        return {
            key.removeprefix("filter.").rpartition(".")[0]
            for scope, key in zip(fields[::2], fields[1::2], strict=True)
            if scope not in _USER_SCOPES
        }

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
                cwd=self.folder,
                env={**self._environment(), **env},
                stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=self.held,
                process_group=0,
            )
        except OSError as error:
            absent = shutil.which("git") is None
            problem = "git is not installed" if absent else f"git cannot be run: {error}"
            raise self._failed(command, problem, None) from error
        with child:
            try:
                data = None if input is None else input.encode("utf-8", "surrogateescape")
                out, errors = child.communicate(data, patience)
            except BaseException as error:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # git and what it started
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise self._failed(command, f"it took over {patience:g} s", None) from None
        return child.returncode, _text(out), _text(errors)

    def _environment(self) -> dict[str, str]:
        env = {"PATH": os.pathsep.join(os.get_exec_path()), **_VARIABLES}
        with suppress(RuntimeError):  # no home: then there is no configuration of a user's
            env["HOME"] = str(Path.home())
        if self.worktree is not None:
            env["GIT_DIR"] = str(self.worktree.git_dir)
            env["GIT_COMMON_DIR"] = str(self.worktree.common)
            env["GIT_WORK_TREE"] = str(self.folder)
        return env

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


def _config_text(path: Path) -> bytes | None:
    """What is in a configuration file, if anything; None where reading it could take for ever."""
    try:
        facts = path.stat()
        regular = stat.S_ISREG(facts.st_mode) and facts.st_size <= _LARGEST_CONFIG
        return path.read_bytes() if regular else None
    except FileNotFoundError:
        return b""
    except OSError:
        return None


def _listed(output: str) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for block in output.split("\n\n"):
        lines = (line.partition(" ") for line in block.splitlines())
        facts = {word: rest for word, _, rest in lines}
        if "worktree" in facts:
            branch = facts.get("branch")
            head = facts.get("HEAD", "").strip("0") and facts["HEAD"]
            yield facts["worktree"], (head or None, branch and branch.removeprefix(HEADS))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
