"""A question as a person reads it: the card of the chat, and its short form in lists."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cli.figures import counted
from coterie.cli.paint import Paint
from coterie.cli.text import cells, clip, one_line, printable, wrap
from coterie.model.interaction import Interaction

_NO_COLOUR = Paint(wanted=False)


@dataclass(frozen=True)
class Asked:
    """A question and what stands around it."""

    interaction: Interaction
    who: str
    """Who asks: `ada (claude)` or `coterie`; empty when it is a human's own turn."""
    waiting: str = ""
    """For how long."""
    place: str = ""
    """The task, and the project where it is another one."""
    project: str = ""
    """What names that other project on a command line: ` -C DIR`."""


def card(asked: Asked, width: int, height: int = 1000, paint: Paint = _NO_COLOUR) -> list[str]:
    """The whole question in a frame; content that would not fit `height` lines is cut."""
    parts = [asked.interaction.interaction_id, asked.who or "your turn", asked.place]
    waiting = f"waiting {asked.waiting}" if asked.waiting else ""
    head = _ruled(one_line(" · ".join(part for part in parts if part)), waiting, width)
    foot = _ruled("No answer is never a yes.", "", width)
    options = _options(asked.interaction, width, paint)
    # The choices are always seen; then comes what is asked, then all that goes with it.
    room = max(height - len(options) - 3, 1)
    says = [f" {line}" for line in wrap(asked.interaction.display.title, width - 2)]
    kept = 1 if asked.interaction.display.content.strip() else 0
    says = (says + _description(asked.interaction, width))[: max(room - kept, 1)]
    content = _content(asked.interaction, width, max(room - len(says), 1))
    return [
        paint(head, "asks"),
        *[paint(line, "title") for line in says],
        *content,
        *([""] if room > len(says) + len(content) else []),
        *options,
        paint(foot, "dim"),
    ]


def brief(asked: Asked, width: int, paint: Paint = _NO_COLOUR) -> list[str]:
    """The question in a few lines, with the command that answers it."""
    question = asked.interaction
    place = f" · {asked.place}" if asked.place else ""
    waiting = f" · waiting {asked.waiting}" if asked.waiting else ""
    what = f"{asked.who} asks" if asked.who else "your turn"
    lines = [paint(clip(f" ▲ {question.interaction_id}  {what}{place}{waiting}", width), "asks")]
    if asked.who:
        lines += [f"     {line}" for line in wrap(question.display.title, width - 5)]
    if question.display.description.strip():
        lines += [f"     {line}" for line in wrap(question.display.description, width - 5)]
    if asked.who or asked.place:  # else it is the reader's own turn, about what stands above
        lines += [f"    {line}".rstrip() for line in _content(question, width - 4, 6)]
    lines += [f"    {line}" for line in _options(question, width - 4, paint)]
    return [*lines, f"     {how_to_answer(asked)}"]


def how_to_answer(asked: Asked) -> str:
    """The command to paste."""
    question = asked.interaction
    command = f"coterie answer{asked.project} {question.interaction_id}"
    if question.kind == "Input":
        return f'{command} --say "…"'
    choices = "|".join(option.id for option in question.options)
    say = ' --say "…"' if question.kind == "Composite" else ""
    return f"{command} {choices}{say}"


def _ruled(left: str, right: str, width: int) -> str:
    """A line across, with words near its two ends."""
    end = f" {right} ─" if right else "─"
    start = f"─ {clip(left, width - cells(end) - 4)} "
    return start + "─" * (width - cells(start) - cells(end)) + end


def _description(question: Interaction, width: int) -> list[str]:
    text = question.display.description
    return [f" {line}" for line in wrap(text, width - 2)] if text.strip() else []


def _content(question: Interaction, width: int, room: int) -> list[str]:
    text = printable(question.display.content).strip("\n")
    if not text.strip():
        return []
    lines = [f"     {line}" for line in wrap(text, width - 6)]
    if len(lines) + 1 <= room:
        return ["", *lines]
    shown = max(room - 2, 0)
    # Never cut without a word: nobody should approve what they have not seen.
    more = counted(len(lines) - shown, "more line")
    rest = f"     … {more}: coterie show {question.interaction_id}"
    return [*([""] if room > 1 else []), *lines[:shown], clip(rest, width)]


def _options(question: Interaction, width: int, paint: Paint) -> list[str]:
    if not question.options:
        return []
    size = max(len(option.id) for option in question.options)
    lines: list[str] = []
    for number, option in enumerate(question.options, 1):
        label = "" if option.label.casefold() == option.id.casefold() else option.label
        shown = clip(f" {number} {option.id:<{size}}   {one_line(label)}".rstrip(), width)
        lines.append(paint(shown, "bad") if option.style == "danger" else shown)
    return lines
