"""Answers as the engine's gate gives them: by the rules first, then by asking a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coterie.model.interaction import COTERIE, Display, Response
from coterie.model.question_text import call_display
from coterie.model.team import Permissions
from coterie.model.update import Asked
from coterie.tools.permission import decide

Answering = Callable[[Asked], Response]


def answer(choice: str | None, comment: str | None = None, author: str = "you") -> Response:
    return Response(
        interaction_id="q1",
        task_id="k3f9",
        author_actor_id=author,
        selected_option_id=choice,
        comment=comment,
    )


def shown(asked: Asked) -> Display:
    """What a person would see."""
    if asked.display is not None:
        return asked.display
    assert asked.call is not None, "a question that is no permission has words of its own"
    return call_display(asked.call)


def yes(asked: Asked) -> Response:
    return answer("approve")


@dataclass
class Gate:
    """What a member with these permissions may do in its folder.  Blocking."""

    permissions: Permissions
    root: Path
    person: Answering = yes
    asked: list[Asked] = field(default_factory=list[Asked])
    """The questions put to the person."""

    def __call__(self, asked: Asked) -> Response:
        action = asked.call.action if asked.call else None
        if asked.purpose == "confirm_risky_action" and action is not None:
            ruling = decide(action, self.permissions, None, self.root)
            if ruling.verdict == "allow":
                return answer("approve", author=COTERIE)
            if ruling.verdict == "allow_read_only":
                return answer("read_only", author=COTERIE)
            if ruling.verdict == "deny":
                return answer("reject", f"not permitted here: {ruling.because}", COTERIE)
        self.asked.append(asked)
        return self.person(asked)

    @property
    def names(self) -> list[str]:
        """The tools that the person was asked about."""
        return [one.call.name for one in self.asked if one.call]
