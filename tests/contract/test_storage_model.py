"""For any operations in any order, a store in a file and one in memory return the same, refused
operations change nothing, and every list agrees with the events."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coterie.errors import LeaseLost
from coterie.model.interaction import COTERIE
from coterie.model.journal import (
    AppendEvent,
    AppendMessage,
    CloseStep,
    Fence,
    OpenStep,
    SetMemberState,
    TakeRequest,
    Write,
)
from coterie.model.task import ENDED, TaskCanceled, TaskCompleted, fold
from coterie.ports import Storage
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import (
    answered,
    asked,
    at,
    child,
    closing,
    created,
    message,
    opening,
    started,
    step,
)

TASKS = ("a", "b")
tasks = st.sampled_from(TASKS)
names = st.sampled_from(["round/1/turn/ann", "round/1/turn/bob", "round/10/turn/ann"])
questions = st.sampled_from(["q1", "q2", "q3"])


def one_write(task: str, name: str, number: int, question: str) -> list[tuple[Write, ...]]:
    return [
        (started(task),),
        opening(name, task),
        closing(name, number, task),
        (OpenStep(step(name, "{}", task)),),
        (CloseStep(task, name, "{}"),),
        (AppendMessage(message(number, task)),),
        (asked(question, task),),
        (AppendEvent(answered(question, task)),),
        (AppendEvent(answered(question, task, by=COTERIE)), AppendMessage(message(number, task))),
        (AppendEvent(TaskCompleted(task_id=task, at=at(8), reason="done")),),
        (AppendEvent(TaskCanceled(task_id=task, at=at(9))),),
        (TakeRequest(number),),
        (SetMemberState(task, "ann", "quiet" if number % 2 else "working", "", at(3)),),
    ]


writes = st.builds(one_write, tasks, names, st.integers(1, 5), questions).flatmap(st.sampled_from)
tokens = st.sampled_from([1, 1, 1, 1, 2, 3, None])


class TwoStores(RuleBasedStateMachine):
    """Submit everything to both; both must answer, refuse and contain the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.spoiled = False
        self.open()
        # Keeps the in-memory store alive while the others are closed.
        self.kept = self.loop.run_until_complete(SqliteStorage.in_memory(str(self.folder)))

    def open(self) -> None:
        async def both() -> tuple[Storage, Storage]:
            real = await SqliteStorage.open(self.folder / "coterie.db")
            return real, await SqliteStorage.in_memory(str(self.folder))

        self.stores = self.loop.run_until_complete(both())

    def teardown(self) -> None:
        self.close()
        self.outcome(self.kept.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    def close(self) -> list[str]:
        return [self.outcome(storage.close()) for storage in self.stores]

    def outcome(self, call: Awaitable[Any]) -> Any:
        async def run() -> Any:
            try:
                return await call
            except (LeaseLost, ValueError) as error:
                return type(error)

        return self.loop.run_until_complete(run())

    def both(self, call: Callable[[Storage], Awaitable[Any]]) -> Any:
        before = self.outcome(everything(self.stores[0]))
        real, memory = (self.outcome(call(storage)) for storage in self.stores)
        assert real == memory
        if isinstance(real, type):
            assert self.outcome(everything(self.stores[0])) == before
        self.spoiled = self.spoiled or real is LeaseLost
        return real

    @rule(task=tasks, first=st.booleans())
    def create(self, task: str, first: bool) -> None:
        said = message(1, task) if first else None
        self.both(lambda storage: storage.create(created(task), "me", said))

    @rule(task=tasks, token=tokens, given=writes)
    def commit(self, task: str, token: int | None, given: tuple[Write, ...]) -> None:
        fence = None if token is None else Fence(task, token)
        self.both(lambda storage: storage.commit(fence, *given))

    @rule(task=tasks, token=tokens, given=st.lists(writes, min_size=1, max_size=3))
    def post(self, task: str, token: int | None, given: list[tuple[Write, ...]]) -> None:
        fence = None if token is None else Fence(task, token)

        async def posted(storage: Storage) -> None:
            for each in given:
                storage.post(fence, *each)
            await storage.commit(None)

        # Unlike with a commit, writes posted before the refused one are kept.
        real, memory = (self.outcome(posted(storage)) for storage in self.stores)
        assert real == memory
        self.spoiled = self.spoiled or real is not None

    @rule(question=questions, task=tasks)
    def respond(self, question: str, task: str) -> None:
        self.both(lambda storage: storage.inbox.respond(answered(question, task)))

    @rule(task=tasks)
    def request(self, task: str) -> None:
        self.both(lambda storage: storage.inbox.request(task, "say", "max", "hello"))

    @rule(task=tasks, seen=st.integers(0, 3))
    def claim(self, task: str, seen: int) -> None:
        self.both(lambda storage: storage.leases.claim(task, "other", seen))

    @rule(task=tasks, token=st.integers(1, 3))
    def lease(self, task: str, token: int) -> None:
        self.both(lambda storage: storage.leases.confirm(Fence(task, token)))
        self.both(lambda storage: storage.leases.park(Fence(task, token)))

    @rule(task=tasks, token=st.integers(1, 2), mark=st.sampled_from(["m1", "m2"]))
    def record_child(self, task: str, token: int, mark: str) -> None:
        self.both(
            lambda storage: storage.leases.record_child(Fence(task, token), child(mark, task))
        )

    @rule()
    def allocate(self) -> None:
        self.both(lambda storage: storage.inbox.allocate())

    @precondition(lambda self: self.spoiled)
    @rule()
    def start_again(self) -> None:
        self.reopen()

    @rule()
    def reopen(self) -> None:
        real, memory = self.close()
        assert real == memory
        self.spoiled = False
        self.open()

    @invariant()
    def the_same_is_there(self) -> None:
        real, memory = (self.outcome(everything(storage)) for storage in self.stores)
        assert real == memory

    @invariant()
    def lists_say_what_the_events_say(self) -> None:
        self.outcome(self.check(self.stores[0]))

    async def check(self, storage: Storage) -> None:
        questions = await storage.inbox.questions()
        count = 0
        for row in await storage.events.tasks():
            history = await storage.history(row.id)
            state = fold(history.events)
            count += len(history.events)
            assert (row.status, row.reason, row.changed_at) == (
                state.status,
                state.reason,
                state.changed_at,
            )
            named = {
                q.interaction.interaction_id for q in questions if q.interaction.task_id == row.id
            }
            assert named == (set() if state.status in ENDED else set(state.open_questions))
            assert [said.seq for said in history.messages] == [
                n for n, _ in enumerate(history.messages, 1)
            ]
            assert history.lease is not None
        assert (await storage.events.head())[0] == count


async def everything(storage: Storage) -> dict[str, Any]:
    held: dict[str, Any] = {
        "tasks": await storage.events.tasks(),
        "head": await storage.events.head(),
        "questions": await storage.inbox.questions(only_open=False),
        "leases": await storage.leases.all(),
        "children": await storage.leases.children(),
    }
    for task in TASKS:
        words = await storage.inbox.requests(task)
        held[task] = (
            await storage.events.of_task(task),
            await storage.conversation.messages(task),
            await storage.journal.steps(task),
            await storage.journal.turns(task),
            await storage.member_states(task),
            [(word.id, word.text) for word in words],
        )
    return held


# Fewer with `--hypothesis-profile=brief`, on the other Python versions.
TwoStores.TestCase.settings = settings(
    max_examples=min(40, settings().max_examples), stateful_step_count=25, deadline=None
)
TestTwoStores = TwoStores.TestCase
