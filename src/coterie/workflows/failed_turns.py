"""Turns that fail: what the user may do about them, the same in every workflow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from coterie.model import step_name
from coterie.model.about import FailedTurn
from coterie.model.conversation import Message
from coterie.model.interaction import Answer, Ask, Option
from coterie.model.task import Stopped
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.ports import Context

STOP = Option(id="stop", label="stop and keep", style="danger")


async def answer_or_stop(context: Context, name: str, question: Ask) -> Answer:
    """The user's answer.  Parks the task where they choose to stop now: a later run finds that
    answer recorded and goes on."""
    answer = await context.ask(name, question)
    if answer.response.selected_option_id == STOP.id and answer.fresh:
        context.park(Stopped("stopped"))
    return answer


async def turn_or_skip(
    context: Context, number: int, speaker: Member, team: Sequence[Member] = ()
) -> tuple[Message | None, Member]:
    """The reply to a turn, and who gave it; no reply where the user skips the turn.

    `team` are those who may take the turns of a member whose agent fails.
    """
    for tries in count():
        outcome = await context.turn(step_name.turn(number, tries), speaker, number)
        if isinstance(outcome, Message):
            return outcome, speaker
        others = {f"replace-{one.id}": one for one in team if one.id != speaker.id}
        options = (
            Option(id="retry", label="try again", style="primary"),
            Option(id="skip", label=f"skip {speaker.id} this time"),
            *(
                Option(id=choice, label=f"{other.id} takes the turns of {speaker.id}")
                for choice, other in others.items()
            ),
            STOP,
        )
        question = failed_turn(speaker, outcome, number, options)
        answer = await answer_or_stop(context, step_name.failed_turn(number, tries + 1), question)
        choice = answer.response.selected_option_id or ""
        if choice == "skip":
            break
        speaker = others.get(choice, speaker)
    return None, speaker


def failed_turn(
    member: Member, failure: TurnFailed, number: int, options: tuple[Option, ...]
) -> Ask:
    """The question about a turn that failed."""
    about = FailedTurn(
        member=member.id,
        turn=number,
        failure=failure.kind,
        message=failure.message,
        hint=failure.hint,
    )
    return Ask(member.id, "Select", about, options=options, content=failure.stderr_tail)
