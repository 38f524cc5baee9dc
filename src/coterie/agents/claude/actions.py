"""What Claude's tools would do, in terms that hold for every agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coterie.agents.fields import text
from coterie.agents.inside import is_ours
from coterie.agents.searching import searched
from coterie.agents.wire import Object
from coterie.model.action import Action, Effect

_HARMLESS = frozenset(
    {
        "Agent",
        "AskUserQuestion",
        "BashOutput",
        "EnterPlanMode",
        "ExitPlanMode",
        "KillShell",
        "ListAgents",
        "ReportFindings",
        "StructuredOutput",
        "Task",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "TaskUpdate",
        "TodoWrite",
        "ToolSearch",
    }
)
"""They touch nothing but Claude itself, or are questions: what a helper does is asked for apart."""


def is_harmless(tool: str) -> bool:
    """Whether a call needs nobody's leave."""
    return tool in _HARMLESS or is_ours(tool)


def effect_of(tool: str) -> Effect:
    """What a tool can do."""
    return "read" if is_harmless(tool) else action_of(tool, {}, "").effect


def action_of(tool: str, given: Object, cwd: str) -> Action:
    """What a call would do."""
    make = _MAKE.get(tool)
    return make(tool, given, cwd) if make else Action("other", tool, cwd)


def path_of(given: Object) -> str:
    """The file that a call is about."""
    return text(given.get("file_path") or given.get("notebook_path") or given.get("path"))


def _runs(tool: str, given: Object, cwd: str) -> Action:
    return Action("run", tool, cwd, command=text(given.get("command")))


def _writes(tool: str, given: Object, cwd: str) -> Action:
    path = path_of(given)
    return Action("write", tool, cwd, paths=(path,) if path else ())


def _reads(tool: str, given: Object, cwd: str) -> Action:
    path = path_of(given)
    # Without a file there is nothing that a rule could look at.
    return Action("read" if path or not given else "other", tool, cwd, paths=(path,))


def _searches(tool: str, given: Object, cwd: str) -> Action:
    pattern = text(given.get("pattern")) if tool == "Glob" else ""
    return Action("read", tool, cwd, paths=(searched(path_of(given), pattern),))


def _fetches(tool: str, given: Object, cwd: str) -> Action:
    return Action("fetch", tool, cwd, target=text(given.get("url")))


_MAKE: Mapping[str, Callable[[str, Object, str], Action]] = {
    **dict.fromkeys(("Bash", "Monitor"), _runs),
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "Write"), _writes),
    **dict.fromkeys(("NotebookRead", "Read"), _reads),
    **dict.fromkeys(("Glob", "Grep", "LS"), _searches),
    **dict.fromkeys(("WebFetch", "WebSearch"), _fetches),
}
