"""The names of the workflows there are: ours, and those that other packages bring."""

from __future__ import annotations

from coterie.config.mistakes import did_you_mean, listing, quoted
from coterie.errors import UsageError
from coterie.model.team import OUR_WORKFLOWS

GROUP = "coterie.workflows"
"""An entry point of this group is a `Workflow`, or a class that makes one without arguments."""


def workflow_names() -> tuple[str, ...]:
    """Every name that a team may state as its workflow.  Reads every package's metadata."""
    from importlib.metadata import entry_points

    return (*OUR_WORKFLOWS, *sorted(entry_points(group=GROUP).names - {*OUR_WORKFLOWS}))


def unknown_workflow(name: str) -> UsageError:
    """The error for a workflow that there is not, with those there are."""
    known = workflow_names()
    guess = did_you_mean(name, known)
    return UsageError(
        f"No workflow {quoted(name)}; there are {listing(known)}.{guess}",
        f"A workflow of another package is an entry point of the group {GROUP}.",
    )
