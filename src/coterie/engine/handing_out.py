"""Hand out parts of a task as tasks of their own, run by whichever machine can."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import anyio.to_thread

from coterie.engine.task_run import TaskRun
from coterie.model.journal import CloseStep, Fence, OpenStep, Turn
from coterie.model.machine import SentRef
from coterie.model.remote import GitRemote
from coterie.model.task import Stopped, TaskCreated
from coterie.ports import Blobs, FindRemote, HandedOut, Parked, RunChild, Storage


@dataclass(frozen=True)
class TaskSharing:
    """`ports.Sharing` for the holder of a task's lease."""

    blobs: Blobs
    fence: Fence
    session: str
    machine: str
    find_remote: FindRemote
    for_others: bool = False

    @property
    def token(self) -> int:
        """The token of the lease."""
        return self.fence.token

    async def remote(self) -> GitRemote | None:
        """The repository that branches travel by, according to the user's current settings."""
        return await anyio.to_thread.run_sync(self.find_remote)

    async def put(self, data: bytes) -> str:
        """Store data for the session; returns its digest."""
        return await self.blobs.put(self.session, data)

    async def get(self, digest: str) -> bytes | None:
        """Return the data with this digest, whoever sent it."""
        return await self.blobs.get(digest)

    async def set_ref(self, ref: SentRef) -> None:
        """Record a branch that was sent; refused if the lease is not ours any more."""
        await self.blobs.set_ref(self.fence, self.session, ref)

    async def refs(self) -> list[SentRef]:
        """Every branch that was sent."""
        return await self.blobs.refs(self.session)

    async def set_file(self, path: str, digest: str) -> None:
        """Record a file that was sent; refused if the lease is not ours any more."""
        await self.blobs.set_file(self.fence, self.session, path, digest)

    async def files(self) -> Mapping[str, str]:
        """Every file that was sent."""
        return await self.blobs.files(self.session)


async def earlier_turns(storage: Storage, part: TaskCreated) -> list[Turn]:
    """The earlier turns on the ticket of a handed-out turn, which continues their threads."""
    turns = await storage.journal.spending(task_id=part.parent_id)
    return [turn for turn in turns if turn.task_id != part.task_id]


async def hand_out(run: TaskRun, run_child: RunChild, name: str, part: TaskCreated) -> HandedOut:
    """Have the part run, and record how it ended; raises Parked if it waits for an answer."""
    step, is_new = run.journal.begin(name, "step", [part.task_id])
    if step.result is not None:
        return HandedOut(**json.loads(step.result))
    if is_new:
        await run.commit(OpenStep(step._replace(input=part.task_id)))
    run.used_elsewhere = True
    by = run.services.redactor
    texts = {"goal": by.text(part.goal), "turn": by.value(part.turn)}
    part = part.model_copy(update=texts)  # it is stored as it is
    elsewhere = run.services.hand_out
    run.parts[part.task_id] = False
    try:
        if elsewhere is None:
            result = await run_child(part)
        else:
            result = await elsewhere(part, run_child, run.wait)
    finally:
        del run.parts[part.task_id]
    if result.status == "waiting":
        raise Parked(result.stop or Stopped(result.reason))
    messages = await run.storage.conversation.messages(part.task_id)
    steps = {
        one.name: json.loads(one.result)
        for one in await run.storage.journal.steps(part.task_id)
        if one.kind == "step" and one.result is not None
    }
    text = messages[-1].text if len(messages) > 1 else ""
    done = HandedOut(result.status, result.reason, result.summary, text, steps)
    run.post(CloseStep(step.task_id, name, json.dumps(asdict(done))))
    return done
