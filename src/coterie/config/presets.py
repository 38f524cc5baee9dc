"""Starter teams: templates that `team new` and `init` write out with the agents at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coterie.config.known_agents import BUILT_IN, is_built_in, known_agent
from coterie.config.registry import Registry
from coterie.config.scan import program
from coterie.config.sign_in import has_key
from coterie.config.team_edit import Entry
from coterie.model.agent import AgentDefinition

_PAIR = (
    {"id": "ada", "prompt": "You write the code. Keep changes small; say what you changed."},
    {
        "id": "rex",
        "prompt": "You review what ada did. You never edit. Name files and lines.",
        "permissions": "read",
    },
)
_REVIEW = (
    {"id": "sec", "role": "security", "prompt": "You review security only. Name files and lines."},
    {"id": "perf", "role": "speed", "prompt": "You review speed only. Name files and lines."},
    {
        "id": "read",
        "role": "readability",
        "prompt": "You review how it reads. Name lines.",
    },
)
_DEBATE = (
    {"id": "pro", "prompt": "You argue for the proposal, with reasons that can be checked."},
    {"id": "con", "prompt": "You argue against the proposal, with reasons that can be checked."},
)

PRESETS: Mapping[str, tuple[str, Sequence[Mapping[str, object]]]] = {
    "pair": ("one writes, one reviews, you decide", _PAIR),
    "review": ("three read-only reviewers and you", _REVIEW),
    "debate": ("one for, one against, you decide", _DEBATE),
}


def seated(preset: str, agents: Sequence[str]) -> list[Entry]:
    """The members of a preset on the agents at hand, one after the other."""
    _, members = PRESETS[preset]
    entries: list[Entry] = []
    for place, member in enumerate(members):
        entry = {"id": member["id"], "agent": agents[place % len(agents)], **member}
        if preset == "review":
            entry["permissions"] = "read"
        entries.append(entry)
    return [*entries, {"id": "you", "type": "human"}] if preset == "review" else entries


def ready(registry: Registry, is_spoken: Callable[[str | None], bool]) -> list[str]:
    """The registered agents whose program is there and whose adapter can be spoken through."""
    return [
        agent.name
        for agent in registry.agents.values()
        if is_spoken(agent.adapter) and _is_usable(agent)
    ]


def _is_usable(agent: AgentDefinition) -> bool:
    if not is_built_in(agent):
        return program(agent.command) is not None
    known = known_agent(BUILT_IN)
    return known is not None and has_key(known)
