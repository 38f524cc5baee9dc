"""What a task changed, file by file and as a patch, as far as snapshots show it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from coterie.model import instant
from coterie.model.task import is_below
from coterie.workspace.git import FileDiffStat, diff_trees
from coterie.workspace.snapshots.files import CurrentSnapshots
from coterie.workspace.snapshots.repository import (
    REPOSITORY,
    ChangeSpan,
    Snapshot,
    SnapshotRecord,
    SnapshotRepository,
)


def is_part_of(span: ChangeSpan, task: str) -> bool:
    """Whether a span belongs to a task, or to a subtask or ticket below it."""
    return span.task == task or is_below(span.task, task)


@dataclass
class History:
    """What a task did, and what of that has been reverted since."""

    turns: list[ChangeSpan] = field(default_factory=list[ChangeSpan])
    """The turns whose changes are in effect, oldest first."""
    reverts: list[list[ChangeSpan]] = field(default_factory=list[list[ChangeSpan]])
    """The reverts in effect, oldest first; each with its spans, one per folder."""
    _reverted_turns: list[list[ChangeSpan]] = field(default_factory=list[list[ChangeSpan]])

    @classmethod
    def of(cls, spans: Iterable[ChangeSpan]) -> History:
        """Build the history of a task from all its spans, in their order."""
        history = cls()
        number: tuple[str, int] | None = None
        for span in spans:
            if span.before.kind == "turn":
                history.turns.append(span)
            elif number == (span.task, span.number):
                if span.before.kind == "revert":
                    history.reverts[-1].append(span)
            elif span.before.kind == "revert":
                history._revert(span)
            else:
                history._undo()
            number = (span.task, span.number)
        # Drop the turns of subtasks that ran during a turn of their parent.
        turns = history.turns
        history.turns = [turn for turn in turns if not any(_covers(other, turn) for other in turns)]
        return history

    @property
    def reverted_at(self) -> str | None:
        """When everything was reverted; None if any turn is still in effect, or none ever was."""
        if self.turns or not self.reverts:
            return None
        return self.reverts[-1][0].before.at

    def _revert(self, span: ChangeSpan) -> None:
        self.reverts.append([span])
        # After an interrupted revert, or one that skipped files, the turns remain in effect: it can
        # be repeated, and leaves alone what is done already.
        whole = span.after is not None and span.after.whole
        self._reverted_turns.append(self.turns if whole else [])
        self.turns = [] if whole else self.turns

    def _undo(self) -> None:
        self.reverts.pop()
        self.turns = self._reverted_turns.pop() + self.turns


def _covers(whole: ChangeSpan, part: ChangeSpan) -> bool:
    within = whole.after is None or (
        part.after is not None and part.after.sequence < whole.after.sequence
    )
    return (
        within
        and is_below(part.task, whole.task)
        and part.folder == whole.folder
        and whole.before.sequence <= part.before.sequence
    )


@dataclass(frozen=True)
class Blob:
    """A file's mode, and its content's id."""

    mode: str
    id: str


@dataclass(frozen=True)
class FileChange:
    """What a span did to one file; None if the file did not exist then."""

    folder: Path
    path: str
    before: Blob | None
    after: Blob | None
    also: str = ""
    """Another task that worked in the same folder at the same time and changed the file too."""


_TreePair = tuple[str, str]
"""Two trees: before and after."""
_BeforeAfter = tuple[Blob | None, Blob | None]
_NO_BLOB = "0" * 40
_IGNORED = "it was ignored before, so its previous content is unknown"


@dataclass(frozen=True)
class FoundChanges:
    """What was changed, oldest first, and what may have been changed."""

    changes: tuple[FileChange, ...] = ()
    missed: Mapping[tuple[Path, str], str] = field(default_factory=dict[tuple[Path, str], str])
    """Files with too little stored to show or revert them, by folder and path, each with why."""


_LAST = sys.maxsize
"""A sequence number after all stored ones."""


@dataclass(frozen=True)
class TaskChanges:
    """Everything that is stored, from the point of view of one task; the repository is locked."""

    repository: SnapshotRepository
    task: str
    spans: Sequence[ChangeSpan]

    @classmethod
    def read(cls, repository: SnapshotRepository, task: str) -> TaskChanges:
        """Read the spans of all tasks."""
        return cls(repository, task, repository.spans())

    @property
    def own_spans(self) -> list[ChangeSpan]:
        """The spans of the task, and of its subtasks and tickets."""
        return [span for span in self.spans if is_part_of(span, self.task)]

    @property
    def history(self) -> History:
        """What the task did, and what of that has been reverted."""
        return History.of(self.own_spans)

    def of(self, wanted: Sequence[ChangeSpan]) -> FoundChanges:
        """Return what some of its spans changed; a span without an end extends to now."""
        current, now = CurrentSnapshots(self.repository), instant.now()

        def ended(span: ChangeSpan) -> ChangeSpan:
            if span.after is not None:
                return span
            return replace(span, after=SnapshotRecord(current.of(span), now, _LAST))

        folders = {span.folder for span in wanted}
        others = [
            ended(span)
            for span in self.spans
            if span.folder in folders and not is_part_of(span, self.task)
            if span.after is not None or span.is_running
        ]
        return _changes(self.repository, [ended(span) for span in wanted], others)


def _changes(
    repository: SnapshotRepository, spans: Sequence[ChangeSpan], others: Sequence[ChangeSpan]
) -> FoundChanges:
    """Return what spans changed; `others` are spans of other tasks in the same folders."""
    met = [[other for other in others if _overlap(span, other)] for span in spans]
    every = [*spans, *(other for near in met for other in near)]
    differences = _differences(repository, {_trees(span) for span in every})
    changes: list[FileChange] = []
    missed: dict[tuple[Path, str], str] = {}
    for span, near in zip(spans, met, strict=True):
        sides = _outside_repositories(span, differences[_trees(span)])
        also = {path: other.task for other in near for path in differences[_trees(other)]}
        unknown = _unknown(repository, span, sides)
        missed |= {(span.folder, path): why for path, why in unknown.items()}
        changes += (
            FileChange(span.folder, path, *pair, also.get(path, ""))
            for path, pair in sides.items()
            if path not in unknown
        )
    return FoundChanges(tuple(changes), missed)


def _overlap(span: ChangeSpan, other: ChangeSpan) -> bool:
    """Whether two spans of one folder overlap."""
    assert span.after is not None
    assert other.after is not None
    return (
        span.folder == other.folder
        and span.before.sequence < other.after.sequence
        and other.before.sequence < span.after.sequence
    )


def _snapshots(span: ChangeSpan) -> tuple[Snapshot, Snapshot]:
    assert span.after is not None
    return span.before.snapshot, span.after.snapshot


def _trees(span: ChangeSpan) -> _TreePair:
    before, after = _snapshots(span)
    return before.tree, after.tree


def _differences(
    repository: SnapshotRepository, pairs: Iterable[_TreePair]
) -> dict[_TreePair, dict[str, _BeforeAfter]]:
    """Return what differs, by pair of trees and then by path."""
    differences: dict[_TreePair, dict[str, _BeforeAfter]] = {pair: {} for pair in pairs}
    unequal = [pair for pair in differences if pair[0] != pair[1]]
    if not unequal:
        return differences
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    output = repository.run(*words, input="".join(f"{a} {b}\n" for a, b in unequal))
    for pair in unequal:
        head = f"{pair[0]} {pair[1]}\n"
        assert output.startswith(head), "git answers in the order it was asked"
        output = output.removeprefix(head)
        while output.startswith(":"):
            facts, path, output = output.split("\0", 2)
            old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
            before = None if old == _NO_BLOB else Blob(old_mode, old)
            differences[pair][path] = (before, None if new == _NO_BLOB else Blob(new_mode, new))
    return differences


def _outside_repositories(
    span: ChangeSpan, sides: Mapping[str, _BeforeAfter]
) -> dict[str, _BeforeAfter]:
    """Leave out changes in a repository inside the folder, which has spans of its own."""
    excluded = (file for snapshot in _snapshots(span) for file in snapshot.excluded)
    inner = tuple(f"{file.path}/" for file in excluded if file.why == REPOSITORY)
    return {path: pair for path, pair in sides.items() if not path.startswith(inner)}


def _unknown(
    repository: SnapshotRepository, span: ChangeSpan, sides: Mapping[str, _BeforeAfter]
) -> dict[str, str]:
    """Return files whose changes cannot be determined from what is stored, each with why."""
    before, after = _snapshots(span)
    first = {file.path: file for file in before.excluded}
    last = {file.path: file for file in after.excluded}
    changed = {path for path, _ in before.fingerprints ^ after.fingerprints}
    unknown = {
        path: (last.get(path) or first[path]).why
        for path in sorted(first.keys() | last.keys())
        if path in sides or path in changed
        if path not in first or first[path].why != REPOSITORY
    }
    if any(path.rpartition("/")[2] == ".gitignore" for path in sides):
        new = [path for path, (old, _) in sides.items() if old is None]
        unknown |= dict.fromkeys(_ignored(repository, before.tree, new), _IGNORED)
    return unknown


def _ignored(repository: SnapshotRepository, tree: str, paths: Sequence[str]) -> list[str]:
    """Return which of these files are ignored by the `.gitignore` files of a tree."""
    rules = dict(_rules(repository.run("ls-tree", "-r", "-z", tree)))
    if not rules or not paths:
        return []
    texts = repository.contents(rules.values())
    with tempfile.TemporaryDirectory() as scratch:
        for path, name in rules.items():
            file = Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(texts[name])
        words = ("check-ignore", "-z", "--stdin", "--no-index")
        env = {"GIT_LITERAL_PATHSPECS": "0"}
        given = "".join(f"{path}\0" for path in paths)
        shown = repository.run(*words, work=Path(scratch), input=given, env=env, accept=(0, 1))
    return shown.split("\0")[:-1]


def _rules(listed: str) -> Iterator[tuple[str, str]]:
    for entry in listed.split("\0")[:-1]:
        facts, _, path = entry.partition("\t")
        mode, _, name = facts.split(" ")
        if path.rpartition("/")[2] == ".gitignore" and mode.startswith("100"):
            yield path, name


def group_by_folder(changes: Iterable[FileChange]) -> dict[Path, list[FileChange]]:
    """Group changes by folder, keeping their order."""
    groups: dict[Path, list[FileChange]] = {}
    for change in changes:
        groups.setdefault(change.folder, []).append(change)
    return groups


@dataclass(frozen=True)
class Patch:
    """The changes in one folder."""

    folder: Path
    text: str
    """In git's format; bytes that are not UTF-8 become surrogates."""
    files: tuple[FileDiffStat, ...]


