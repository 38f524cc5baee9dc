"""Claude's requests for permission: what a call would do, the question, the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import cast

from coterie.agents.fields import (
    brief,
    exact_text,
    mapping,
    mappings,
    searched,
    text,
    unified,
    verbatim,
)
from coterie.agents.process import Object
from coterie.agents.questions import answer_text, choices_of, information, permission
from coterie.agents.team_tools.serving import is_ours
from coterie.model.flags import words
from coterie.model.interaction import Display, Response
from coterie.model.tool_call import Action, Effect
from coterie.model.update import Asked, PendingCall
from coterie.model.visible import patch_name
from coterie.workspace.beneath import read_regular

_HARMLESS = frozenset(
    words(
        "Agent AskUserQuestion BashOutput EnterPlanMode ExitPlanMode KillShell ListAgents "
        "ReportFindings StructuredOutput Task TaskCreate TaskGet TaskList TaskOutput TaskStop "
        "TaskUpdate TodoWrite ToolSearch"
    )
)
"""They affect only Claude itself, or are questions: a subagent's actions are asked separately."""


def is_harmless(tool: str) -> bool:
    """Whether a call needs no permission."""
    return tool in _HARMLESS or is_ours(tool)


def effect_of(tool: str) -> Effect:
    """Return the effect that a tool can have."""
    return "read" if is_harmless(tool) else _EFFECTS.get(tool, "other")


def action_of(tool: str, given: Object, cwd: str, *, sandbox: bool = False) -> Action:
    """Return what a call would do; `sandbox`: whether commands can run in a read-only sandbox."""
    path = path_of(given)
    match _EFFECTS.get(tool):
        case "run":
            command, held = exact_text(given.get("command")), sandbox and tool == SHELL
            return Action(
                "run", tool, cwd, command=command, read_only_sandbox=held, keeps_folder=held
            )
        case "write":
            return Action("write", tool, cwd, paths=(path,) if path else ())
        case "fetch":
            return Action("fetch", tool, cwd, target=text(given.get("url")))
        case "read" if tool in _SEARCHES:
            return Action(
                "read", tool, cwd, paths=_searched(tool, given), names_only=tool in _LISTS
            )
        case "read":
            # Without a file there is nothing for a rule to match.
            return Action("read" if path or not given else "other", tool, cwd, paths=(path,))
        case _:
            return Action("other", tool, cwd)


def _searched(tool: str, given: Object) -> tuple[str, ...]:
    """Return the folders that a search covers."""
    glob = text(given.get("glob" if tool == "Grep" else "pattern")) if tool != "LS" else ""
    place = searched(path_of(given), glob)
    homes = PurePath(place, ".coterie", _HOMES)
    # What its glob matches is searched even if it is ignored, provided that every folder matches.
    last = _BRACES.sub("*", glob.rpartition("/")[2])
    reached = tool == "Grep" and last and fnmatch(_HOMES, last)
    return (place, str(homes)) if reached else (place,)


def path_of(given: Object) -> str:
    """Return the file that a call is about."""
    return text(given.get("file_path") or given.get("notebook_path") or given.get("path"))


SHELL = "Bash"
_LISTS = ("Glob", "LS")
_SEARCHES = ("Grep", *_LISTS)
_HOMES = "members"
_BRACES = re.compile(r"\{[^}]*\}?")
_EFFECTS: Mapping[str, Effect] = {
    **dict.fromkeys((SHELL, "Monitor"), "run"),
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "Write"), "write"),
    **dict.fromkeys(("NotebookRead", "Read", *_SEARCHES), "read"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
}
EDITS = frozenset({"Edit", "MultiEdit", "Write"})
_LONGEST = 1_000_000
"""A larger file is not read for a diff: only the changed pieces are shown then."""


def diff_of(tool: str, given: Object, cwd: str) -> str:
    """Return the change that a call would make, as a diff."""
    path = path_of(given)
    old = _read(Path(cwd, path))
    if tool == "Write":
        return unified(path, old or "", exact_text(given.get("content")))
    edits = mappings(given.get("edits")) if tool == "MultiEdit" else [given]
    new = _edited(old, edits) if old is not None else None
    return "\n".join(_pieces(path, edits)) if new is None else unified(path, old or "", new)


def _read(path: Path) -> str | None:
    try:
        old = read_regular(path, _LONGEST, follow=True).decode(errors="replace")
        return old.replace("\r\n", "\n").replace("\r", "\n")  # as Claude reads it
    except (OSError, ValueError):  # missing, or not a valid file name
        return None


