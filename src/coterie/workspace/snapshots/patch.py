"""Changes as a patch that `git apply` takes, and as figures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from coterie.workspace.snapshots.repository import Blob, FileChange, SnapshotRepository

_Sides = tuple[Blob | None, Blob | None]
_DIFF = ("diff-tree", "-r", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
_NONE = f"0 {'0' * 40}"


@dataclass(frozen=True)
class FileDiffStat:
    """How much of a file was changed."""

    path: str
    """From the project's root where the file is inside it."""
    added: int | None
    """Lines; None of what is no text."""
    removed: int | None

    def __str__(self) -> str:
        return f"{self.path} (binary)" if self.added is None else self._counted()

    def _counted(self) -> str:
        return f"{self.path} +{self.added} -{self.removed}"


@dataclass(frozen=True)
class Patch:
    """What was changed in one folder."""

    folder: Path
    prefix: str
    """What stands before its paths, so that they are right from the project's root."""
    text: str
    """In git's format; bytes that are no UTF-8 stand in it as surrogates."""
    files: tuple[FileDiffStat, ...]


def patch_of(
    shadow: SnapshotRepository, folder: Path, prefix: str, changes: Iterable[FileChange]
) -> Patch:
    """The changes to one folder, those of one file put together where nobody came between."""
    text, files = "", dict[str, FileDiffStat]()
    for layer in _layers(changes):
        before, after = (_tree(shadow, prefix, layer, side) for side in (0, 1))
        words = (*_DIFF, "-p", "--binary", "--abbrev=7", before, after)
        text += shadow.run(*words)
        for one in _figures(shadow.run(*_DIFF, "--numstat", "-z", before, after)):
            files[one.path] = _sum(files.get(one.path), one)
    return Patch(folder, prefix, text, tuple(files[path] for path in sorted(files)))


def _layers(changes: Iterable[FileChange]) -> Iterator[dict[str, _Sides]]:
    """The changes as few patches, one after the other: a file stands in each but once."""
    chains: dict[str, list[_Sides]] = {}
    for change in changes:
        chain = chains.setdefault(change.path, [])
        if chain and chain[-1][1] == change.before:
            chain[-1] = (chain[-1][0], change.after)
        else:
            chain.append((change.before, change.after))
    real = {path: [pair for pair in chain if pair[0] != pair[1]] for path, chain in chains.items()}
    if any(str(parent) in real for path in real for parent in PurePosixPath(path).parents):
        # A file here is a folder there: no tree has both.
        yield from ({path: pair} for path, chain in real.items() for pair in chain)
        return
    for depth in range(max(map(len, real.values()), default=0)):
        yield {path: chain[depth] for path, chain in real.items() if depth < len(chain)}


def _tree(shadow: SnapshotRepository, prefix: str, layer: Mapping[str, _Sides], side: int) -> str:
    """A tree of nothing but these files."""
    lines = [
        f"{blob.mode} {blob.id}\t{prefix}{path}\0"
        for path, sides in layer.items()
        if (blob := sides[side]) is not None
    ]
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        shadow.run("update-index", "-z", "--index-info", input="".join(lines), env=env)
        return shadow.run("write-tree", env=env).strip()


def _figures(told: str) -> Iterator[FileDiffStat]:
    for entry in told.split("\0")[:-1]:
        added, removed, path = entry.split("\t", 2)
        yield FileDiffStat(path, _number(added), _number(removed))


def _number(told: str) -> int | None:
    return None if told == "-" else int(told)


def _sum(one: FileDiffStat | None, other: FileDiffStat) -> FileDiffStat:
    if one is None:
        return other
    known = [one.added, one.removed, other.added, other.removed]
    if None in known:
        return FileDiffStat(other.path, None, None)
    return FileDiffStat(
        other.path, (one.added or 0) + (other.added or 0), (one.removed or 0) + (other.removed or 0)
    )
