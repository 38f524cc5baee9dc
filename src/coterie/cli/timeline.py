"""A task's timeline, line by line: when, who, what."""

from __future__ import annotations

from pathlib import Path

from coterie.cli import figures, records, report
from coterie.cli.call import Call
from coterie.cli.text import cells, clip, one_line, pad, printable
from coterie.cli.transcript import about, telling
from coterie.config.files import shown
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
    ResultRecord,
    TaskRecord,
    ToolCallRecord,
)
from coterie.model.team import Team
from coterie.model.view import Entry, TaskDetail, TaskView
from coterie.workspace.folder import member_folder

US = "coterie"


class Timeline:
    """Prints entries; every line names the member, so that it can be searched for."""

    def __init__(self, call: Call, root: Path, team: Team) -> None:
        self._call = call
        self._root = root
        self._team = team
        self._size = max([len(US), *(cells(member.id) for member in team.members)])

    def head(self, detail: TaskDetail) -> None:
        """What the task is, and where its members live."""
        call, created = self._call, detail.state.created
        call.line(f"{detail.view.id}  {detail.view.workflow}  {one_line(created.goal)}")
        for member in self._team.in_order:
            folder = shown(member_folder(self._root, self._team.name, member))
            call.line(f"  {pad(member.id, self._size)}  {about(member)}  {folder}")

    def show(self, entry: Entry) -> None:
        """One entry."""
        self._call.record(entry.record.type, records.fields_of(entry.record), entry.at)
        who, what = told(entry.record)
        before = f"{figures.clock(entry.at)}  {pad(clip(who, 20), self._size)}  "
        self._call.lines([before + line for line in what.split("\n")] if what else [])

    def end(self, view: TaskView) -> None:
        """How it stands when there is nothing more to follow."""
        if view.pid is None and view.resumable:
            self._call.line(f"Nobody runs it now.  coterie resume {view.id}")


def told(record: Record) -> tuple[str, str]:
    """Who, and what they did; an empty what is nothing to show."""
    match record:
        case TaskRecord():
            return US, f"task {record.status}"
        case MessageRecord():
            return record.member, printable(record.text.strip("\n"))
        case ToolCallRecord() if record.status != "started":
            return record.member, _tool(record)
        case InteractionRecord():
            return record.member or US, _question(record)
        case MemberRecord():
            return record.member, f"{record.state} {one_line(record.reason)}".rstrip()
        case ErrorRecord():
            where = f" (in {record.where})" if record.where else ""
            return record.member or US, printable(f"! {record.message}{where}")
        case ResultRecord():
            return US, report.in_words(record.reason)
        case _:
            return "", ""


def _tool(record: ToolCallRecord) -> str:
    mark = "?" if record.status == "unknown" else "✗" if record.is_error else "✓"
    took = "" if record.duration_ms is None else f"  {figures.duration(record.duration_ms / 1000)}"
    return f"{mark} {one_line(record.name)} {telling(record.input)}{took}"


def _question(record: InteractionRecord) -> str:
    name = record.interaction.interaction_id
    if record.state == "open":
        return f"▲ asks {name}: {one_line(record.interaction.display.title)}"
    said = f": {one_line(record.answer)}" if record.answer else ""
    by = f" by {record.by}" if record.by else ""
    return f"{name} {record.state}{by}{said}"