def _edited(old: str, edits: list[Object]) -> str | None:
    """Return the text after the edits; None if they do not fit it."""
    for edit in edits:
        before, after = (exact_text(edit.get(name)) for name in ("old_string", "new_string"))
        if before not in old or (not before and old):
            return None
        old = old.replace(before, after, -1 if edit.get("replace_all") is True else 1)
    return old


def _pieces(path: str, edits: list[Object]) -> list[str]:
    name = patch_name(path)
    lines = [f"--- {name}", f"+++ {name}"]
    for edit in edits:
        everywhere = " (everywhere)" if edit.get("replace_all") is True else ""
        lines.append(f"@@ position unknown{everywhere} @@")
        for sign, name in (("-", "old_string"), ("+", "new_string")):
            if text := exact_text(edit.get(name)):
                lines += [f"{sign}{line}" for line in text.split("\n")]
    return lines


QUESTION = "AskUserQuestion"
PLAN = "ExitPlanMode"

_IN_BACKGROUND = "It would run in the background while Claude continues."


@dataclass(frozen=True)
class ClaudeRequest:
    """Claude's request for permission to use a tool."""

    id: str
    tool: str
    input: Object
    call_id: str

    @classmethod
    def of(cls, request_id: str, request: Object) -> ClaudeRequest:
        return cls(
            request_id,
            text(request.get("tool_name")) or "unknown",
            cast("Object", verbatim(mapping(request.get("input")))),
            text(request.get("tool_use_id")),
        )

    def questions(self, cwd: str, last: str, diff: str, *, sandbox: bool) -> ClaudeQuestions:
        """Return what it asks: Claude works in `cwd`; `last` is its last text, `diff` what the call
        would change, `sandbox` whether commands can run in a read-only sandbox."""
        if self.tool == QUESTION:
            listed = mappings(self.input.get("questions"))
            asked = [_question(f"{self.id}.{n}", one, last) for n, one in enumerate(listed, 1)]
            if asked:
                return ClaudeQuestions(self, asked)
        given = self.input
        call = PendingCall(
            call_id=self.call_id,
            name=self.tool,
            input=given,
            cwd=cwd,
            action=action_of(self.tool, given, cwd, sandbox=sandbox),
            why=brief(text(given.get("description"))),
            said=brief(last),
            note=_IN_BACKGROUND if given.get("run_in_background") is True else "",
            diff=diff,
        )
        asked = permission(self.id, call)
        if self.tool == PLAN:
            plan = Display(title="Approve a plan", content=text(given.get("plan")))
            asked = replace(asked, purpose="choose_strategy", display=plan)
        return ClaudeQuestions(self, [asked])


@dataclass
class ClaudeQuestions:
    """A pending request: its questions, and the answers so far."""

    request: ClaudeRequest
    questions: Sequence[Asked]
    _answers: dict[str, Response] = field(default_factory=dict[str, Response])

    @property
    def command(self) -> str:
        """The requested command line, exactly as Claude gave it."""
        return exact_text(self.request.input.get("command"))

    def take(self, key: str, response: Response, held: str = "") -> Object | None:
        """Keep an answer; return the reply to Claude once none is missing.

        `held` is the sandboxed command for Claude to run instead, if the yes covers only that.
        """
        self._answers[key] = response
        if len(self._answers) < len(self.questions):
            return None
        if not self.questions[0].call:
            return self._chosen()
        if not response.approves or (response.is_read_only and not held):
            return _denied(response)
        rewritten = {"command": held} if response.is_read_only else {}
        return {"behavior": "allow", "updatedInput": {**self.request.input, **rewritten}}

    def _chosen(self) -> Object:
        answers: dict[str, str] = {}
        questions = mappings(self.request.input.get("questions"))
        for asked, question in zip(self.questions, questions, strict=True):
            response = self._answers[asked.key]
            answer = answer_text(asked, response)
            if not answer:
                return _denied(response)
            answers[text(question.get("question"))] = answer
        return {"behavior": "allow", "updatedInput": {**self.request.input, "answers": answers}}


def _denied(response: Response) -> Object:
    """Return a denial, with what Claude's model is told about it."""
    no = "The user said no" if response.by_person else "Permission was denied"
    message = f"{no}: {response.comment}" if response.comment else f"{no}."
    if response.selected_option_id is None and response.input_value is None:
        message = "Nobody answered, so permission was denied."
    return {"behavior": "deny", "message": message}


def _question(key: str, given: Object, last: str) -> Asked:
    offered = mappings(given.get("options"))
    choices = choices_of(text(one.get("label")) for one in offered)
    listed = "\n".join(
        f"{text(one.get('label'))}: {text(one.get('description'))}" for one in offered
    )
    display = Display(title=text(given.get("question")), description=brief(last), content=listed)
    return information(key, display, () if given.get("multiSelect") is True else choices)
