"""A member's home as a person finds it who starts the CLI by hand."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.homes import acp, claude, codex, gemini


def home_environment(
    adapter: str, agent: AgentDefinition, member: Member, workspace: Workspace
) -> Mapping[str, str]:
    """The environment of a member's CLI, its home written as Coterie itself would.  Blocks."""
    if adapter == "claude":
        return claude.prepare(member, workspace).env
    if adapter == "codex":
        return codex.prepare(member, workspace).env
    if adapter == "gemini":
        return gemini.prepare(member, workspace).env
    if adapter == "acp":
        return acp.prepare(agent, member, workspace).env
    return workspace.env
