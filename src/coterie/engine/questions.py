"""Questions: asked once per name, waited for, and answered once, by whoever is first."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import inf

import anyio

from coterie.engine.task_run import TaskRun
from coterie.errors import AnswerRefused, NotFound
from coterie.model import instant
from coterie.model.about import PlanApproval
from coterie.model.interaction import (
    COTERIE,
    Answer,
    Ask,
    Interaction,
    Question,
    Response,
    answer_as_given,
    check,
)
from coterie.model.journal import AppendEvent, CloseStep, OpenStep, Step, digest
from coterie.model.question_text import display_of
from coterie.model.record import InteractionRecord, MemberRecord
from coterie.model.step_name import parse
from coterie.model.task import Stopped, UserInteractionRequested, UserInteractionResponded
from coterie.model.team import Team, is_instance_of
from coterie.ports import InboxStore, Parked, Storage

INTERRUPTED = "the turn was interrupted"
NEVER = inf
"""For what is never interrupted: the number of interrupts before it."""


class Questions:
    """Puts the questions of one run into the inbox and waits for their answers."""

    def __init__(self, run: TaskRun) -> None:
        self._run = run
        self._given: dict[str, Response] = {}
        """Answers that this run gave to agents, by name."""
        self._of_agents: dict[str, Interaction] = {}
        """Questions that agents ask in their turns and that are waited for now, by id."""
        self.interrupts = 0
        """How often the running turns were interrupted."""
        self._waits: list[anyio.CancelScope] = []
        """What an interrupt cuts off."""

    @contextmanager
    def interruptible(self, interrupts: float) -> Generator[anyio.CancelScope]:
        """Leave the block, wherever it is, once a turn that was begun after so many `interrupts` is
        interrupted."""
        with anyio.CancelScope() as scope:
            self._waits.append(scope)
            try:
                if self.interrupts > interrupts:
                    scope.cancel()
                yield scope
            finally:
                self._waits.remove(scope)

    @contextmanager
    def waiting(self, member: str, interrupts: float) -> Generator[None]:
        """Do the same for a wait before a turn, which ends as well if its member is stopped."""
        stops = self._run.stops.cancellable(member, anyio.CancelScope())
        with stops, self.interruptible(interrupts):
            yield

    def end_waits(self) -> None:
        """End what turns that were interrupted wait for."""
        for scope in self._waits:
            scope.cancel()

    async def withdraw(self, reason: str, member: str | None = None) -> None:
        """Close the questions that agents, or one member's, ask in their turns, as obsolete."""
        for interaction in list(self._of_agents.values()):
            author = interaction.author_actor_id
            if member is None or is_instance_of(member, author):
                await close_question(self._run.storage.inbox, interaction, reason)

    async def ask(self, name: str, question: Ask, *, interrupts: float = NEVER) -> Answer:
        """Return the answer, from the journal or from the user.  Raises Parked on timeout.

        An agent that is retried may ask the same again: then the same answer applies.  A question
        of an agent is closed once its turn, begun after so many `interrupts`, is interrupted.
        """
        if name in self._given:
            return Answer(self._given[name], fresh=False)
        step, is_new = self._run.journal.begin(name, "ask", _intent(question))
        if step.result is not None:
            return Answer(Response.model_validate_json(step.result), fresh=False)
        interaction_id = await self._open(step, question) if is_new else step.input
        response, waited = await self._wait(
            interaction_id, question.author, interrupts=interrupts, if_ended=question.if_ended
        )
        # Recorded before delivery: from here on the answer may have been delivered.
        await self._run.commit(CloseStep(step.task_id, name, response.model_dump_json()))
        if parse(name).asked_in is not None:
            self._given[name] = response
        return Answer(response, fresh=waited)

    async def follow(self, question: Question) -> Answer:
        """Return the answer to an open question, possibly another task's; no person gave it
        if the question was closed.  Raises Parked on timeout."""
        name, author = question.interaction.interaction_id, question.interaction.author_actor_id
        try:
            response, _ = await self._wait(name, author)
        except Parked:
            if (await _existing(self._run.storage.inbox, name)).state == "open":
                raise
            task_id = question.interaction.task_id
            response = Response(interaction_id=name, task_id=task_id, author_actor_id=COTERIE)
        return Answer(response, fresh=True)

    async def reuse(self, name: str, question: Ask, earlier: Step, response: Response) -> None:
        """Use an answer that was given to an equal question and had no effect there."""
        task_id, result = self._run.task.task_id, response.model_dump_json()
        step = Step(task_id, name, "ask", meaning_of(question), earlier.input, result)
        closing = [] if earlier.result is not None else [CloseStep(task_id, earlier.name, result)]
        await self._run.commit(*closing, OpenStep(step))

    async def _open(self, step: Step, question: Ask) -> str:
        run = self._run
        if isinstance(question.about, PlanApproval):
            await self._close_older_plans()
        task_id, notifies = run.task_of(step.name), run.services.notifies
        name = await run.storage.inbox.allocate()
        appended = request_of(name, task_id, question, step.name, notifies=notifies)
        await run.commit(*run.starting(task_id), OpenStep(step._replace(input=name)), appended)
        return name

    async def _close_older_plans(self) -> None:
        """Close questions about older plans: the new plan replaces them."""
        for question in await self._run.storage.inbox.questions():
            interaction = question.interaction
            mine = interaction.task_id == self._run.task.task_id
            if mine and isinstance(interaction.about, PlanApproval):
                await close_question(self._run.storage.inbox, interaction, "there is a newer plan")

    async def _wait(
        self,
        interaction_id: str,
        author: str,
        *,
        interrupts: float = NEVER,
        if_ended: str | None = None,
    ) -> tuple[Response, bool]:
        """Return the answer, and whether it came while we waited."""
        run = self._run
        inbox = run.storage.inbox
        question = await _existing(inbox, interaction_id)
        interaction = question.interaction
        waited = question.state == "open"
        if waited:
            run.observer.saw(InteractionRecord(interaction, author))
            task, now = run.task.task_id, instant.now()
            record = MemberRecord(task, author, "waiting", "", now, interaction_id, "you")
            run.observer.saw(record)
            if interrupts != NEVER:
                self._of_agents[interaction_id] = interaction
            if self.interrupts > interrupts:  # before it was open
                await close_question(inbox, interaction, INTERRUPTED)
            question = await self._look(interaction, if_ended)
            with anyio.move_on_after(run.wait):
                seen = 0
                while question.state == "open":
                    seen = await run.storage.changed(seen)
                    question = await self._look(interaction, if_ended)
            self._of_agents.pop(interaction_id, None)
        if question.response is None:
            raise Parked(Stopped("question"))
        chosen = question.response
        if waited:
            run.observer.saw(MemberRecord(run.task.task_id, author, "idle", "", instant.now()))
        run.observer.saw(
            InteractionRecord(
                interaction,
                author,
                "answered" if question.state == "answered" else "closed",
                chosen.choice,
                chosen.author_actor_id,
                chosen.words,
            )
        )
        return chosen, waited

    async def _look(self, interaction: Interaction, if_ended: str | None) -> Question:
        """The state of an open question, once a message left for the task may have answered it."""
        is_turn = is_turn_in(interaction, self._run.task.task_id, self._run.task.team)
        if is_turn or if_ended:
            await self._take_word(interaction, is_turn, if_ended)
        return await _existing(self._run.storage.inbox, interaction.interaction_id)

    async def _take_word(
        self, interaction: Interaction, is_turn: bool, if_ended: str | None
    ) -> None:
        """Answer the question with a message that was left for the task.

        Its author saw no open question, or could not answer this one; nobody would read the
        message until the question is answered.
        """
        run, task_id = self._run, interaction.task_id
        for request in await run.storage.inbox.requests(run.task.task_id):
            is_reply = (
                request.kind == "say"
                and request.author == interaction.author_actor_id
                and request.text.strip()
            )
            if is_turn and (is_reply or request.kind == "end"):
                answer = {
                    "author_actor_id": interaction.author_actor_id,
                    "input_value": request.text,
                }
            elif if_ended and request.kind == "end":
                answer = {"author_actor_id": request.author, "selected_option_id": if_ended}
            else:
                continue
            response = Response(
                interaction_id=interaction.interaction_id, task_id=task_id, **answer
            )
            event = answer_of(response)
            if not is_turn:  # the workflow reads it right after the answer
                run.queue_message(request)
                await run.storage.inbox.respond(event)
            elif await run.storage.inbox.respond(event, request.id):
                run.acted_on(request)
            return


