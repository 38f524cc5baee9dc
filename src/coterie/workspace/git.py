"""The one place that runs git; safe in a repository that nobody here wrote.  All of it blocks.

Whose words count:

- The user's own configuration and the system's are read, as when the user types `git`: who they
  are, which folders are safe, line endings, Git LFS.  So GIT_CONFIG_NOSYSTEM is not set.
- Of the repository's own configuration nothing is run.  It does not come with a clone, but with
  a folder that was copied or unpacked it does, and an agent may have written to it.  So no
  hooks, no fsmonitor, no pager, editor, signing, diff program or transport, and a filter that
  only `.git/config` knows is passed over: files stay as they are committed.
- The environment is built from nothing: a GIT_DIR or GIT_INDEX_FILE of ours, which there is one
  of when Coterie is started from a hook, would lead git to another repository.

Nothing here merges; who does (`ticket_ground`) refuses the merge drivers of a repository.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import GitFailed
from coterie.model.workspace import UNFINISHED
from coterie.workspace.worktree import HEADS, Worktree, common_of, folder_of, top_of

PATIENCE = 60.0
CHECKOUT = 900.0
"""How long writing a whole tree may take, on the slowest disk with the largest repository."""
KEPT = "refs/coterie/kept"
"""Where the work of a removed worktree is found again."""

_TAIL = 2000
_NOBODYS = f":(exclude,glob)**/{UNFINISHED}"
"""What a crash left behind of our own, half-way to its place."""
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
_SHOWING = frozenset(
    {"diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "show"}
)
_PLAINLY = ("--no-ext-diff", "--no-textconv")
_USERS = frozenset({"system", "global", "command"})
"""Where a setting stands that the user or the machine made, and no repository."""


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
    """Which repository is meant, so that git does not ask the folder, where an agent works."""
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
        """What git prints; raises GitFailed when it ends with anything else, or not in time."""
        settings = [word for setting in self._settings() for word in ("-c", setting)]
        first, *more = words
        plainly = _PLAINLY if first in _SHOWING else ()
        command = " ".join(words[:2]) if first == "worktree" else first
        every = ("--no-pager", *settings, first, *plainly, *more)
        status, out, said = self._child(command, every, input, env or {}, patience)
        if status not in accept:
            raise self._failed(command, said, status)
        return out

    # -- what there is ---------------------------------------------------------------------------

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
        try:
            return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
        except GitFailed as failed:
            if failed.status == 1:
                return None
            raise

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

    # -- worktrees -------------------------------------------------------------------------------

    def add_worktree(self, path: Path, branch: str, at: str, *, checkout: bool = True) -> None:
        """Make a worktree on a branch, which begins `at` this commit if there is none yet."""
        exists = self.commit(f"{HEADS}{branch}") is not None
        which = (str(path), branch) if exists else ("--no-track", "-b", branch, str(path), at)
        files = () if checkout else ("--no-checkout",)
        self.run("worktree", "add", "--quiet", *files, *which, patience=CHECKOUT)

    def remove_worktree(self, path: Path) -> str | None:
        """Delete a worktree, its work kept before; the ref that keeps it, None if there was none.

        Its branch stays.  Files that git ignores are not kept.  Raises GitFailed, and then
        nothing was deleted.
        """
        path = path.resolve()
        linked = next((one for one in self.worktrees() if one.path == path), None)
        if linked is None:
            raise self._failed("worktree remove", f"{path} is no worktree of this repository", None)
        if not linked.alive:
            return self.forget(linked)
        tree = Git(path, Worktree(path, linked.git_dir, self.common_dir))
        ref = self._keep(linked, tree.snapshot(f"Kept before {path} was removed"))
        self.run("worktree", "remove", "--force", str(path), patience=CHECKOUT)
        return ref

    def forget(self, linked: LinkedWorktree) -> str | None:
        """Drop what the repository still knows of a worktree whose folder is gone.

        Commits that are on no branch are kept: the ref that does so, None if there are none.
        """
        ref = self._keep(linked, linked.head) if linked.head and not linked.branch else None
        shutil.rmtree(linked.git_dir)
        return ref

    def _keep(self, linked: LinkedWorktree, commit: str) -> str:
        ref = f"{KEPT}/{linked.git_dir.name}/{commit[:12]}"
        self.run("update-ref", ref, commit)
        return ref

    # -- commits ---------------------------------------------------------------------------------

    def snapshot(self, message: str) -> str:
        """A commit of all that is in the folder and not ignored; HEAD's own if nothing changed.

        No branch, no index and no file is touched; the commit has no name yet.
        """
        head = self.head()
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            self.run("read-tree", head or "--empty", env=index)
            self.run("add", "--all", "--", ".", _NOBODYS, env=index, patience=CHECKOUT)
            self._refuse_repositories(index)
            tree = self.run("write-tree", env=index).strip()
        if head and tree == self.run("rev-parse", f"{head}^{{tree}}").strip():
            return head
        parents = ("-p", head) if head else ()
        words = ("commit-tree", tree, *parents, "-m", message)
        return self.run(*words, env=self.identity()).strip()

    def identity(self) -> dict[str, str]:
        """Who commits: whoever the user told git they are, else Coterie."""
        known: dict[str, str] = {}
        for key, variable, fallback in (
            ("user.name", "NAME", "Coterie"),
            ("user.email", "EMAIL", "coterie@localhost"),
        ):
            try:
                self.run("config", "--get", key)
            except GitFailed:
                known |= {f"GIT_{who}_{variable}": fallback for who in ("AUTHOR", "COMMITTER")}
        return known

    def _refuse_repositories(self, index: Mapping[str, str]) -> None:
        """A repository inside the folder is no more than a number to a commit."""
        for entry in self.run("ls-files", "--stage", "-z", env=index).split("\0"):
            facts, _, name = entry.partition("\t")
            if facts.startswith("160000 ") and (self.folder / name / ".git").exists():
                said = f"{name} is a repository of its own, which a commit does not hold"
                raise self._failed("add", said, None)

    # -- the child -------------------------------------------------------------------------------

    def _settings(self) -> Iterator[str]:
        yield from _SETTINGS
        for name in sorted(self._repository_filters()):
            if "=" in name:
                raise self._failed("config", f"its config has a filter called {name}", None)
            yield from (f"filter.{name}.{key}=" for key in ("clean", "smudge", "process"))
            yield f"filter.{name}.required=false"

    def _repository_filters(self) -> set[str]:
        words = ("config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\.")
        status, out, said = self._child("config", words, None, {}, PATIENCE)
        if status not in (0, 1):  # 1: there are none
            raise self._failed("config", said, status)
        told = out.split("\0")[:-1]
        pairs = zip(told[::2], told[1::2], strict=True)
        return {
            key.removeprefix("filter.").rpartition(".")[0]
            for scope, key in pairs
            if scope not in _USERS
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
                env={**_environment(), **self._place(), **env},
                stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=self.held,
                process_group=0,
            )
        except OSError as error:
            problem = "git is not installed" if _absent() else f"git cannot be run: {error}"
            raise self._failed(command, problem, None) from error
        with child:
            try:
                given = None if input is None else input.encode("utf-8", "surrogateescape")
                out, said = child.communicate(given, patience)
            except subprocess.TimeoutExpired:
                _end(child)
                raise self._failed(command, f"it took over {patience:g} s", None) from None
            except BaseException:
                _end(child)
                raise
        return child.returncode, _text(out), _text(said)

    def _place(self) -> dict[str, str]:
        if self.worktree is None:
            return {}
        return {
            "GIT_DIR": str(self.worktree.git_dir),
            "GIT_COMMON_DIR": str(self.worktree.common),
            "GIT_WORK_TREE": str(self.folder),
        }

    def _failed(self, command: str, said: str, status: int | None) -> GitFailed:
        return GitFailed(command, str(self.folder), said.strip()[-_TAIL:], status)


def repository_of(folder: Path) -> Git | None:
    """The repository that a folder is in, None if it is in none; without git nothing is run."""
    top = top_of(folder.resolve())
    return None if top is None else Git(top)


def _environment() -> dict[str, str]:
    env = {"PATH": os.pathsep.join(os.get_exec_path()), **_VARIABLES}
    with suppress(RuntimeError):  # nobody's home: then there is no configuration of a user's
        env["HOME"] = str(Path.home())
    return env


def _listed(told: str) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for block in told.split("\n\n"):
        lines = (line.partition(" ") for line in block.splitlines())
        facts = {word: rest for word, _, rest in lines}
        if "worktree" in facts:
            branch = facts.get("branch")
            head = facts.get("HEAD", "").strip("0") and facts["HEAD"]
            yield facts["worktree"], (head or None, branch and branch.removeprefix(HEADS))


def _absent() -> bool:
    return shutil.which("git") is None


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
