"""The texts of Coterie's own questions, generated from their `about`.  Nothing parses them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from coterie.model import about, instant
from coterie.model.amount import format_amounts
from coterie.model.interaction import ContentKind, Display
from coterie.model.update import PendingCall

MORE_EXAMPLES: Mapping[about.Measure, str] = {"tokens": "+200k", "usd": "+2.50", "turns": "+5"}
"""An example of an answer that raises a budget, by measure."""

_TEXTS: Mapping[type[about.About], tuple[str, str]] = {
    about.ToolPermission: ("Use {tool}", ""),
    about.AgentQuestion: ("A question", ""),
    about.HumanTurn: ("Your turn, {name}", "Say something, or /end to end the conversation."),
    about.FailedTurn: ("{member} cannot speak (turn {turn})", "{message}"),
    about.BudgetReached: (
        "{usage}{when}",
        "The next call was not made. How much more, such as {example}, or stop?",
    ),
    about.WorkflowChange: (
        "The workflow changed at {step}",
        "The recorded steps no longer match the workflow: {difference}.",
    ),
    about.Subtask: ("{asker} wants to delegate a part of its work", "{proposal}"),
    about.ClarifyingQuestion: (
        "{question}",
        '{number} of {total}. Answer it, or say "go" to begin without more questions.',
    ),
    about.PlanApproval: (
        "{plan} with {count}{reason}",
        "Approve it, or say what to change (--say).",
    ),
    about.PlanRejected: (
        "{manager} gave no plan that can be carried out",
        "Tried {tries} times. The problems of the last one:",
    ),
    about.FailedChecks: (
        "{ticket} was approved, but {outcomes}",
        "A ticket is done only if its checks pass; only you can override that.",
    ),
    about.FailedTicket: ("{ticket} failed: {title}", "{reason}"),
    about.NobodyCapable: (
        "{ticket} needs {capability}, and {who} failed at it: {title}",
        "{reason}\nNobody else has that capability.",
    ),
    about.ReportConfirmation: (
        "The final report: {summary}",
        "Confirm it, or say what is missing (--say). Full report: {report}",
    ),
    about.OutsideEdits: ("Was it you? {message}", "Nothing was reverted: it may be your own work."),
    about.TicketHelp: ("{question}", "{ticket} cannot continue without an answer."),
    about.PhaseChoice: ("{over}: what next?", "{summary}"),
    about.GateFailed: (
        "The gate {gate} failed{after}",
        "{why}\nOnly you can override it.",
    ),
    about.FailedPhaseStep: ("{step} failed", "{reason}"),
    about.UnplannedFiles: (
        "{member} changed files that the plan does not name: {names}",
        "Keep the changes, revert them, or have the work redone.",
    ),
    about.PlanQuestion: ("{question}", "{number} of {total}, asked by {role}."),
    about.ChangeAcceptance: (
        "Accept the change: {summary}",
        "{stand}You can give the commit message with it (--say).",
    ),
    about.SilentMachine: (
        "{machine} has not been heard from since {heard}",
        "It runs {what}. Take over only if you know that it is dead: an agent that still runs "
        "there would run twice.",
    ),
}
"""Title and description of a question, by the type of its `about`."""
_STOPPED = "{member} was stopped (turn {turn})"
_NO_MANAGER = "{member} (manager) gave no usable answer"


def display_of(subject: about.About, content: str = "", kind: ContentKind = "PlainText") -> Display:
    """The text shown to the person; `content` is additional material to look at."""
    title, description = _TEXTS[type(subject)]
    if isinstance(subject, about.FailedTurn) and subject.failure == "stopped":
        title = _STOPPED
    elif isinstance(subject, about.FailedTurn) and subject.manages:
        title = _NO_MANAGER
    words = {**vars(subject), **_derived(subject)}
    return Display(
        title=title.format_map(words),
        description=description.format_map(words),
        content=content,
        content_kind=kind,
    )


def call_display(call: PendingCall) -> Display:
    """The text shown for a tool call that awaits approval: exactly what it would do."""
    action = call.action
    if action is not None and action.effect == "run" and action.command:
        return Display(title="Run a command", content=action.command)
    paths = action.paths if action is not None and action.effect == "write" else ()
    title = f"Change {', '.join(paths)}" if any(paths) else call.name
    if call.diff:
        return Display(title=title, content=call.diff, content_kind="Diff")
    arguments = json.dumps(dict(call.input), indent=2, ensure_ascii=False)
    return Display(title=title, content=arguments, content_kind="Json")


def counted(number: int, noun: str) -> str:
    """A count with its noun: `1 ticket`, `5 tickets`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _derived(subject: about.About) -> Mapping[str, str]:
    """Texts composed from several fields."""
    match subject:
        case about.FailedTurn(message=message, hint=hint):
            return {"message": "\n".join(part for part in (message, hint) if part)}
        case about.BudgetReached(measure=measure, used=used, limit=limit):
            figures = format_amounts(measure, used, limit)
            return {
                "usage": f"{subject.member} used {figures}"
                if subject.member
                else f"{figures} used",
                "when": " today" if subject.scope in ("day", "member's day") else "",
                "example": MORE_EXAMPLES[measure],
            }
        case about.Subtask(proposed=proposed):
            return {"proposal": f"It proposes {proposed}." if proposed else "Who should do it?"}
        case about.PlanApproval(tickets=tickets, replaces=replaces, why=why):
            return {
                "count": counted(tickets, "ticket"),
                "plan": "Changed plan" if replaces else "Plan",
                "reason": f": {why}" if why else "",
            }
        case about.NobodyCapable(workers=workers):
            return {"who": " and ".join(workers)}
        case about.FailedChecks(checks=checks):
            return {"outcomes": "; ".join(checks)}
        case about.SilentMachine(since=since, tasks=tasks):
            count = f"{len(tasks)} tasks: " if len(tasks) > 1 else ""
            return {"heard": instant.in_utc(since), "what": count + ", ".join(tasks)}
        case _:
            return _derived_in_pipeline(subject)


def _derived_in_pipeline(subject: about.About) -> Mapping[str, str]:
    match subject:
        case about.PhaseChoice(phase=phase, reverted=reverted):
            return {"over": "The work was reverted" if reverted else f"{phase} has finished"}
        case about.GateFailed(reasons=reasons, rounds=rounds):
            after = f" after {counted(rounds, 'round')} of rework" if rounds else ""
            return {"why": "\n".join(reasons), "after": after}
        case about.UnplannedFiles(files=files):
            return {"names": ", ".join(files)}
        case about.PlanQuestion(role=role):
            return {"role": role or "the plan"}
        case about.ChangeAcceptance(failed=failed, problem=problem, said=said):
            gates = f"These gates failed: {', '.join(failed)}. " if failed else ""
            words = f"Said meanwhile: {said}\nThe coder hears it if you send the change back. "
            stand = (f"{problem}. " if problem else "") + gates
            return {"stand": stand + (words if said else "")}
        case _:
            return {}