def request_of(
    name: str, task_id: str, question: Ask, step: str = "", *, notifies: bool = False
) -> AppendEvent:
    """The event that asks a question, from a step of the task or from outside any step."""
    interaction = Interaction(
        interaction_id=name,
        task_id=task_id,
        author_actor_id=question.author,
        kind=question.kind,
        purpose=question.purpose,
        display=question.display
        or display_of(question.about, question.content, question.content_kind),
        options=question.options,
        validation=question.validation,
        about=question.about,
    )
    event = UserInteractionRequested(task_id=task_id, at=instant.now(), interaction=interaction)
    return AppendEvent(event, step, question.once, name if notifies else None)


def is_turn_in(interaction: Interaction, task_id: str, team: Team) -> bool:
    """Whether a question is a person's turn in that task."""
    mine = interaction.task_id == task_id and interaction.kind == "Input"
    return mine and interaction.author_actor_id in [one.id for one in team.people]


def meaning_of(question: Ask) -> str:
    """The digest of what is asked, by which equal questions are recognized."""
    return digest("ask", _intent(question))


def _intent(question: Ask) -> object:
    options = [option.id for option in question.options]
    # A choice is the same question with or without room for a comment.
    kind = "Select" if question.kind == "Composite" else question.kind
    return [question.author, kind, options, question.intent]


