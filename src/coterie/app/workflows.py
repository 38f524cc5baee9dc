"""The workflows there are: a table for ours, entry points for those of others."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from coterie.config import workflow_names as names
from coterie.errors import UsageError
from coterie.ports import Workflow
from coterie.workflows.chat import Chat, Solo
from coterie.workflows.tickets import Tickets


class Workflows(dict[str, Workflow]):
    """Workflows by name; one of another package is loaded when it is first asked for."""

    def check(self, name: str) -> Workflow:
        """The workflow of that name; raises UsageError where there is none.  May read files."""
        return self[name]

    def __missing__(self, name: str) -> Workflow:
        from importlib.metadata import entry_points

        for point in entry_points(group=names.GROUP, name=name):
            try:
                loaded: Any = point.load()
            except (ImportError, AttributeError) as error:
                problem = f"The workflow {name} ({point.value}) cannot be loaded: {error}."
                raise UsageError(problem) from error
            workflow: Workflow = loaded() if isinstance(loaded, type) else loaded
            return self.setdefault(name, workflow)
        raise names.unknown_workflow(name)


def workflow_names() -> tuple[str, ...]:
    """Ours, then those of other packages."""
    return names.workflow_names()


async def load_workflow(name: str) -> Workflow:
    """The workflow of that name; raises UsageError where there is none."""
    return WORKFLOWS.get(name) or await anyio.to_thread.run_sync(WORKFLOWS.check, name)


WORKFLOWS = Workflows({workflow.name: workflow for workflow in (Chat(), Solo(), Tickets())})
