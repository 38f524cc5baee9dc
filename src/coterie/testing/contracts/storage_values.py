"""Every field of every stored value comes back: the values are generated from their types."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar, get_args

import pytest

from coterie.model.conversation import Message
from coterie.model.envelope import PAYLOADS, TYPES, Envelope
from coterie.model.interaction import Interaction, Question, Response
from coterie.model.journal import (
    AppendAudit,
    AppendEnvelope,
    AppendEvent,
    AppendMessage,
    AppendThread,
    ChildLease,
    CloseStep,
    CloseTurn,
    Fence,
    Lease,
    OpenStep,
    OpenTurn,
    PutTicket,
    Request,
    RequestKind,
    SetMemberState,
    SpendTurn,
    Step,
    Turn,
)
from coterie.model.task import (
    Event,
    TaskCanceled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskRow,
    TaskStarted,
    UserInteractionRequested,
    UserInteractionResponded,
    after,
)
from coterie.model.ticket import Ticket
from coterie.model.tool_call import AuditEntry
from coterie.ports import Storage
from coterie.testing.contracts.examples import examples
from coterie.testing.contracts.samples import TASK, asked, created, started
from coterie.testing.contracts.storage_opening import OpenedStorage

T = TypeVar("T")


def _numbered(kind: type[T], name: str) -> list[T]:
    """Examples of the task, told apart by a text in the field `name`."""
    found: list[Any] = examples(kind, task_id=TASK)
    return [replace(value, **{name: f"n{place}"}) for place, value in enumerate(found)]


class ValuesContract(OpenedStorage):
    """What goes in comes out, whole."""

    async def test_messages(self, storage: Storage, fence: Fence) -> None:
        said = examples(Message, task_id=TASK)
        said = [replace(message, seq=place) for place, message in enumerate(said, 1)]
        await storage.commit(fence, *map(AppendMessage, said))
        assert await storage.conversation.messages(TASK) == said

    async def test_audit_entries(self, storage: Storage, fence: Fence) -> None:
        entries = examples(AuditEntry, task_id=TASK)
        await storage.commit(fence, *map(AppendAudit, entries))
        assert await storage.audit.of_task(TASK) == entries
        assert await storage.audit.all() == entries
        assert [row.entry for row in await storage.audit.chain()] == entries

    async def test_steps(self, storage: Storage, fence: Fence) -> None:
        steps = _numbered(Step, "name")
        await storage.commit(fence, *map(OpenStep, steps))
        assert await storage.journal.steps(TASK) == steps
        open_one = replace(steps[0], name="open", result=None)
        closed = examples(CloseStep, task_id=TASK, name="open")[0]
        await storage.commit(fence, OpenStep(open_one), closed)
        assert (await storage.journal.steps(TASK))[-1] == replace(open_one, result=closed.result)

    async def test_turns(self, storage: Storage, fence: Fence) -> None:
        turns = _numbered(Turn, "step")
        await storage.commit(fence, *map(OpenTurn, turns))
        assert await storage.journal.turns(TASK) == turns
        assert await storage.journal.spending() == [turn for turn in turns if turn.usage]

    async def test_how_turns_end(self, storage: Storage, fence: Fence) -> None:
        begun = Turn(TASK, "x", 1, "ann", 1, "now")
        for place, ended in enumerate(examples(CloseTurn, task_id=TASK, attempt=1)):
            end, opened = replace(ended, step=f"n{place}"), replace(begun, step=f"n{place}")
            (spent,) = examples(SpendTurn, task_id=TASK, attempt=1, step=opened.step, usage="{}")
            await storage.commit(fence, OpenTurn(opened), spent)
            assert (await storage.journal.turns(TASK))[-1] == replace(opened, usage=spent.usage)
            await storage.commit(fence, end)
            told = {each.name: getattr(end, each.name) for each in fields(end)}
            closed = replace(opened, **{**told, "usage": end.usage or spent.usage})
            assert (await storage.journal.turns(TASK))[-1] == closed

    async def test_tasks(self, storage: Storage) -> None:
        for place, given in enumerate(examples(TaskCreated)):
            event = given.model_copy(update={"task_id": f"t{place}"})
            assert await storage.create(event, "me", None) == Fence(event.task_id, 1)
            assert await storage.events.of_task(event.task_id) == [event]
            assert (await storage.events.tasks())[-1] == _row(event)

    @pytest.mark.parametrize("kind", [TaskStarted, TaskCompleted, TaskFailed, TaskCanceled])
    async def test_events(self, storage: Storage, kind: type[Event]) -> None:
        for place, given in enumerate(examples(kind)):
            event = given.model_copy(update={"task_id": f"t{place}"})
            fence = await storage.create(created(event.task_id), "me", None)
            begun = () if event.type == "TaskStarted" else (started(event.task_id),)
            await storage.commit(fence, *begun, AppendEvent(event))
            assert (await storage.events.of_task(event.task_id))[-1] == event

    async def test_questions_and_answers(self, storage: Storage, fence: Fence) -> None:
        for place, given in enumerate(examples(Interaction, task_id=TASK)):
            interaction = given.model_copy(update={"interaction_id": f"q{place}"})
            (event,) = examples(UserInteractionRequested, task_id=TASK, interaction=interaction)
            await storage.commit(fence, AppendEvent(event, step=f"step {place}"))
            assert (await storage.events.of_task(TASK))[-1] == event
            question = Question(interaction, f"step {place}", "open", event.at)
            assert await storage.inbox.question(f"q{place}") == question
        for place, given in enumerate(examples(Response, task_id=TASK)):
            await storage.commit(fence, asked(f"a{place}"))
            response = given.model_copy(update={"interaction_id": f"a{place}"})
            (event,) = examples(UserInteractionResponded, task_id=TASK, response=response)
            assert await storage.inbox.respond(event)
            assert (await storage.events.of_task(TASK))[-1] == event
            question = await storage.inbox.question(f"a{place}")
            assert question is not None
            assert (question.response, question.answered_at) == (response, event.at)

    async def test_tickets(self, storage: Storage, fence: Fence) -> None:
        tickets = [replace(ticket, id=f"T{place}") for place, ticket in enumerate(examples(Ticket))]
        await storage.commit(fence, *(PutTicket(TASK, ticket, None) for ticket in tickets))
        assert await storage.tickets.tickets(TASK) == tickets
        await storage.commit(fence, PutTicket(TASK, tickets[0], tickets[0].state))
        assert await storage.tickets.tickets(TASK) == tickets

    async def test_envelopes(self, storage: Storage, fence: Fence) -> None:
        said = [
            envelope
            for kind in PAYLOADS.values()
            for payload in examples(kind)
            for envelope in examples(
                Envelope, session_id=TASK, payload=payload, payload_type=TYPES[type(payload)]
            )
        ]
        await storage.commit(fence, *map(AppendEnvelope, said))
        assert await storage.tickets.envelopes(TASK) == list(enumerate(said, 1))

    async def test_leases_and_children(self, storage: Storage, fence: Fence) -> None:
        (lease, *_) = examples(Lease)
        assert await storage.leases.claim(lease.task_id, lease.owner, 0) == 1
        assert await storage.leases.get(lease.task_id) == replace(
            lease, token=1, state="reclaiming"
        )
        children = _numbered(ChildLease, "mark")
        for child in children:
            await storage.leases.record_child(fence, child)
        assert await storage.leases.children(TASK) == children

    async def test_requests(self, storage: Storage) -> None:
        sent: list[Request] = []
        for kind in get_args(RequestKind):
            (request,) = examples(Request, task_id=TASK, kind=kind)
            number = await storage.inbox.request(TASK, kind, request.author, request.text)
            sent.append(replace(request, id=number))
        found = await storage.inbox.requests(TASK)
        assert [replace(request, at=sent[0].at) for request in found] == sent

    async def test_member_states_and_threads(self, storage: Storage, fence: Fence) -> None:
        (state,) = examples(SetMemberState, task_id=TASK, state="waiting")
        await storage.commit(fence, state)
        assert await storage.member_states(TASK) == [state]
        (entry,) = examples(AppendThread, task_id=TASK, place=1)
        await storage.commit(fence, entry)
        assert await storage.conversation.thread(entry.thread) == [entry.entry]


def _row(event: TaskCreated) -> TaskRow:
    state = after(None, event)
    whose = (event.task_id, event.session_id, event.parent_id, event.workflow, event.goal)
    return TaskRow(*whose, state.status, state.reason, event.at, state.changed_at)
