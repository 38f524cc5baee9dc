"""What a workflow has already done, by the names of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.errors import StepRepeated
from coterie.model.interaction import Response
from coterie.model.journal import Step, StepKind

CHANGED = "workflow_changed/"
"""Below this stand the questions about a changed workflow, and with them what was decided."""

ASIDE = "aside/"
"""Below this stand steps that a fork has set aside."""

ASKED = "/asked/"
"""Below a turn, this stands before what its agent asked on the way."""


class WorkflowChanged(Exception):
    """The workflow no longer asks for what is recorded."""

    def __init__(self, step: str, difference: str, now: str) -> None:
        super().__init__(f"{step}: {difference}")
        self.step = step
        self.difference = difference
        self.question: str = f"{CHANGED}{step}@{now}"
        """The name of the step that asks what to do; another change asks again."""


class Journal:
    """The recorded steps of one task, handed out as the workflow comes to them again."""

    def __init__(self, task_id: str, steps: Sequence[Step]) -> None:
        """`steps` in the order in which they were opened."""
        self.task_id = task_id
        self._steps, self._kept = _decided(steps)
        self.superseded: tuple[str, ...] = tuple(
            step.name
            for step in steps
            if step.name not in self._steps and not step.name.startswith(ASIDE)
        )
        """Steps that a fork has made count no more, and that still stand under their names."""
        self._asked: set[str] = set()
        self._ahead = {n for n in self._steps if ASKED not in n and not n.startswith(CHANGED)}

    @property
    def replaying(self) -> bool:
        """Whether recorded steps lie ahead: what comes next has already happened."""
        return bool(self._ahead)

    def find(self, name: str, kind: StepKind, digest: str) -> Step | None:
        """The recorded step of that name; None when it is new."""
        if name in self._asked:
            raise StepRepeated(self.task_id, name)
        self._asked.add(name)
        step = self._steps.get(name)
        if step is None:
            return None
        if step.result is not None and step.digest != digest and name not in self._kept:
            was = f"it was recorded as {step.kind} {step.digest} and is now {kind} {digest}"
            raise WorkflowChanged(name, was, digest)
        self._ahead.discard(name)
        return step

    def asked_below(self, name: str) -> list[Step]:
        """What an agent asked on the way of a turn, in order."""
        prefix = f"{name}{ASKED}"
        return [step for known, step in self._steps.items() if known.startswith(prefix)]

    def answers(self) -> Iterator[tuple[Step, Response]]:
        """All that was asked on the way of a turn and answered, in order."""
        for name, step in self._steps.items():
            if ASKED in name and step.kind == "ask" and step.result is not None:
                yield step, Response.model_validate_json(step.result)

    def children(self) -> int:
        """How many subtasks were handed out so far."""
        return sum(name.endswith(".child") and ASKED in name for name in self._steps)

    def caught_up(self) -> None:
        """Nothing recorded lies ahead any more: the workflow goes by what it finds kept."""
        self._ahead.clear()

    def check_all_asked(self) -> None:
        """At the end of a workflow: a recorded step it never came to means that it changed."""
        for name in self._steps:
            if name in self._ahead and name not in self._kept:
                raise WorkflowChanged(name, "it is recorded but no longer asked for", "gone")


def _decided(steps: Sequence[Step]) -> tuple[dict[str, Step], frozenset[str]]:
    """The steps that count, and those whose recorded result is kept whatever the code says.

    A fork sets aside what was recorded from the changed step up to the question about it.
    """
    counted: dict[str, Step] = {}
    kept: set[str] = set()
    for step in steps:
        if step.name.startswith(ASIDE):
            continue
        choice = _choice(step)
        about = step.name.removeprefix(CHANGED).rpartition("@")[0]
        if choice == "keep":
            kept.add(about)
        elif choice == "fork" and about in counted:
            names = list(counted)
            for name in names[names.index(about) :]:
                if not name.startswith(CHANGED):
                    del counted[name]
        counted[step.name] = step
    return counted, frozenset(kept)


def _choice(step: Step) -> str | None:
    if not step.name.startswith(CHANGED) or step.result is None:
        return None
    return Response.model_validate_json(step.result).selected_option_id
