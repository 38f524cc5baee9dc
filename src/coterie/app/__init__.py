"""The composition root: the one place that knows concrete classes, and what surfaces call."""

from coterie.agents.table import has_adapter
from coterie.app.accepting import Accepted
from coterie.app.costs import Cost, tally
from coterie.app.members import ByHand
from coterie.app.opened import Answered, App, keeper_problem, version_of
from coterie.process.become import become
from coterie.process.version import says_yes

__all__ = [
    "Accepted",
    "Answered",
    "App",
    "ByHand",
    "Cost",
    "become",
    "has_adapter",
    "keeper_problem",
    "says_yes",
    "tally",
    "version_of",
]
