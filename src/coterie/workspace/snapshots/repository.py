"""Where snapshots are stored: a git repository of our own, next to the user's and never in it.

It lies where agents may write, so git reads only its objects and refs.  Its attributes override
those of the material and turn off every conversion: files are stored byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil

from coterie.errors import NotOurs
from coterie.workspace.beneath import names_in, read_file, read_regular, real_folder, write_file
from coterie.workspace.git import CHECKOUT_TIMEOUT, Git, locked
from coterie.workspace.git_directory import FixedSettings
from coterie.workspace.worktree import Worktree

SpanKind = Literal["turn", "revert", "undo"]
"""Who changed files in a span: an agent in its turn, or Coterie reverting such changes."""

REPOSITORY = "a repository of its own"
"""Why a folder is excluded; it has snapshots of its own, unless it is new."""


class ExcludedFile(NamedTuple):
    """A file or folder that exists but is not stored."""

    path: str
    why: str
    fingerprint: str
    """Changes when the file does."""


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder at one instant."""

    folder: Path
    tree: str
    excluded: tuple[ExcludedFile, ...] = ()

    def differs_from(self, other: Snapshot) -> bool:
        """Whether anything changed, as far as snapshots show it."""
        return self.tree != other.tree or self.fingerprints != other.fingerprints

    @property
    def fingerprints(self) -> set[tuple[str, str]]:
        """What tells whether excluded files changed: not why they are, which may be reworded."""
        return {(file.path, file.fingerprint) for file in self.excluded}

    def stored(self, root: Path) -> list[object]:
        """Return JSON data; folders in the project are relative, so that it can be moved."""
        return [stored_folder(self.folder, root), self.tree, [list(one) for one in self.excluded]]

    @classmethod
    def of_stored(cls, kept: Sequence[Any], root: Path) -> Snapshot:
        """Restore what `stored` returned."""
        folder, tree, excluded = kept
        return cls(root / folder, tree, tuple(ExcludedFile(*fields) for fields in excluded))


def stored_folder(folder: Path, root: Path) -> str:
    """Return the path under which a folder is stored."""
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)


@dataclass(frozen=True)
class SnapshotRecord:
    """A snapshot as it is stored for a task."""

    snapshot: Snapshot
    at: str
    """For display only: the clock may be set back, so no decision depends on it."""
    sequence: int = 0
    """Its position in the order of all records ever stored."""
    kind: SpanKind = "turn"
    whole: bool = True
    """For a revert: whether all changes of the task were reverted."""
    pid: int = 0
    started: float = 0.0
    """The process that stored it: its id, and when it started."""


@dataclass(frozen=True)
class ChangeSpan:
    """A folder from just before something could change it to just after."""

    task: str
    number: int
    """Numbers what a task did, from 1; spans with the same number belong together."""
    part: int
    """Distinguishes the folders of one number."""
    before: SnapshotRecord
    after: SnapshotRecord | None = None
    """None while it is open, and if it was interrupted."""
    file: str = ""
    """The file that stores it until it has refs."""

    @property
    def folder(self) -> Path:
        """The folder that may have been changed."""
        return self.before.snapshot.folder

    @property
    def is_running(self) -> bool:
        """Whether it has no end yet because the process that began it still runs."""
        if self.after is not None:
            return False
        with suppress(psutil.Error):
            return psutil.Process(self.before.pid).create_time() == self.before.started
        return False


STATE = "state"
"""The folder of small files: the turns under way, and the last scan of each folder."""
OPEN = "open-"
REFS = "refs/tasks"
_STORED_AS = {"place": "sequence", "does": "kind"}
"""Stored names of fields that have been renamed since."""
_HEAD = "ref: refs/heads/nobody\n"
_SETTINGS = FixedSettings(
    """\
[core]
	repositoryformatversion = 0
	bare = true
	filemode = true
	symlinks = true
	autocrlf = false
	safecrlf = false
	attributesFile = /dev/null
	hooksPath = /dev/null
	logAllRefUpdates = false
	protectHFS = false
	protectNTFS = false
[gc]
	auto = 0
[maintenance]
	auto = false
""",
    "* -text -ident -filter !eol !working-tree-encoding !diff !merge\n",
)
_ALTERNATES = "objects/info/alternates"
"""Would make git look for objects elsewhere."""

