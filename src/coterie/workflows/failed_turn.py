"""The question about a member that cannot speak."""

from __future__ import annotations

from coterie.model.interaction import Ask, Display, Option
from coterie.model.team import Member
from coterie.model.update import TurnFailed


def about_failure(speaker: Member, failure: TurnFailed, others: list[Member], turn: int) -> Ask:
    """What to do about a member that cannot speak: every workflow asks it in these words."""
    return Ask(
        author=speaker.id,
        kind="Select",
        purpose="choose_strategy",
        display=Display(
            title=f"{speaker.id} cannot speak (turn {turn})",
            description="\n".join(part for part in (failure.message, failure.hint) if part),
            content=failure.stderr_tail,
        ),
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
