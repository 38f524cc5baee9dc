"""What a workflow has already done, by the names of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.errors import StepRepeated
from coterie.model import step_name
from coterie.model.interaction import Response
from coterie.model.journal import Step, StepKind, digest
from coterie.model.step_name import StepName, parse


class WorkflowChanged(Exception):
    """The workflow no longer asks for what is recorded."""

    def __init__(self, step: str, difference: str, digest: str) -> None:
        super().__init__(f"{step}: {difference}")
        self.step = step
        self.difference = difference
        self.digest = digest
        """What the workflow asks for now: another change is another question."""


class Journal:
    """The recorded steps of one task, handed out as the workflow comes to them again."""

    def __init__(self, task_id: str, steps: Sequence[Step]) -> None:
        """`steps` in the order in which they were opened."""
        self.task_id = task_id
        self._steps, self._kept = _after_decisions(steps)
        self.superseded: tuple[str, ...] = tuple(
            step.name
            for step in steps
            if step.name not in self._steps and not parse(step.name).is_superseded
        )
        """Steps that a fork supersedes, and that still stand under their names."""
        self._used: set[str] = set()
        self._ahead = {name for name in self._steps if parse(name).is_own}

    @property
    def replaying(self) -> bool:
        """Whether recorded steps lie ahead: what comes next has already happened."""
        return bool(self._ahead)

    def begin(self, name: str, kind: StepKind, intent: object) -> tuple[Step, bool]:
        """The step of that name as it is recorded, or a new one; and whether it is new.

        Raises WorkflowChanged if something else is recorded under the name, open or closed.
        """
        if name in self._used:
            raise StepRepeated(self.task_id, name)
        self._used.add(name)
        meaning = digest(kind, intent)
        step = self._steps.get(name)
        if step is None:
            return Step(self.task_id, name, kind, meaning, ""), True
        if step.digest != meaning and name not in self._kept:
            was = f"it was recorded as {step.kind} {step.digest} and is now {kind} {meaning}"
            raise WorkflowChanged(name, was, meaning)
        self._ahead.discard(name)
        return step, False

    def asked_in(self, turn: str) -> list[tuple[StepName, Step]]:
        """What an agent asked in a turn, in order."""
        named = [(parse(name), step) for name, step in self._steps.items()]
        return [(name, step) for name, step in named if name.asked_in == turn]

    def answers(self) -> Iterator[tuple[StepName, Step, Response]]:
        """All that was asked in turns and answered, in order."""
        for text, step in self._steps.items():
            name = parse(text)
            if name.asked_in is not None and step.kind == "ask" and step.result is not None:
                yield name, step, Response.model_validate_json(step.result)

    def subtasks(self) -> int:
        """How many subtasks were handed out so far."""
        return sum(parse(name).is_subtask for name in self._steps)

    def caught_up(self) -> None:
        """Nothing recorded lies ahead any more: the workflow goes by what it finds kept."""
        self._ahead.clear()

    def check_all_used(self) -> None:
        """At the end of a workflow: a recorded step it never came to means that it changed."""
        for name in self._steps:
            if name in self._ahead and name not in self._kept:
                raise WorkflowChanged(name, "it is recorded but no longer asked for", "gone")


def question_about(change: WorkflowChanged, number: int) -> str:
    """The name of the step that asks what to do about a changed workflow."""
    return step_name.workflow_changed(change.step, change.digest, number)


def _after_decisions(steps: Sequence[Step]) -> tuple[dict[str, Step], frozenset[str]]:
    """The steps that count, and those whose recorded result is kept whatever the code says.

    A fork supersedes what was recorded from the changed step up to the question about it.
    """
    counted: dict[str, Step] = {}
    kept: set[str] = set()
    for step in steps:
        name = parse(step.name)
        if name.is_superseded:
            continue
        if name.changed is not None and step.result is not None:
            choice = Response.model_validate_json(step.result).selected_option_id
            if choice == "keep":
                kept.add(name.changed)
            elif choice == "fork" and name.changed in counted:
                names = list(counted)
                for later in names[names.index(name.changed) :]:
                    if parse(later).changed is None:
                        del counted[later]
        counted[step.name] = step
    return counted, frozenset(kept)
