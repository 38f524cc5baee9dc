"""Accepting work, whichever workflow did it."""

from __future__ import annotations

from coterie.app.changes import Accepted
from coterie.app.pipelines import accept_change
from coterie.app.project import App
from coterie.app.run import PIPELINE


async def accept_work(
    app: App, task_id: str, message: str | None, *, recheck: bool = False, override: bool = False
) -> Accepted:
    """Take the work of a session, or the change of a pipeline, into the user's branch.

    `message` and `override` are for a pipeline; `recheck` tests it on a branch that has moved.
    """
    if (await app.show(task_id)).view.workflow == PIPELINE:
        done = await accept_change(app, task_id, message, override=override, recheck=recheck)
    else:
        done = await app.accept(task_id, recheck=recheck)
    if app.shared is not None:
        from coterie.app.cleaning import remove_accepted

        await remove_accepted(app, task_id)
    return done
