"""A task's timeline, line by line: when, who, what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from coterie.cli.lines import FENCE, US, describe
from coterie.cli.main import Call
from coterie.cli.text import about, cells, clip, clock, counted, one_line, pad, warned
from coterie.model import as_json
from coterie.model.interaction import REJECT
from coterie.model.record import (
    Entry,
    InteractionRecord,
    MessageRecord,
    Record,
    TaskDetail,
    TaskView,
    ToolCallRecord,
)
from coterie.model.team import Team, member_folder
from coterie.model.visible import printable
from coterie.model.workspace import shown


class Timeline:
    """Prints entries; every line names the member, so that the output can be searched."""

    def __init__(self, call: Call, root: Path, team: Team) -> None:
        self._call = call
        self._root = root
        self._team = team
        self._size = max([len(US), *(cells(member.id) for member in team.members)])

    def head(self, detail: TaskDetail) -> None:
        """Print what the task is, and the folders of its members."""
        call, created = self._call, detail.state.created
        call.line(f"{detail.view.id}  {detail.view.workflow}  {one_line(created.goal)}")
        for member in self._team.in_order:
            folder = shown(member_folder(self._root, self._team.name, member))
            what = warned(about(member), member.permissions.mode, call.paint)
            call.line(f"  {pad(member.id, self._size)}  {what}  {folder}")

    def show_all(self, entries: Sequence[Entry], *, running: bool) -> None:
        """Print all so far; unless the task is running, tool calls without an end count as lost."""
        lost = {} if running or self._call.json else _lost(entries)
        for entry in entries:
            record = lost.get(id(entry.record), entry.record)
            self.show(replace(entry, record=record))

    def show(self, entry: Entry) -> None:
        self._call.record(entry.record.type, as_json.fields_of(entry.record), entry.at)
        who, what = logged(entry.record, entry.payload)
        before = f"{clock(entry.at)}  {pad(clip(who, 20), self._size)}  "
        self._call.lines([before + line for line in what.split("\n")] if what else [])

    def end(self, view: TaskView) -> None:
        """Say how to resume the task, if nobody runs it any more."""
        if view.resumable:
            self._call.line(f"It is not running.  coterie resume {view.id}")


def _lost(entries: Sequence[Entry]) -> dict[int, ToolCallRecord]:
    """Map the `id()` of each start record whose call never ended to the record to show instead."""
    begun: dict[tuple[str, str], ToolCallRecord] = {}
    calls: dict[str, tuple[str, str]] = {}
    refused: set[tuple[str, str]] = set()
    for entry in entries:
        match entry.record:
            case ToolCallRecord(status="started") as call:
                begun[call.member, call.id] = call
            case ToolCallRecord() as call:
                begun.pop((call.member, call.id), None)
            case InteractionRecord(state="open") as question if question.interaction.permission:
                tool = question.interaction.permission.tool
                mine = [
                    key
                    for key, one in begun.items()
                    if (key[0], one.name) == (question.member, tool)
                ]
                if mine:
                    calls[question.interaction.interaction_id] = mine[-1]
                    refused.add(mine[-1])
            case InteractionRecord(state="answered") as question if question.answer != REJECT:
                refused.discard(calls.get(question.interaction.interaction_id, ("", "")))
            case _:
                pass
    return {
        id(call): replace(call, status="completed", is_error=True, denied="nobody approved it")
        if key in refused
        else replace(call, status="unknown")
        for key, call in begun.items()
    }


def logged(record: Record, payload: str = "") -> tuple[str, str]:
    """Return who did something, and what; an empty text means there is nothing to show.

    `payload` is the type of payload that a reply was asked for, if any.
    """
    text = describe(record)
    if text is None:
        return "", ""
    if isinstance(record, MessageRecord):
        words = _summarized(text.what, payload) if payload else printable(text.what.strip("\n"))
        return text.who, f"{words}\n({text.note})" if text.note else words
    what = f"{text.mark} {text.what}  {text.note}" if text.mark else text.what
    return text.who, printable(what).rstrip()


_SUMMARIES = {
    "plan": ("plan", "tasks"),
    "review": ("review", "decision"),
    "clarification": ("clarification", "status"),
    "instruction_proposal": ("proposal", "summary"),
    "instruction": ("instruction", "summary"),
    "report": ("report", "status"),
}
"""What a type of payload is called here, and the field that says most about it."""


def _summarized(text: str, payload: str) -> str:
    """Return a reply, its payload replaced by a few words: `[report: completed]`."""
    for fence in reversed(list(FENCE.finditer(text))):
        block = fence[0].strip().removeprefix("```").lstrip().removeprefix("json").strip("`")
        if summary := _summary(block, payload):
            parts = (text[: fence.start()], f"[{summary}]", text[fence.end() :])
            return "\n".join(part for part in (printable(one).strip() for one in parts) if part)
    summary = _summary(text, payload)
    return f"[{summary}]" if summary else printable(text.strip("\n"))


def _summary(block: str, payload: str) -> str:
    """Return a payload in a few words; empty if the text is not one of this type."""
    try:
        parsed = json.loads(block)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(parsed, dict):
        return ""
    whole = cast("Mapping[str, object]", parsed)
    inner = whole.get("payload")
    body = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else whole
    name, field = _SUMMARIES[payload]
    value = body.get(field)
    if isinstance(value, list):
        value = counted(len(cast("list[object]", value)), "ticket")
    is_meant = whole.get("payload_type", payload) == payload and isinstance(value, str)
    return one_line(f"{name}: {value}").replace("_", " ") if is_meant else ""
