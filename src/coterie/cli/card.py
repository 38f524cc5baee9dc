"""A question as a person reads it: the card of the chat, and its short form in lists."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cli.paint import Paint
from coterie.cli.text import clip, one_line, pad, printable, wrap
from coterie.model.interaction import Interaction

_NO_COLOUR = Paint(wanted=False)


@dataclass(frozen=True)
class Asked:
    """A question and what stands around it."""

    interaction: Interaction
    who: str
    """Who asks: `ada (claude)`, or `coterie`."""
    waiting: str = ""
    """For how long."""
    place: str = ""
    """The task, and the project where it is another one."""


def card(asked: Asked, width: int, height: int = 1000, paint: Paint = _NO_COLOUR) -> list[str]:
    """The whole question in a frame; content that would not fit `height` lines is cut."""
    options = _options(asked.interaction, width, paint)
    head = _ruled(f"{asked.interaction.interaction_id} · {asked.who} · {asked.place}", asked, width)
    says = [f" {line}" for line in wrap(asked.interaction.display.title, width - 2)]
    says += _description(asked.interaction, width)
    foot = clip("─ No answer is never a yes. " + "─" * width, width)
    room = height - len(options) - len(says) - 4
    content = _content(asked.interaction, width, max(room, 2))
    return [
        paint(head, "asks"),
        *[paint(line, "title") for line in says],
        *content,
        "",
        *options,
        paint(foot, "dim"),
    ]


def brief(asked: Asked, width: int, paint: Paint = _NO_COLOUR) -> list[str]:
    """The question in a few lines, with the command that answers it."""
    question = asked.interaction
    place = f" · {asked.place}" if asked.place else ""
    waiting = f" · waiting {asked.waiting}" if asked.waiting else ""
    head = f" ▲ {question.interaction_id}  {asked.who} asks{place}{waiting}"
    lines = [paint(clip(head, width), "asks")]
    lines += [f"     {line}" for line in wrap(question.display.title, width - 5)]
    lines += [f"     {line}" for line in _content(question, width - 4, 6)]
    lines += [f"    {line}" for line in _options(question, width - 4, paint)]
    return [*lines, f"     {how_to_answer(question)}"]


def how_to_answer(question: Interaction) -> str:
    """The command to paste."""
    name = question.interaction_id
    if question.kind == "Input":
        return f'coterie answer {name} --say "…"'
    choices = "|".join(option.id for option in question.options)
    say = ' --say "…"' if question.kind == "Composite" else ""
    return f"coterie answer {name} {choices}{say}"


def _ruled(left: str, asked: Asked, width: int) -> str:
    right = f" waiting {asked.waiting} ─" if asked.waiting else "─"
    left = clip(f"─ {one_line(left)} ", width - len(right))
    return pad(left, width - len(right)).replace("  ", "──").replace("─ ─", "───") + right


def _description(question: Interaction, width: int) -> list[str]:
    text = question.display.description
    return [f" {line}" for line in wrap(text, width - 2)] if text.strip() else []


def _content(question: Interaction, width: int, room: int) -> list[str]:
    text = printable(question.display.content).strip("\n")
    if not text.strip():
        return []
    lines = [f"     {line}" for line in wrap(text, width - 6)]
    if len(lines) > room:
        more = len(lines) - room + 1
        rest = f"     … {more} more lines: coterie show {question.interaction_id}"
        lines = [*lines[: room - 1], clip(rest, width)]
    return ["", *lines]


def _options(question: Interaction, width: int, paint: Paint) -> list[str]:
    if not question.options:
        return [" Type your answer, then Enter."] if question.kind == "Input" else []
    size = max(len(option.id) for option in question.options)
    lines: list[str] = []
    for number, option in enumerate(question.options, 1):
        label = "" if option.label.casefold() == option.id.casefold() else option.label
        shown = clip(f" {number} {option.id:<{size}}   {one_line(label)}".rstrip(), width)
        lines.append(paint(shown, "bad") if option.style == "danger" else shown)
    return lines
