"""The composition root: the one place that knows concrete classes, and what surfaces call."""

from coterie.agents.table import has_adapter
from coterie.app.accepting import Accepted
from coterie.app.costs import Cost, tally
from coterie.app.members import ByHand
from coterie.app.opened import Answered, App, keeper_problem, version_of
from coterie.process.programs import exec_program, succeeds

__all__ = [
    "Accepted",
    "Answered",
    "App",
    "ByHand",
    "Cost",
    "exec_program",
    "has_adapter",
    "keeper_problem",
    "succeeds",
    "tally",
    "version_of",
]
