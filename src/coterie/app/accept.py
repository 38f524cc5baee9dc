"""Accept work, whichever workflow produced it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from coterie.app.changes import Accepted
from coterie.app.pipelines import accept_change
from coterie.app.project import App
from coterie.errors import UsageError
from coterie.model.team import PIPELINE


async def accept_work(
    app: App, task_id: str, message: str | None, *, recheck: bool = False, override: bool = False
) -> Accepted:
    """Bring the work of a session, or the change of a pipeline, into the user's branch.

    `message` and `override` are for pipelines alone: UsageError says so for any other task.
    `recheck` reruns the checks on a moved branch.
    """
    if (await app.show(task_id)).view.workflow == PIPELINE:
        accept = partial(accept_change, app, task_id, message, override=override, recheck=recheck)
        done = await (accept() if app.shared is None else _accepted_here(app, task_id, accept))
    elif message is not None or override:
        problem = f"{task_id} is not a build: a message or an override would have no effect."
        raise UsageError(problem, f"coterie accept {task_id}")
    else:
        done = await app.accept(task_id, recheck=recheck)
    if app.shared is not None:
        from coterie.app.cleaning import remove_accepted

        await remove_accepted(app, task_id)
    return done


async def _accepted_here(
    app: App, task_id: str, accept: Callable[..., Awaitable[Accepted]]
) -> Accepted:
    from coterie.app.run_here import approving

    return await accept(approving=await approving(app, task_id))