_NO_CONFIGURATION = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_AUTHOR_NAME": "Coterie",
    "GIT_AUTHOR_EMAIL": "coterie@localhost",
    "GIT_COMMITTER_NAME": "Coterie",
    "GIT_COMMITTER_EMAIL": "coterie@localhost",
}
COUNT = "count"
"""The file that holds the last sequence number."""
NO_FILES = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The empty tree, which git knows without storing it."""


@dataclass(frozen=True)
class SnapshotRepository:
    """A bare repository of our own, used with any folder as its working tree.  Blocks.

    A span is two refs, `refs/tasks/<task>/<number>/<part>/before` and `after`, to commits whose
    messages hold the rest of the record.  Writing requires the lock that `exclusive` takes.
    """

    root: Path
    """The project.  Folders inside it are stored relative to it, so that it can be moved."""
    folder: Path
    """Where it is: `.coterie/snapshots.git` of the project."""
    pass_fds: tuple[int, ...] = ()

    @contextmanager
    def exclusive(self) -> Generator[SnapshotRepository]:
        """Lock the repository; git inherits the lock, as it may briefly outlive this process."""
        real_folder(self.folder.parent, self.folder.name, make=True)
        with locked(self.folder) as lock:
            self._repair()
            yield replace(self, pass_fds=(lock,))

    def index(self, folder: Path) -> Path:
        """Return the path of git's index for a folder, which saves rereading unchanged files."""
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]
        return self.folder / "indexes" / name

    def git(self, work: Path) -> Git:
        """Return git with this repository, and `work` as its working tree."""
        return Git(work, Worktree(work, self.folder, self.folder), self.pass_fds, _SETTINGS)

    def run(
        self,
        *words: str,
        work: Path | None = None,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        accept: Collection[int] = (0,),
    ) -> str:
        """Return git's output, independent of anybody's configuration."""
        git, every = self.git(work or self.folder), {**_NO_CONFIGURATION, **(env or {})}
        return git.run(*words, input=input, env=every, timeout=CHECKOUT_TIMEOUT, accept=accept)

    def contents(self, ids: Iterable[str]) -> dict[str, bytes]:
        wanted = sorted(set(ids))
        output = self.run("cat-file", "--batch", input="".join(f"{blob}\n" for blob in wanted))
        data, position, contents = output.encode("utf-8", "surrogateescape"), 0, dict[str, bytes]()
        for blob in wanted:
            end = data.index(b"\n", position)
            size = int(data[position:end].split(b" ")[2])
            contents[blob] = data[end + 1 : end + 1 + size]
            position = end + size + 2
        return contents

    def spans(self, task: str | None = None) -> list[ChangeSpan]:
        """Return the spans of one task or of all, in the order in which they began."""
        if not (self.folder / "refs").is_dir():
            return []  # then no turn is under way either
        below = REFS if task is None else f"{REFS}/{task}"
        shown = "%(refname)%00%(tree)%00%(contents:subject)"
        listed = self.run("for-each-ref", f"--format={shown}", below)
        records = dict(self._record(line) for line in listed.splitlines())
        spans = [
            ChangeSpan(*key, before, records.get((key, "after")))
            for (key, side), before in records.items()
            if side == "before"
        ]
        spans += self._open_turns(spans)
        spans = [span for span in spans if task in (None, span.task)]
        return sorted(spans, key=lambda span: span.before.sequence)

    def drop_task(self, task: str) -> None:
        """Delete the spans of one task; the next `prune` removes what only they used."""
        refs = self.run("for-each-ref", "--format=%(refname)", f"{REFS}/{task}").split()
        for ref in refs:
            self.run("update-ref", "-d", ref)

    def prune(self) -> None:
        """Remove what no span uses, unless a turn is under way, which is not a span yet."""
        names = names_in(self.folder, STATE)
        if any(name.startswith(OPEN) for name in names):
            return
        for name in names:  # the scans of folders refer to what no span uses
            (self.folder / STATE / name).unlink(missing_ok=True)
        self.run("prune", "--expire=now")

    def begin(
        self, task: str, number: int, snapshots: Iterable[SnapshotRecord]
    ) -> list[ChangeSpan]:
        """Store folders before something changes them."""
        process = {"pid": os.getpid(), "started": psutil.Process().create_time()}
        spans = [
            ChangeSpan(task, number, part, self._numbered(replace(before, **process)))
            for part, before in enumerate(snapshots)
        ]
        for span in spans:
            self._write(span, "before", span.before)
        return spans

    def end(self, span: ChangeSpan, after: SnapshotRecord) -> None:
        """Store a folder once nothing changes it any more.

        A turn without refs that has changed nothing leaves no record.
        """
        before = span.before
        is_changed = after.snapshot.differs_from(before.snapshot)
        if span.file and is_changed:
            self._write(span, "before", before)
        if is_changed or not span.file:
            self._write(span, "after", self._numbered(replace(after, kind=before.kind)))

    def forget(self, file: str) -> None:
        """Remove the file of a turn that has ended."""
        (self.folder / STATE / file).unlink(missing_ok=True)

    def _open_turns(self, known: Sequence[ChangeSpan]) -> Iterator[ChangeSpan]:
        """Yield the turns that have no refs yet: those under way, and interrupted ones."""
        last = dict[str, int]()
        for span in known:
            last[span.task] = max(span.number, last.get(span.task, 0))
        stored = {(span.task, span.before) for span in known}
        for file in sorted(names_in(self.folder, STATE)):
            if not file.startswith(OPEN):
                continue
            with suppress(OSError, NotOurs, ValueError, KeyError, TypeError):
                kept = json.loads(read_file(self.folder, STATE, file))
                spans = list(self._open_spans(file, kept, last.get(kept["task"], 0) + 1))
                if (kept["task"], spans[0].before) not in stored:
                    last[kept["task"]] = spans[0].number
                    yield from spans

    def _open_spans(self, file: str, kept: Mapping[str, Any], number: int) -> Iterator[ChangeSpan]:
        facts = {name: kept[name] for name in ("at", "sequence", "pid", "started")}
        for part, stored in enumerate(kept["snapshots"]):
            before = SnapshotRecord(Snapshot.of_stored(stored, self.root), **facts)
            yield ChangeSpan(kept["task"], number, part, before, file=file)

    def _numbered(self, record: SnapshotRecord) -> SnapshotRecord:
        """Return the record with the next sequence number."""
        try:
            last = int(read_file(self.folder, COUNT))
        except (OSError, ValueError, NotOurs):
            records = (record for span in self.spans() for record in (span.before, span.after))
            last = max((record.sequence for record in records if record), default=0)
        write_file(self.folder, (COUNT,), f"{last + 1}\n".encode())
        return replace(record, sequence=last + 1)

    def _write(self, span: ChangeSpan, side: str, record: SnapshotRecord) -> None:
        facts = asdict(record)
        excluded = facts.pop("snapshot")["excluded"]
        facts |= {key: facts.pop(name) for key, name in _STORED_AS.items()}
        facts["folder"] = stored_folder(record.snapshot.folder, self.root)
        facts["left_out"] = [list(file) for file in excluded]
        words = ("commit-tree", record.snapshot.tree, "-F", "-")
        commit = self.run(*words, input=json.dumps(facts)).strip()
        ref = f"{REFS}/{span.task}/{span.number}/{span.part}/{side}"
        # We hold the lock, so this was left by a killed git.
        (self.folder / f"{ref}.lock").unlink(missing_ok=True)
        self.run("update-ref", ref, commit)

    def _record(self, line: str) -> tuple[tuple[tuple[str, int, int], str], SnapshotRecord]:
        ref, tree, message = line.split("\0")
        task, number, part, side = ref.removeprefix(f"{REFS}/").rsplit("/", 3)
        stored: dict[str, Any] = json.loads(message)
        excluded = tuple(ExcludedFile(*fields) for fields in stored.pop("left_out"))
        folder = self.root / stored.pop("folder")
        facts = {_STORED_AS.get(key, key): value for key, value in stored.items()}
        record = SnapshotRecord(Snapshot(folder, tree, excluded), **facts)
        return ((task, int(number), int(part)), side), record

    def _repair(self) -> None:
        for name in ("objects", "refs", "indexes", STATE):
            real_folder(self.folder, name, make=True)
        (self.folder / _ALTERNATES).unlink(missing_ok=True)
        _write_if_other(self.folder / "HEAD", _HEAD)


def _write_if_other(path: Path, text: str) -> None:
    with suppress(OSError):
        if read_regular(path, len(text)) == text.encode():
            return
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with fresh.open("x", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
