"""Helpers for the cases of the table: permissions, an action, the verdict."""

from __future__ import annotations

from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action, Verdict

Case = tuple[Permissions, Action, Verdict]


def rules(mode: Mode = "ask", *, allow: str = "", deny: str = "") -> Permissions:
    """Permissions with one rule of each kind, or several separated by commas."""
    return Permissions(mode=mode, allow=_split(allow), deny=_split(deny))


def _split(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def run(command: str, cwd: str = ".") -> Action:
    return Action("run", "Bash", cwd, command=command)


def look(command: str, cwd: str = ".") -> Action:
    """A command that can be run in a read-only sandbox."""
    return Action("run", "Bash", cwd, command=command, read_only_sandbox=True)


def read(*paths: str) -> Action:
    return Action("read", "Read", ".", paths=paths)


def search(folder: str) -> Action:
    """A tool searches files for a text."""
    return Action("read", "Grep", ".", paths=(folder,))


def listing(folder: str) -> Action:
    """A tool lists files."""
    return Action("read", "Glob", ".", paths=(folder,), names_only=True)


def write(*paths: str) -> Action:
    return Action("write", "Edit", ".", paths=paths)


def fetch(target: str) -> Action:
    return Action("fetch", "WebFetch", ".", target=target)


def other(tool: str) -> Action:
    return Action("other", tool, ".")


def each(permissions: Permissions, verdict: Verdict, *commands: str) -> list[Case]:
    return [(permissions, run(command), verdict) for command in commands]


def each_look(permissions: Permissions, verdict: Verdict, *commands: str) -> list[Case]:
    return [(permissions, look(command), verdict) for command in commands]