async def respond(storage: Storage, response: Response) -> Question:
    """Answer a question once; raises AnswerRefused, with the reason, if that is not possible."""
    question = await _existing(storage.inbox, response.interaction_id)
    if question.state != "open":
        raise _too_late(question)
    check(question.interaction, response)
    if not await storage.inbox.respond(answer_of(response)):
        raise _too_late(await _existing(storage.inbox, response.interaction_id))
    return question


def answer_of(response: Response) -> UserInteractionResponded:
    """The event that answers a question, now."""
    return UserInteractionResponded(task_id=response.task_id, at=instant.now(), response=response)


async def close_question(
    inbox: InboxStore,
    interaction: Interaction,
    reason: str | None,
    author: str = COTERIE,
    choice: str | None = None,
) -> None:
    """Close a question that nobody will answer, or that has been settled elsewhere by `choice`.

    A later answer is refused with this reason.
    """
    response = Response(
        interaction_id=interaction.interaction_id,
        task_id=interaction.task_id,
        author_actor_id=author,
        selected_option_id=choice,
        comment=reason,
    )
    await inbox.respond(answer_of(response))


async def _existing(inbox: InboxStore, interaction_id: str) -> Question:
    question = await inbox.question(interaction_id)
    if question is None:
        raise NotFound(f'No question "{interaction_id}".', "coterie inbox")
    return question


def _too_late(question: Question) -> AnswerRefused:
    name, response = question.interaction.interaction_id, question.response
    if response is None:
        why = f"{name} was closed when its task ended."
    elif not response.by_person:
        why = f"{name} was closed: {response.comment}."
    else:
        choice = answer_as_given(question.interaction, response.choice)
        at = f" at {instant.local(question.answered_at)}" if question.answered_at else ""
        why = f'{name} was already answered "{choice}"{at} by {response.author_actor_id}.'
    return AnswerRefused(f"{why} Your answer was not used.", "coterie inbox")
