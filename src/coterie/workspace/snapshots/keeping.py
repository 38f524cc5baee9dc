"""Keeping the files of a folder as they are, and the record of who kept them for what."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

from coterie.errors import GitFailed
from coterie.workspace.snapshots.listing import listed
from coterie.workspace.snapshots.shadow import NO_FILES, Shadow
from coterie.workspace.snapshots.values import REPOSITORY, LeftOut, Moment, Snapshot, Span

_REFS = "refs/tasks"
_MANY = 500
"""So many new files go into one pack, which is faster to write and half as large."""
_PACKED = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.bigFileThreshold",
    "GIT_CONFIG_VALUE_0": "1",
    "GIT_CONFIG_KEY_1": "core.compression",
    "GIT_CONFIG_VALUE_1": "1",
}


# -- files -------------------------------------------------------------------------------------


def keep(shadow: Shadow, folder: Path) -> list[Snapshot]:
    """The files of a folder, then those of every repository inside it; the lock is held."""
    try:
        first = _keep_one(shadow, folder)
    except GitFailed as failed:
        if failed.status is None:
            raise
        # A file may have shrunk while it was read, or an index be no index: once more, anew.
        shadow.index(folder).unlink(missing_ok=True)
        first = _keep_one(shadow, folder)
    inner = [folder / one.path for one in first.left_out if one.why == REPOSITORY]
    return [first, *(kept for place in inner for kept in keep(shadow, place))]


def _keep_one(shadow: Shadow, folder: Path) -> Snapshot:
    index = shadow.index(folder)
    # Nobody else is here, so this is what a killed git left.
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    known = shadow.run("ls-files", "-z", work=folder, env=env).split("\0")[:-1]
    found = listed(folder, shadow.git(folder), known, env)
    held = set(known)
    gone = [name for name in found.gone if name in held]
    if gone:
        words = ("update-index", "-z", "--force-remove", "--stdin")
        shadow.run(*words, work=folder, input=_lines(gone), env=env)
    if found.kept:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        how = _PACKED if len(found.kept) - len(held) > _MANY else {}
        shadow.run(*words, work=folder, input=_lines(found.kept), env={**env, **how})
    tree = shadow.run("write-tree", work=folder, env=env).strip()
    return Snapshot(folder, tree, tuple(found.left_out))


def _lines(names: Iterable[str]) -> str:
    return "".join(f"{name}\0" for name in names)


@dataclass(frozen=True)
class Present:
    """Folders as they are now, each looked at once; the lock is held."""

    shadow: Shadow
    _seen: dict[Path, Snapshot] = field(default_factory=dict[Path, Snapshot])

    def of(self, span: Span) -> Snapshot:
        """What a span that has no end has come to."""
        folder = span.folder
        if folder not in self._seen and folder.is_dir():
            for kept in keep(self.shadow, folder):
                self._seen[kept.folder] = kept
        if folder in self._seen:
            return self._seen[folder]
        # Of a folder that is gone nothing is known; of one inside a folder, that it is gone.
        return Snapshot(folder, NO_FILES) if span.part else span.before.snapshot


# -- the record --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """Which snapshots were kept, as refs: `<task>/<number>/<part>/before` and `after`."""

    shadow: Shadow
    root: Path
    """Folders inside it are named from here, so that a project may be moved as a whole."""

    def spans(self, task: str | None = None) -> list[Span]:
        """The spans of one task or of all, in the order in which they began."""
        if not self.shadow.exists:
            return []
        below = _REFS if task is None else f"{_REFS}/{task}"
        shown = "%(refname)%00%(tree)%00%(contents:subject)"
        told = self.shadow.run("for-each-ref", f"--format={shown}", below)
        moments = dict(self._moment(line) for line in told.splitlines())
        found = [
            Span(*key[:3], moment, moments.get((*key[:3], "after")))
            for key, moment in moments.items()
            if key[3] == "before"
        ]
        return sorted(found, key=lambda span: span.before.place)

    def is_known(self, task: str) -> bool:
        """Whether anything was kept for a task or a part of it; no git is run."""
        refs = self.shadow.folder / _REFS
        packed = (self.shadow.folder / "packed-refs").exists()  # somebody tidied up
        return packed or (refs / task).is_dir() or any(refs.glob(f"{task}.*"))

    def begin(self, task: str, number: int, moments: Iterable[Moment]) -> list[Span]:
        """Record what folders were before something changes them; the lock is held."""
        spans = [
            Span(task, number, part, self._placed(replace(moment, **_this_process())))
            for part, moment in enumerate(moments)
        ]
        for span in spans:
            self._write(span, "before", span.before)
        return spans

    def end(self, span: Span, after: Moment) -> None:
        """Record what a folder was when nothing changed it any more; the lock is held."""
        self._write(span, "after", self._placed(replace(after, does=span.does)))

    def _placed(self, moment: Moment) -> Moment:
        """The moment, as the next of all."""
        counter = self.shadow.folder / "count"
        try:
            last = int(counter.read_text())
        except (OSError, ValueError):
            ends = (one for span in self.spans() for one in (span.before, span.after) if one)
            last = max((one.place for one in ends), default=0)
        counter.write_text(f"{last + 1}\n")
        return replace(moment, place=last + 1)

    def _write(self, span: Span, side: str, moment: Moment) -> None:
        facts = asdict(moment)
        snapshot = facts.pop("snapshot")
        facts["folder"] = self._named(moment.snapshot.folder)
        facts["left_out"] = [list(one.values()) for one in snapshot["left_out"]]
        tree = moment.snapshot.tree
        made = self.shadow.run("commit-tree", tree, "-F", "-", input=json.dumps(facts)).strip()
        ref = f"{_REFS}/{span.task}/{span.number}/{span.part}/{side}"
        # What a killed git left; nobody else is here.
        (self.shadow.folder / f"{ref}.lock").unlink(missing_ok=True)
        self.shadow.run("update-ref", ref, made)

    def _moment(self, line: str) -> tuple[tuple[str, int, int, str], Moment]:
        ref, tree, told = line.split("\0")
        task, number, part, side = ref.removeprefix(f"{_REFS}/").split("/")
        facts = json.loads(told)
        left_out = tuple(LeftOut(*one) for one in facts.pop("left_out"))
        folder = self.root / facts.pop("folder")
        moment = Moment(Snapshot(folder, tree, left_out), **facts)
        return (task, int(number), int(part), side), moment

    def _named(self, folder: Path) -> str:
        inside = folder.is_relative_to(self.root)
        return str(folder.relative_to(self.root) if inside else folder)


def _this_process() -> dict[str, float]:
    return {"pid": os.getpid(), "started": psutil.Process().create_time()}


def lasts(span: Span) -> bool:
    """Whether a span has no end because whoever began it is still at it."""
    if span.after is not None:
        return False
    with suppress(psutil.Error):
        return psutil.Process(span.before.pid).create_time() == span.before.started
    return False
