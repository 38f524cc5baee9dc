"""Taking back what a task did, on the record, so that this too can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import UsageError
from coterie.model import instant
from coterie.workspace.snapshots.keeping import keep
from coterie.workspace.snapshots.looking import Look, by_folder
from coterie.workspace.snapshots.undoing import Plan, Stays, Step, carry_out, plan
from coterie.workspace.snapshots.values import Change, Does, Moment, Span


@dataclass(frozen=True)
class Reverted:
    """What became of each file whose changes were to be taken back."""

    restored: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Restored as well, but what others changed since is still in them."""
    removed: tuple[str, ...] = ()
    kept: tuple[Stays, ...] = ()
    """Left as they are, with the reason."""

    @property
    def did_something(self) -> bool:
        """Whether any file was changed, or would be."""
        return bool(self.restored or self.merged or self.removed)


@dataclass(frozen=True)
class Reverting:
    """Takes changes back; the lock is held."""

    look: Look
    shown: Callable[[Path, str], str]
    """How a file of a folder is called."""
    dry_run: bool = False

    def revert(self) -> Reverted:
        """Take back what the task changed; what others did since stays."""
        history, task = self.look.history, self.look.task
        if history.reverted_at is not None:
            raise UsageError(f"{task} was reverted already.", f"coterie revert {task} --undo")
        found = self.look.found(history.turns)
        reverted = self._take_back("revert", history.turns, found.changes)
        missed = tuple(Stays(self.shown(one.folder, one.path), one.why) for one in found.missed)
        return replace(reverted, kept=reverted.kept + missed)

    def undo(self) -> Reverted:
        """Take back the last revert."""
        reverts, task = self.look.history.reverts, self.look.task
        if not reverts:
            raise UsageError(f"{task} was not reverted.", f"coterie diff {task}")
        return self._take_back("undo", reverts[-1], self.look.found(reverts[-1]).changes)

    def _take_back(self, does: Does, spans: Sequence[Span], changes: Sequence[Change]) -> Reverted:
        shadow = self.look.record.shadow
        plans = [plan(shadow, folder, its) for folder, its in by_folder(changes).items()]
        if self.dry_run or not any(made.steps for made in plans):
            return self._told(plans)
        first = {span.folder: span.before.snapshot.tree for span in reversed(spans)}
        return self._told(self._on_record(does, plans, first))

    def _on_record(
        self, does: Does, plans: Sequence[Plan], first: Mapping[Path, str]
    ) -> list[Plan]:
        """Carry plans out between two snapshots of each folder that something is done in."""
        record, task = self.look.record, self.look.task
        numbers = [span.number for span in self.look.mine if span.task == task]
        active = [made for made in plans if made.steps]
        begun = [self._moment(made, does) for made in active]
        spans = record.begin(task, max(numbers, default=0) + 1, begun)
        done = [carry_out(made, self._folders(first[made.folder])) for made in active]
        done += (made for made in plans if not made.steps)
        whole = not any(made.stays for made in done)
        for span, made in zip(spans, done, strict=False):
            record.end(span, self._moment(made, does, whole=whole))
        return done

    def _moment(self, made: Plan, does: Does, *, whole: bool = False) -> Moment:
        snapshot = keep(self.look.record.shadow, made.folder)[0]
        return Moment(snapshot, instant.now(), does=does, whole=whole)

    def _folders(self, tree: str) -> frozenset[str]:
        words = ("ls-tree", "-r", "-d", "-z", "--name-only", tree)
        return frozenset(self.look.record.shadow.run(*words).split("\0"))

    def _told(self, plans: Sequence[Plan]) -> Reverted:
        def names(wanted: Callable[[Step], bool]) -> tuple[str, ...]:
            steps = ((made.folder, step) for made in plans for step in made.steps)
            return tuple(self.shown(folder, step.path) for folder, step in steps if wanted(step))

        return Reverted(
            names(lambda step: step.wanted is not None and not step.merged),
            names(lambda step: step.wanted is not None and step.merged),
            names(lambda step: step.wanted is None),
            tuple(
                replace(one, path=self.shown(made.folder, one.path))
                for made in plans
                for one in made.stays
            ),
        )
