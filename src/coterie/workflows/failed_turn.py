"""The question about a member that cannot speak."""

from __future__ import annotations

from coterie.model.about import FailedTurn
from coterie.model.interaction import Ask, Option
from coterie.model.team import Member
from coterie.model.update import TurnFailed


def about_failure(speaker: Member, failure: TurnFailed, others: list[Member], turn: int) -> Ask:
    """What to do about a member that cannot speak: every workflow asks it in these words."""
    return Ask(
        author=speaker.id,
        kind="Select",
        about=FailedTurn(
            member=speaker.id,
            turn=turn,
            failure=failure.kind,
            message=failure.message,
            hint=failure.hint,
        ),
        content=failure.stderr_tail,
        options=(
            Option(id="retry", label="try again", style="primary"),
            Option(id="skip", label=f"skip {speaker.id} this time"),
            *(
                Option(id=replacing(other), label=f"{other.id} takes the turns of {speaker.id}")
                for other in others
            ),
            Option(id="stop", label="stop and keep", style="danger"),
        ),
    )


def replacing(member: Member) -> str:
    """The choice that gives a member the turns of the one that cannot speak."""
    return f"replace-{member.id}"
