"""Every field of every stored value is read back: the values are generated from their types.

`examples` builds examples of any stored type from its type hints, so no field is forgotten, not
even a new one.  In the first example every field differs from its default.  Each of the others
differs from the first in one field: None if allowed, another choice, another member of a union.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from zlib import crc32

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from coterie.model import journal, task
from coterie.model.conversation import Message
from coterie.model.envelope import PAYLOADS, TYPES, Envelope
from coterie.model.interaction import Interaction, Question, Response
from coterie.model.journal import Fence
from coterie.model.ticket import Ticket
from coterie.model.tool_call import AuditEntry
from coterie.ports import Storage
from coterie.testing.contracts.samples import TASK, OpenedStorage, asked, created, started

T = TypeVar("T")


class ValuesContract(OpenedStorage):
    """What is written is read back whole."""

    async def test_messages(self, storage: Storage, fence: Fence) -> None:
        messages = examples(Message, task_id=TASK)
        messages = [message._replace(seq=place) for place, message in enumerate(messages, 1)]
        await storage.commit(fence, *map(journal.AppendMessage, messages))
        assert await storage.conversation.messages(TASK) == messages

    async def test_audit_entries(self, storage: Storage, fence: Fence) -> None:
        entries = examples(AuditEntry, task_id=TASK)
        await storage.commit(fence, *map(journal.AppendAudit, entries))
        assert await storage.audit.of_task(TASK) == entries
        assert await storage.audit.all() == entries
        assert [row.entry for row in await storage.audit.chain()] == entries

    async def test_steps(self, storage: Storage, fence: Fence) -> None:
        steps = examples(journal.Step, task_id=TASK)
        steps = [step._replace(name=f"n{place}") for place, step in enumerate(steps)]
        await storage.commit(fence, *map(journal.OpenStep, steps))
        assert await storage.journal.steps(TASK) == steps
        open_one = steps[0]._replace(name="open", result=None)
        closed = examples(journal.CloseStep, task_id=TASK, name="open")[0]
        await storage.commit(fence, journal.OpenStep(open_one), closed)
        assert (await storage.journal.steps(TASK))[-1] == open_one._replace(result=closed.result)

    async def test_turns(self, storage: Storage, fence: Fence) -> None:
        begun = examples(journal.OpenTurn, task_id=TASK)
        begun = [opened._replace(step=f"n{place}") for place, opened in enumerate(begun)]
        await storage.commit(fence, *begun)
        assert await storage.journal.turns(TASK) == [
            journal.Turn(**opened._asdict()) for opened in begun
        ]

    async def test_how_turns_end(self, storage: Storage, fence: Fence) -> None:
        for place, ended in enumerate(examples(journal.CloseTurn, task_id=TASK, attempt=1)):
            end = ended._replace(step=f"n{place}")
            begun = journal.OpenTurn(TASK, end.step, 1, "ann", 1, "now")
            opened = journal.Turn(**begun._asdict())
            (spent,) = examples(
                journal.SpendTurn, task_id=TASK, attempt=1, step=end.step, usage="{}"
            )
            await storage.commit(fence, begun, spent)
            assert (await storage.journal.turns(TASK))[-1] == replace(opened, usage=spent.usage)
            await storage.commit(fence, end)
            changes = {**end._asdict(), "usage": end.usage or spent.usage}
            assert (await storage.journal.turns(TASK))[-1] == replace(opened, **changes)

    async def test_tasks(self, storage: Storage) -> None:
        for place, given in enumerate(examples(task.TaskCreated)):
            event = given.model_copy(update={"task_id": f"t{place}"})
            assert await storage.create(event, "me", None) == Fence(event.task_id, 1)
            assert await storage.events.of_task(event.task_id) == [event]
            assert (await storage.events.tasks())[-1] == _row(event)

    @pytest.mark.parametrize(
        "kind", [task.TaskStarted, task.TaskCompleted, task.TaskFailed, task.TaskCanceled]
    )
    async def test_events(self, storage: Storage, kind: type[task.Event]) -> None:
        for place, given in enumerate(examples(kind)):
            event = given.model_copy(update={"task_id": f"t{place}"})
            fence = await storage.create(created(event.task_id), "me", None)
            begun = () if event.type == "TaskStarted" else (started(event.task_id),)
            await storage.commit(fence, *begun, journal.AppendEvent(event))
            assert (await storage.events.of_task(event.task_id))[-1] == event

    async def test_questions_and_answers(self, storage: Storage, fence: Fence) -> None:
        for place, given in enumerate(examples(Interaction, task_id=TASK)):
            interaction = given.model_copy(update={"interaction_id": f"q{place}"})
            asking = task.UserInteractionRequested
            (event,) = examples(asking, task_id=TASK, interaction=interaction)
            await storage.commit(fence, journal.AppendEvent(event, step=f"step {place}"))
            assert (await storage.events.of_task(TASK))[-1] == event
            question = Question(interaction, f"step {place}", "open", event.at)
            assert await storage.inbox.question(f"q{place}") == question
        for place, given in enumerate(examples(Response, task_id=TASK)):
            await storage.commit(fence, asked(f"a{place}"))
            response = given.model_copy(update={"interaction_id": f"a{place}"})
            (event,) = examples(task.UserInteractionResponded, task_id=TASK, response=response)
            assert await storage.inbox.respond(event)
            assert (await storage.events.of_task(TASK))[-1] == event
            question = await storage.inbox.question(f"a{place}")
            assert question is not None
            assert (question.response, question.answered_at) == (response, event.at)

    async def test_tickets(self, storage: Storage, fence: Fence) -> None:
        tickets = [replace(ticket, id=f"T{place}") for place, ticket in enumerate(examples(Ticket))]
        await storage.commit(fence, *(journal.PutTicket(TASK, ticket, None) for ticket in tickets))
        assert await storage.tickets.tickets(TASK) == tickets
        await storage.commit(fence, journal.PutTicket(TASK, tickets[0], tickets[0].state))
        assert await storage.tickets.tickets(TASK) == tickets

    async def test_envelopes(self, storage: Storage, fence: Fence) -> None:
        envelopes = [
            envelope
            for kind in PAYLOADS.values()
            for payload in examples(kind)
            for envelope in examples(
                Envelope, session_id=TASK, payload=payload, payload_type=TYPES[type(payload)]
            )
        ]
        await storage.commit(fence, *map(journal.AppendEnvelope, envelopes))
        assert await storage.tickets.envelopes(TASK) == list(enumerate(envelopes, 1))

    async def test_leases_and_children(self, storage: Storage, fence: Fence) -> None:
        (lease, *_) = examples(journal.Lease)
        assert await storage.leases.claim(lease.task_id, lease.owner, 0) == 1
        claimed = replace(lease, token=1, state="reclaiming")
        assert await storage.leases.get(lease.task_id) == claimed
        children = examples(journal.ChildLease, task_id=TASK)
        children = [replace(child, mark=f"m{place}") for place, child in enumerate(children)]
        for child in children:
            await storage.leases.record_child(fence, child)
        assert await storage.leases.children(TASK) == children

    async def test_requests(self, storage: Storage) -> None:
        sent: list[journal.Request] = []
        for kind in get_args(journal.RequestKind):
            (request,) = examples(journal.Request, task_id=TASK, kind=kind)
            number = await storage.inbox.request(TASK, kind, request.author, request.text)
            sent.append(replace(request, id=number))
        requests = await storage.inbox.requests(TASK)
        assert [replace(request, at=sent[0].at) for request in requests] == sent

    async def test_member_states_and_threads(self, storage: Storage, fence: Fence) -> None:
        for state in examples(journal.SetMemberState, task_id=TASK, state="waiting"):
            await storage.commit(fence, state)
            assert await storage.member_states(TASK) == [state]
        (entry,) = examples(journal.AppendThread, task_id=TASK, place=1)
        await storage.commit(fence, entry)
        assert await storage.conversation.thread(entry.thread) == [entry.entry]


def _row(event: task.TaskCreated) -> task.TaskRow:
    state = task.after(None, event)
    whose = (event.task_id, event.session_id, event.parent_id, event.workflow, event.goal)
    return task.TaskRow(*whose, state.status, state.reason, event.at, state.changed_at)


_FORMS = ("{}-1", "2026-01-31T12:00:07.000Z", f"sha256:{'a' * 64}")
"""Texts to try, if a type accepts only some."""


def examples(kind: type[T], /, **fixed: object) -> list[T]:
    """Build examples of a dataclass, named tuple or model; raises if the first one is invalid."""
    choices = {
        name: [fixed[name]] if name in fixed else _choices(hint, name, default)
        for name, hint, default in _fields(kind)
    }
    first = {name: values[0] for name, values in choices.items()}
    made = [kind(**first)]
    for name, values in choices.items():
        for value in values[1:]:
            try:
                made.append(kind(**{**first, name: value}))
            except ValidationError:
                continue  # a rule spans two fields; each value is in another example
    return made


def _fields(kind: type[object]) -> Iterator[tuple[str, Any, object]]:
    """Yield every field's name, type and default."""
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        yield from ((each.name, hints[each.name], each.default) for each in fields(kind))
        return
    defaults: Mapping[str, object] | None = getattr(kind, "_field_defaults", None)
    if defaults is not None:  # a named tuple
        for name, hint in get_type_hints(kind).items():
            yield name, hint, defaults.get(name, MISSING)
        return
    for name, field in cast("type[BaseModel]", kind).model_fields.items():
        hint: Any = field.annotation
        if field.metadata:
            hint = Annotated[(hint, *field.metadata)]
        yield name, hint, field.get_default(call_default_factory=True, validated_data={})


