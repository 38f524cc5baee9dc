"""Starter teams: templates that `team new` and `init` write out with the agents at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.config.registry import Registry
from coterie.config.scan import program
from coterie.config.team_edit import Entry

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


def ready(registry: Registry) -> list[str]:
    """The registered agents whose program is there and that this version can speak to."""
    return [
        agent.name
        for agent in registry.agents.values()
        if spoken_to(agent.adapter) and program(agent.command)
    ]


def spoken_to(adapter: str | None) -> bool:
    """Whether there is an adapter of that name: ours, or one that somebody installed."""
    from coterie.app import has_adapter

    return has_adapter(adapter)
