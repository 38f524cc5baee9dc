"""What a model is told before anything is said: how to work, who it is, where it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.tools.toolbox import ToolSpec

GUIDE = "AGENTS.md"
"""The project's own word to agents, which counts where the user has trusted the project."""
_LONGEST_GUIDE = 40_000


def instructions(member: Member, workspace: Workspace, written: Sequence[ToolSpec] = ()) -> str:
    """The system prompt.  Blocks.  `written` are tools that are called in the text of a reply."""
    return "\n\n".join(_parts(member, workspace, written))


def text_of(name: str) -> str:
    """One of the texts that lie beside this module.  Blocks."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8").strip()


def _parts(member: Member, workspace: Workspace, tools: Sequence[ToolSpec]) -> Iterator[str]:
    yield text_of("instructions.md")
    if tools:
        yield "\n\n".join([text_of("calling_in_text.md"), *map(_described, tools)])
    if workspace.team_instruction.strip():
        yield f"# The team\n\n{workspace.team_instruction.strip()}"
    if member.system_instruction.strip():
        yield f"# Your role\n\n{member.system_instruction.strip()}"
    yield "\n".join(_where(member, workspace))
    guide = _guide(workspace.execution_dir) if workspace.trusted else ""
    if guide:
        yield f"# {GUIDE} of the project\n\n{guide}"


def _where(member: Member, workspace: Workspace) -> Iterator[str]:
    yield "# Where you are"
    yield ""
    yield f"Your id in the team: {member.id}"
    # Where the link leads: by its own name it would lie in what is not for tools.
    yield f"Working directory: {workspace.execution_dir.resolve()}"
    if workspace.others:
        yield "Other members, by id:"
    for other, role in workspace.others.items():
        yield f"- {other}: {role}" if role else f"- {other}"


def _guide(folder: Path) -> str:
    """The project's own word; a link that leads elsewhere is not followed."""
    path = folder / GUIDE
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return ""
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    if len(text) <= _LONGEST_GUIDE:
        return text
    return f"{text[:_LONGEST_GUIDE]}\n… the rest is left out; read {GUIDE} for it …"


def _described(tool: ToolSpec) -> str:
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return f"## {tool.name}\n\n{tool.description}\n\nArguments: {schema}"