def patch_of(
    repository: SnapshotRepository, folder: Path, prefix: str, changes: Iterable[FileChange]
) -> Patch:
    """Return the changes to one folder, merging those of a file if nobody else came between.

    `prefix` is put before their paths, to make them relative to the project's root.
    """
    text, files = "", dict[str, FileDiffStat]()
    for layer in _split_into_patches(changes):
        before, after = (_tree(repository, prefix, layer, side) for side in (0, 1))
        more, stats = diff_trees(repository.run, before, after)
        text += more
        for stat in stats:
            files[stat.path] = _sum(files.get(stat.path), stat)
    return Patch(folder, text, tuple(files[path] for path in sorted(files)))


def _split_into_patches(changes: Iterable[FileChange]) -> Iterator[dict[str, _BeforeAfter]]:
    """Arrange the changes as few consecutive patches, each with at most one change per file."""
    chains: dict[str, list[_BeforeAfter]] = {}
    for change in changes:
        chain = chains.setdefault(change.path, [])
        if chain and chain[-1][1] == change.before:
            chain[-1] = (chain[-1][0], change.after)
        else:
            chain.append((change.before, change.after))
    real = {path: [pair for pair in chain if pair[0] != pair[1]] for path, chain in chains.items()}
    if any(str(parent) in real for path in real for parent in PurePosixPath(path).parents):
        # A path is a file in one change and a folder in another: no tree can have both.
        yield from ({path: pair} for path, chain in real.items() for pair in chain)
        return
    for depth in range(max(map(len, real.values()), default=0)):
        yield {path: chain[depth] for path, chain in real.items() if depth < len(chain)}


def _tree(
    repository: SnapshotRepository, prefix: str, layer: Mapping[str, _BeforeAfter], side: int
) -> str:
    """Return a tree of exactly these files."""
    lines = [
        f"{blob.mode} {blob.id}\t{prefix}{path}\0"
        for path, sides in layer.items()
        if (blob := sides[side]) is not None
    ]
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        repository.run("update-index", "-z", "--index-info", input="".join(lines), env=env)
        return repository.run("write-tree", env=env).strip()


def _sum(first: FileDiffStat | None, then: FileDiffStat) -> FileDiffStat:
    if first is None:
        return then
    if first.added is None or first.removed is None or then.added is None or then.removed is None:
        return FileDiffStat(then.path, None, None)
    return FileDiffStat(then.path, first.added + then.added, first.removed + then.removed)
