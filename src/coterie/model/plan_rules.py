"""Whether a plan can be carried out: known dependencies, no cycles, a worker for every part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from coterie.model.envelope import Plan, PlanTask
from coterie.model.team import Member

MOST_TASKS = 1_000
"""The maximum size of a plan: nobody could read more before approving it."""


def capable(workers: Iterable[Member], capability: str) -> list[Member]:
    """The workers with a capability; if there are none, those without any stated capability."""
    known = list(workers)
    able = [worker for worker in known if capability in worker.capabilities]
    return able or [worker for worker in known if not worker.capabilities]


def problems(plan: Plan, workers: Sequence[Member], done: Iterable[str] = ()) -> list[str]:
    """The problems of a plan, each in one sentence; none if it can be carried out.

    `workers` are the members to which a part may be assigned; `done` are parts of an earlier plan
    on which a part of this one may depend.
    """
    if len(plan.tasks) > MOST_TASKS:
        return [f"the plan has {len(plan.tasks)} tasks; the maximum is {MOST_TASKS}"]
    faults: list[str] = []
    ids = [task.task_id for task in plan.tasks]
    known = set(ids) | set(done)
    seen: set[str] = set()
    for task in plan.tasks:
        if task.task_id in seen:
            faults.append(f"{task.task_id} appears twice")
        seen.add(task.task_id)
        faults += _of_task(task, known, workers)
    path = cycle({task.task_id: task.dependencies for task in plan.tasks})
    if path:
        faults.append(f"{' -> '.join(path)} is a cycle: none of them could ever begin")
    return faults


def _of_task(task: PlanTask, known: set[str], workers: Sequence[Member]) -> list[str]:
    faults = [
        f"{task.task_id} depends on {dependency}, which is not in the plan"
        for dependency in task.dependencies
        if dependency not in known
    ]
    named = task.assigned_to.role_id if task.assigned_to else None
    names = [worker.id for worker in workers]
    if named is not None and named not in names:
        faults.append(
            f"{task.task_id} is assigned to {named}; the workers are {', '.join(names) or 'none'}"
        )
    elif named is None and task.capability and not capable(workers, task.capability):
        known_to = ", ".join(sorted({one for worker in workers for one in worker.capabilities}))
        faults.append(f"{task.task_id} needs {task.capability}; the workers offer {known_to}")
    return faults


def cycle(dependencies: Mapping[str, Iterable[str]]) -> list[str]:
    """The parts of a cycle, with the first repeated at the end; empty if there is no cycle."""
    done: set[str] = set()
    for start in dependencies:
        # An explicit stack: a chain of a thousand parts would exceed Python's recursion limit.
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            node, is_left = stack.pop()
            if is_left:
                path.pop()
                done.add(node)
            elif node in path:
                return [*path[path.index(node) :], node]
            elif node not in done:
                path.append(node)
                stack.append((node, True))
                stack += [(one, False) for one in dependencies.get(node, ())]
    return []


def plan_hash(plan: Plan) -> str:
    """The hash to which an approval is bound: of the whole plan, however it was formatted."""
    text = json.dumps(plan.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
