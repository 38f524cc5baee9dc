"""What comes back: events, tasks, audit, conversation and journal."""

from __future__ import annotations

from pathlib import Path

from coterie.model.journal import (
    AppendAudit,
    AppendEvent,
    AppendMessage,
    CloseStep,
    CloseTurn,
    Fence,
    OpenStep,
    OpenTurn,
    SetMemberState,
    Step,
    Turn,
)
from coterie.model.task import TaskCanceled, TaskCompleted, TaskFailed, fold
from coterie.model.tool_call import AuditEntry
from coterie.ports import Storage, TaskRow
from coterie.testing.contracts.samples import (
    STEP,
    TASK,
    at,
    closing,
    created,
    message,
    opening,
    started,
    step,
    turn,
)
from coterie.testing.contracts.storage_opening import OpenedStorage

ENTRIES = [
    AuditEntry(
        "ToolCallRequested", "c1", "Edit", "ann", TASK, at(1), input={"path": "cart.py", "n": [1]}
    ),
    AuditEntry(
        "ToolCallCompleted", "c1", "Edit", "ann", TASK, at(2),
        output={"text": "ok, ümläut"}, is_error=False, duration_ms=12,
    ),
]  # fmt: skip


class RecordsContract(OpenedStorage):
    """Reading."""

    async def test_tasks_follow_their_events(self, storage: Storage) -> None:
        assert await storage.events.tasks() == []
        assert await storage.events.head() == (0, "")
        ends = {
            "a": TaskCompleted(task_id="a", at=at(7), reason="max_turns", summary="said all"),
            "c": TaskFailed(task_id="c", at=at(8), reason="stuck", message="no answer"),
            "b": TaskCanceled(task_id="b", at=at(9)),
        }
        for task_id, end in ends.items():
            fence = await storage.create(created(task_id), "me", None)
            await storage.commit(fence, started(task_id))
            await storage.commit(fence, AppendEvent(end))
        assert [(row.id, row.status, row.reason) for row in await storage.events.tasks()] == [
            ("a", "completed", "max_turns"),
            ("c", "failed", "stuck"),
            ("b", "canceled", "canceled"),
        ]
        for row in await storage.events.tasks():
            state = fold(await storage.events.of_task(row.id))
            assert row == TaskRow(
                row.id, row.id, None, "chat", "Look at cart.py", state.status, state.reason,
                at(0), state.changed_at,
            )  # fmt: skip

    async def test_events_are_numbered_without_gaps_and_chained(self, storage: Storage) -> None:
        heads: list[tuple[int, str]] = []
        for task_id in ("a", "b"):
            fence = await storage.create(created(task_id), "me", None)
            heads.append(await storage.events.head())
            await storage.commit(fence, started(task_id))
            heads.append(await storage.events.head())
        assert [sequence for sequence, _ in heads] == [1, 2, 3, 4]
        assert len({digest for _, digest in heads}) == 4

    async def test_the_audit_comes_back_as_it_was(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, *(AppendAudit(entry) for entry in ENTRIES))
        assert await storage.audit.of_task(TASK) == ENTRIES
        assert await storage.audit.of_task("another") == []

    async def test_messages_come_back_as_they_were(self, storage: Storage, fence: Fence) -> None:
        said = [message(1, text=""), message(2, text="\0 ☃ \n"), message(3, text="x" * 100_000)]
        for each in said:
            storage.post(fence, AppendMessage(each))
        assert await storage.conversation.messages(TASK) == said
        assert await storage.conversation.messages(TASK, after=1) == said[1:]
        assert await storage.conversation.messages(TASK, after=3) == []
        assert await storage.conversation.messages("another") == []

    async def test_a_turn_is_opened_and_closed(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, *opening())
        assert await storage.journal.steps(TASK) == [step()]
        assert await storage.journal.turns(TASK) == [turn()]
        await storage.commit(fence, *closing())
        assert await storage.journal.steps(TASK) == [step(result='{"message":1}')]
        assert await storage.journal.turns(TASK) == [
            Turn(
                TASK, STEP, 1, "ann", 1, at(4), "t-2", at(5), "completed", '{"input_tokens":3}'
            )
        ]  # fmt: skip

    async def test_a_step_recorded_whole_cannot_be_closed_again(
        self, storage: Storage, fence: Fence
    ) -> None:
        whole = Step(TASK, "heard/1", "heard", "d", "", "[]")
        await storage.commit(fence, OpenStep(whole))
        assert await storage.journal.steps(TASK) == [whole]

    async def test_the_order_of_opening_outlives_everything(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        names = ["z", "b", "a", "m"]
        for name in names[:2]:
            await storage.commit(fence, *opening(name))
        storage.post(fence, CloseTurn(TASK, "z", 1, at(6), "failed", "exit 3", None))
        storage.post(fence, OpenTurn(turn("z", attempt=2)))
        async with self.opened(tmp_path) as other:
            await storage.leases.park(fence)
            await other.leases.claim(TASK, "other", 1)
            for name in names[2:]:
                await other.commit(Fence(TASK, 2), *opening(name))
            assert [each.name for each in await other.journal.steps(TASK)] == names
            turns = [(each.step, each.attempt) for each in await other.journal.turns(TASK)]
            assert turns == [("z", 1), ("b", 1), ("z", 2), ("a", 1), ("m", 1)]

    async def test_tasks_do_not_mix(self, storage: Storage, fence: Fence) -> None:
        other = await storage.create(created("b"), "me", message(1, "b"))
        await storage.commit(fence, *opening())
        await storage.commit(other, *opening(task_id="b"))
        await storage.commit(other, CloseStep("b", STEP, "1"))
        assert await storage.journal.steps(TASK) == [step()]
        assert await storage.conversation.messages(TASK) == []

    async def test_only_rare_member_states_are_kept(self, storage: Storage, fence: Fence) -> None:
        def state(member: str, name: str, reason: str = "") -> SetMemberState:
            return SetMemberState(TASK, member, name, reason, at(1))

        storage.post(fence, state("bob", "quiet"), state("ann", "waiting", "rate limit"))
        storage.post(fence, state("bob", "stuck", "no answer"), state("cat", "working"))
        assert await storage.member_states(TASK) == [
            ("ann", "waiting", "rate limit", at(1)),
            ("bob", "stuck", "no answer", at(1)),
        ]
        storage.post(fence, state("ann", "working"), state("bob", "idle"))
        assert await storage.member_states(TASK) == []
