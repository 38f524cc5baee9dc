"""The workflow `tickets`: a manager plans, workers deliver, every piece is checked and merged."""

from coterie.workflows.tickets.steps import FINAL, GROUND
from coterie.workflows.tickets.workflow import Tickets

__all__ = ["FINAL", "GROUND", "Tickets"]
