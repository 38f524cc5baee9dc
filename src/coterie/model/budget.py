"""The limits of a budget: which turns count, and what the answers at a limit have granted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coterie.model import instant
from coterie.model.about import BudgetReached, BudgetScope, Measure
from coterie.model.amount import parse_increase
from coterie.model.interaction import Interaction, Question
from coterie.model.task import session_of, ticket_task_of
from coterie.model.team import Reservation, base_of


class Limit(NamedTuple):
    """One limit that applies to a turn."""

    scope: BudgetScope
    measure: Measure
    amount: float
    whose: str
    """The task, the ticket or the member; empty for everybody, today."""
    session: str
    """The session whose budget it is, unless it is that of a day."""

    @property
    def is_of_day(self) -> bool:
        """Whether it counts from midnight, for all tasks."""
        return self.scope in ("day", "member's day")

    @property
    def is_of_member(self) -> bool:
        """Whether only one member's turns count."""
        return self.scope in ("member", "member's day")

    @property
    def since(self) -> str:
        """The instant from which turns and answers count."""
        return f"{instant.now()[:10]}T00:00:00" if self.is_of_day else ""

    def counts(self, turn: Reservation) -> bool:
        """Whether a turn under way counts towards this limit."""
        if self.is_of_member and base_of(turn.member) != self.whose:
            return False
        if self.is_of_day:
            return turn.at >= self.since
        if self.scope == "ticket":
            return ticket_task_of(turn.task_id) == self.whose
        return session_of(turn.task_id) == self.session

    def is_asked_about(self, question: Interaction) -> bool:
        """Whether a question asks about this limit, on any day."""
        about, task_id = question.about, question.task_id
        if not isinstance(about, BudgetReached):
            return False
        if (about.scope, about.measure) != (self.scope, self.measure):
            return False
        # Earlier releases recorded the task that asked, which may be a part of the session.
        whose = about.member == self.whose or (self.scope == "task" and about.member == task_id)
        return whose and (self.is_of_day or session_of(task_id) == self.session)

    def granted(self, questions: Iterable[Question]) -> float:
        """How much more the user has granted; grants for a past day no longer count."""
        mine = (one for one in questions if self.is_asked_about(one.interaction))
        return sum((grant(one) for one in mine if (one.answered_at or "") >= self.since), 0.0)


def grant(question: Question) -> float:
    """How much more the answer to a question grants; 0 if it is not about a budget, or not
    answered."""
    response = question.response
    return granted_by(question.interaction, response.input_value or "" if response else "")


def granted_by(question: Interaction, answer: str) -> float:
    """How much more an answer, as typed, grants."""
    is_budget = isinstance(question.about, BudgetReached)
    return parse_increase(answer or "stop") or 0.0 if is_budget else 0.0