def _choices(hint: Any, name: str, default: object) -> list[Any]:
    """Return example values of a field, the default and None last."""
    return sorted(_values(hint, name), key=lambda value: value is None or value == default)


def _values(hint: Any, name: str, forms: int = 1) -> Iterator[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _valid(hint, _values(inner[0], name, len(_FORMS)))
    elif origin in (Union, UnionType):
        for each in inner:
            yield from _values(each, name, forms)
    elif origin is Literal:
        yield from inner
    elif origin is tuple:
        yield from ((value,) for value in _values(inner[0], name))
        yield ()
    elif origin is Mapping:
        yield from ({f"{name}-key": value} for value in _values(inner[1], name))
        yield {}
    else:
        yield from _simple(hint, name, forms)


def _simple(kind: Any, name: str, forms: int) -> Iterator[Any]:
    if kind is NoneType:
        yield None
    elif kind is str or kind is object:
        yield from (form.format(name) for form in _FORMS[:forms])
    elif kind is bool:
        yield from (True, False)
    elif kind in (int, float):
        # A different number per field, so that swapped fields are noticed; a small one for a type
        # with a low limit.
        code = crc32(name.encode())
        numbers = (code % 30_000 + 2, code % 61 + 2, 1, 0)
        yield from map(kind, numbers[: 1 if forms == 1 else None])
    else:
        yield from examples(kind)


def _valid(hint: Any, values: Iterator[Any]) -> Iterator[Any]:
    """Yield the values that the type accepts, as validated."""
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    for value in values:
        try:
            yield adapter.validate_python(value)
        except ValidationError:
            continue
