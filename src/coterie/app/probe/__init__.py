"""What an installed CLI can do, found out by having it do it against a stand-in for its model.

Versions of these programs come weekly and none of them promises anything, so "it is installed"
says little.  A probe is a task like any other, in a temporary folder with a registry of its own:
nothing of the user's is read or touched, no token is spent, and what works here works in a team.
"""

from __future__ import annotations

from coterie.app.probe.outcome import STEPS, Probed, Step, Tried
from coterie.app.probe.trial import can_be_probed, probe, probe_agent

__all__ = ["STEPS", "Probed", "Step", "Tried", "can_be_probed", "probe", "probe_agent"]
