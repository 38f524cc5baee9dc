"""Load what other packages provide by entry points, however broken they may be."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, cast

from coterie.errors import CoterieError, UsageError
from coterie.model.journal import WorkflowChanged
from coterie.model.task import Ended, TaskCreated
from coterie.ports.running import Context, Parked, Workflow

_OURS = (CoterieError, Parked, WorkflowChanged)


def load_entry_point(point: EntryPoint, what: str) -> Any:
    """Load the object of an entry point; raises UsageError if its package is broken.

    `what` names its kind in the message: `workflow`, `agent`.
    """
    with attributed_errors(point, what, "cannot be loaded: {}"):
        return point.load()


@contextmanager
def attributed_errors(point: EntryPoint, what: str, problem: str) -> Generator[None]:
    """Raise an error in another package's code as a UsageError that names the package."""
    try:
        yield
    except Exception as error:
        if _is_ours(error):
            raise
        message = f"The {what} {point.name} ({point.value}) {problem.format(error)}."
        package = f" {point.dist.name}" if point.dist else ""
        raise UsageError(message, f"Fix or remove the package{package}.") from error


def _is_ours(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return cast("ExceptionGroup[Exception]", error).split(_OURS)[1] is None
    return isinstance(error, _OURS)


@dataclass(frozen=True)
class InstalledWorkflow:
    """A workflow of another package; an error in its code is raised as a UsageError."""

    point: EntryPoint
    workflow: Workflow

    @classmethod
    def load(cls, point: EntryPoint) -> InstalledWorkflow:
        """Load the workflow, or the class that makes it; raises UsageError if it is broken."""
        loaded = load_entry_point(point, "workflow")
        with attributed_errors(point, "workflow", "cannot be used: {}"):
            installed = cls(point, loaded() if isinstance(loaded, type) else loaded)
            assert isinstance(installed.version, int), f"its version is {installed.version!r}"
            return installed

    @property
    def name(self) -> str:
        """The name of its entry point, by which tasks know it."""
        return self.point.name

    @property
    def version(self) -> int:
        """The version it states."""
        return self.workflow.version

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry out the task."""
        with attributed_errors(self.point, "workflow", "failed: {!r}"):
            return await self.workflow.run(task, context)
