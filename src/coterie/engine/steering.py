"""Steering a task from any process: answer, say, stop, end, cancel."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from coterie.engine.ending import FindUnstarted, cancel_below, conclude, end_parked, held
from coterie.engine.lease import Claimant
from coterie.engine.questions import is_turn_in, respond
from coterie.engine.reader import TaskReader
from coterie.engine.resuming import CANCELED
from coterie.errors import AnswerRefused, NotFound, TaskBusy, UsageError
from coterie.model import instant
from coterie.model.conversation import END, is_end
from coterie.model.interaction import APPROVE_BY_RULE, Interaction, Response, choose
from coterie.model.machine import OwnerFacts
from coterie.model.task import (
    ENDED,
    TaskCanceled,
    running_task,
)
from coterie.model.team import YOU, Permissions, is_instance_of
from coterie.model.tool_call import Action
from coterie.tools.permission import Rule, decide

RELEASE_TIMEOUT = 15.0
"""How long a living owner may take to end its agents and release the task, in seconds."""
LOOK = 0.25


@dataclass(frozen=True)
class Answered:
    """The outcome of answering one question."""

    interaction_id: str
    task_id: str
    """The task to resume: for a question about a ticket, its session."""
    choice: str
    resumable: bool
    """Whether nobody runs the task, so that `coterie resume` is the next command to type."""
    team: str = ""
    member: str = ""
    rule: str | None = None
    """The rule that this answer made, for this member of this team."""
    text: str = ""
    """The text typed with the answer, as it is stored."""


@dataclass(frozen=True)
class Said:
    """What became of a message."""

    question: str | None = None
    """The question that it answered; None: queued, to be read after the running turn."""

    def __str__(self) -> str:
        return f"answered {self.question}" if self.question else "queued"


async def answer(
    look: TaskReader, interaction_id: str, choice: str | None, text: str | None, author: str
) -> Answered:
    """Answer a question once."""
    question = await look.storage.inbox.question(interaction_id)
    if question is None:
        raise NotFound(f'No question "{interaction_id}".', "coterie inbox")
    interaction = question.interaction
    if interaction.kind == "Input" and text is None:
        choice, text = None, choice
    chosen = choose(interaction, choice) if choice and interaction.options else choice
    rule = None
    if chosen == APPROVE_BY_RULE:
        rule = await anyio.to_thread.run_sync(_rule, interaction, text, look.root)
    response = Response(
        interaction_id=interaction_id,
        task_id=interaction.task_id,
        author_actor_id=author,
        selected_option_id=chosen,
        input_value=rule or text,
        comment=text if interaction.kind in ("Select", "Confirm") and rule is None else None,
    )
    await respond(look.storage, response)
    session = running_task(interaction.task_id)
    return Answered(
        interaction_id,
        session,
        response.selected_option_id or response.input_value or "",
        await look.runner_of(session) is None,
        (await look.state(interaction.task_id)).created.team.name,
        interaction.author_actor_id,
        rule,
        text or "",
    )


def _rule(interaction: Interaction, edited: str | None, root: Path) -> str:
    """The rule that the user agrees to: as offered, or as they edited it.  Blocks.

    A rule that does not cover what is asked is refused: it would allow something else.
    """
    offered = next(
        (option.detail for option in interaction.options if option.id == APPROVE_BY_RULE), ""
    )
    name = interaction.interaction_id
    hint = f"coterie answer {name} rule --say {shlex.quote(offered)}"
    try:
        rule = str(Rule.parse(edited or offered))
    except ValueError as problem:
        message = f"{name}: that is not a valid rule: {problem} The question stays open."
        raise AnswerRefused(message, hint) from None
    if edited and edited.strip() != offered and not _covers(rule, interaction, root):
        message = f"{name}: {rule} does not cover what is asked. The question stays open."
        raise AnswerRefused(message, f"{hint}, or once, deny, task")
    return rule


def _covers(rule: str, interaction: Interaction, root: Path) -> bool:
    """Whether a rule alone would have allowed what a question is about."""
    call = interaction.permission
    if call is None:
        return False
    action = Action(call.effect, call.tool, call.cwd, call.command, call.paths, call.target)
    rulings = (
        decide(action, Permissions(), None, folder, granted=(rule,))
        for folder in (Path(call.cwd or root), root)
    )
    return any(ruling.verdict == "allow" for ruling in rulings)


async def say(
    look: TaskReader, task_id: str, text: str, author: str | None, conversation: str = ""
) -> Said:
    """Say something to a task: it answers a human's open turn, else it is queued for the workflow.

    `conversation` is the workflow that a person's END ends, whatever it is waiting for.
    """
    state = await look.state(task_id)
    if state.status in ENDED:
        raise UsageError(f"{task_id} is {state.status}: it takes no more messages.")
    team = state.created.team
    for question in await look.storage.inbox.questions():
        interaction = question.interaction
        mine = is_turn_in(interaction, task_id, team)
        if mine and author in (None, interaction.author_actor_id):
            await answer(look, interaction.interaction_id, None, text, interaction.author_actor_id)
            return Said(interaction.interaction_id)
    ends = is_end(text) and state.created.workflow == conversation
    kind = "end" if ends else "say"
    await look.storage.inbox.request(task_id, kind, author or team.people[0].id, text)
    return Said()


async def interrupt(look: TaskReader, task_id: str) -> None:
    """Interrupt the current turn."""
    await look.state(task_id)
    await look.storage.inbox.request(task_id, "interrupt", YOU, "")


async def stop(look: TaskReader, task_id: str) -> bool:
    """Park a task and wait until its owner has released it; False if nobody ran it."""
    await look.state(task_id)
    if await look.runner_of(task_id) is None:
        return False
    await look.storage.inbox.request(task_id, "stop", YOU, "")
    await _until_released(look, task_id)
    return True


async def stop_member(look: TaskReader, task_id: str, name: str) -> bool:
    """End one member's agent and wait until it is gone; False if nobody ran the task.

    Its current turn fails, or else its next one, and the user is then asked what to do.
    """
    state = await look.state(task_id)
    member = state.created.team.instance(name)
    if member is None or member.type == "human":
        here = ", ".join(one.id for one in state.created.team.ai_members)
        raise NotFound(f'No member "{name}" to stop in {task_id}. Here: {here}.')
    if await look.runner_of(task_id) is None:
        return False
    below = await look.below(task_id)
    busy = [
        one
        for one in await look.running()
        if one.task in below and is_instance_of(name, one.member)
    ]
    places = {one.task for one in busy} or {task_id}
    for place in places:
        await look.storage.inbox.request(place, "stop_member", YOU, name)

    async def is_there() -> bool:
        members = [one for place in places for one in await look.running(place)]
        mine = [one for one in members if is_instance_of(name, one.member)]
        return any(one.pid or (one.state != "idle" and one.waits_for != "you") for one in mine)

    await _until_released(look, task_id, is_there)
    return True


async def end(look: TaskReader, claimant: Claimant, task_id: str, unstarted: FindUnstarted) -> None:
    """End a conversation as completed: by asking its runner to, or at once if nobody runs it.

    A running turn is finished first.  One that was cut off when its process died is not retried.
    """
    state = await look.state(task_id)
    if state.status in ENDED:
        return
    # Request it before looking for a runner: whoever runs the task, or is just taking it, finds it.
    author = state.created.team.people[0].id
    await look.storage.inbox.request(task_id, "end", author, END)
    if await look.runner_of(task_id) is None:
        await end_parked(look.storage, claimant, task_id, unstarted)


async def cancel(
    look: TaskReader,
    claimant: Claimant,
    task_id: str,
    unstarted: FindUnstarted = lambda entries: (),
) -> None:
    """End a task for good."""
    state = await look.state(task_id)
    if state.status in ENDED:
        raise UsageError(f"{task_id} is already {state.status}.", f"coterie show {task_id}")
    if await look.runner_of(task_id) is not None:
        await look.storage.inbox.request(task_id, "cancel", YOU, "")
        await _until_released(look, task_id)
        if (await look.state(task_id)).status in ENDED:
            return
    async with held(look.storage, claimant, task_id) as fence:
        if (await look.state(task_id)).status not in ENDED:  # unless another process was faster
            await cancel_below(look.storage, claimant, task_id, unstarted)
            event = TaskCanceled(task_id=task_id, at=instant.now())
            await conclude(look.storage, fence, [event], unstarted, CANCELED)


async def _until_released(
    look: TaskReader, task_id: str, is_held: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Wait until nobody runs the task any more, or until `is_held` returns something falsy."""
    seen = 0
    is_held = is_held or partial(look.runner_of, task_id)
    try:
        async with asyncio.timeout(RELEASE_TIMEOUT):
            while await is_held():
                try:
                    async with asyncio.timeout(LOOK):
                        seen = await look.storage.changed(seen)
                except TimeoutError:
                    continue
    except TimeoutError:
        known = await look.runner_of(task_id) or OwnerFacts()
        raise TaskBusy(
            task_id,
            known.pid,
            known.host,
            f"It did not release the task within {RELEASE_TIMEOUT:.0f} s; is it suspended?",
        ) from None
