"""Starter teams: templates that `team new` and `init` write out with the agents at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coterie.config.registry import Registry
from coterie.config.scan import has_key, program
from coterie.config.teams import Entry
from coterie.model.agent import AgentDefinition, KnownAgents

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

_TICKETS = (
    {
        "id": "mira",
        "role": "manager",
        "prompt": "You plan and review. You never do the work yourself. You approve only what you "
        "would put your name to.",
    },
    {
        "id": "wren",
        "role": "worker",
        "prompt": "You do one ticket at a time, wholly and no more than it asks for.",
        "permissions": "accept-edits",
    },
    {
        "id": "finn",
        "role": "worker",
        "prompt": "You do one ticket at a time, wholly and no more than it asks for.",
        "permissions": "accept-edits",
    },
)

PRESETS: Mapping[str, tuple[str, Sequence[Mapping[str, object]]]] = {
    "pair": ("one writes, one reviews, you decide", _PAIR),
    "review": ("three read-only reviewers and you", _REVIEW),
    "debate": ("one for, one against, you decide", _DEBATE),
    "tickets": ("a manager who plans and reviews, two workers", _TICKETS),
}
_WORKFLOWS: Mapping[str, str] = {"tickets": "tickets"}
"""Of presets that are for one way of working."""


def workflow_of(preset: str | None) -> str | None:
    """How a preset's team works; None where that is not said."""
    return _WORKFLOWS.get(preset or "")


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
        if is_spoken(agent.adapter) and _is_usable(registry.known, agent)
    ]


def _is_usable(known: KnownAgents, agent: AgentDefinition) -> bool:
    if not known.is_part_of_coterie(agent):
        return program(agent.command) is not None
    facts = known.of(agent)
    return facts is not None and has_key(facts)
