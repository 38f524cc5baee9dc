"""A question as a person reads it: the card in a chat, and its short form in lists.

People approve what they read here. So every character is visible (`model.visible`), a folded line
is marked as folded and loses nothing, and content that is too long for the space shows both its
ends, with how much is left out and where to read all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cli.card_content import excerpt
from coterie.cli.text import (
    NO_COLOUR,
    Paint,
    cells,
    clip,
    clock,
    counted,
    one_line,
    pad,
    wrap,
)
from coterie.model.about import ToolPermission
from coterie.model.interaction import (
    APPROVE_BY_RULE,
    REJECT,
    WANTS,
    Interaction,
    Option,
    answer_as_given,
    answer_command,
)
from coterie.model.visible import printable, visible_line

_FEW = 6
"""Lines of content shown for a question in a list."""
_NARROW = 16
"""With less room than this beside the names of the choices, what they mean begins below them."""
_LOW = 12
"""A live card with fewer lines than this leaves out what is not needed to decide."""
_LONG = 200
"""Content with more characters than this is likely to be cut on a live card."""


@dataclass(frozen=True)
class QuestionContext:
    """A question and its context.

    `who` is the asker, `ada (claude)` or `coterie`, or empty when it is a human's own turn;
    `waiting` is how long it has been open; `place` is the task and, if it is another one, its
    project, which `project` names as an option, ` -C DIR`.
    """

    interaction: Interaction
    who: str
    waiting: str = ""
    place: str = ""
    project: str = ""


@dataclass(frozen=True)
class LiveCard:
    """What a card in a running chat needs in addition: it is answered in place."""

    height: int
    number: int = 1
    """Its position among the open questions."""
    total: int = 1
    alike: int = 0
    """How many other questions the same answer could apply to."""


def card(
    context: QuestionContext, width: int, paint: Paint = NO_COLOUR, live: LiveCard | None = None
) -> list[str]:
    """Lay out the whole question in a frame; a live card cuts content that would not fit."""
    question = context.interaction
    last = [*_options(question, width, paint, live), *_keys(question, live, width)]
    room = max(live.height - len(last) - 2, 1) if live else 100_000
    says = [f" {line}" for line in wrap(heading(question), width - 2)][: max(room - 1, 1)]
    if question.permission is None:
        says += _description(question, width)
        says = says[: max(room - bool(question.display.content.strip()), 1)]
    about = _about(question.permission, width, max(room - len(says) - 3, 0), paint)
    body = _content(context, width, max(room - len(says) - len(about), 1), paint)
    blanks = [part for part in (about, last) if part and body]
    spaced = live is None or room >= len(says) + len(body) + len(about) + len(blanks)
    gap = [""] if spaced else []
    return [
        paint(_head(context, width, live), "asks"),
        *[paint(line, "title") for line in says],
        *body,
        *(gap + about if about else []),
        *(gap if body or about else []),
        *last,
        paint(_ruled("No answer is never a yes.", "", width), "dim"),
    ]


def brief(context: QuestionContext, width: int, paint: Paint = NO_COLOUR) -> list[str]:
    """The question in a few lines, with the command that answers it."""
    question = context.interaction
    place = f" · {context.place}" if context.place else ""
    waiting = f" · waiting {context.waiting}" if context.waiting else ""
    what = f"{context.who} asks" if context.who else "your turn"
    lines = [paint(clip(f" ▲ {question.interaction_id}  {what}{place}{waiting}", width), "asks")]
    if context.who:
        lines += [f"     {line}" for line in wrap(heading(question), width - 5)]
    if question.permission is None:
        lines += [f"    {line}" for line in _description(question, width - 4)]
    if context.who or context.place:  # else it is the reader's own turn, about the text above
        body = _content(context, width - 4, _FEW, paint)
        lines += [f"    {line}".rstrip() for line in body]
        about = _about(question.permission, width - 4, 100, paint)
        lines += ["", *(f"    {line}" for line in about), ""] if about else []
    lines += [f"    {line}" for line in _options(question, width - 4, paint)]
    return [*lines, f"     {how_to_answer(context)}"]


def how_to_answer(context: QuestionContext) -> str:
    """Return the command to paste."""
    return answer_command(context.interaction, context.project)


def answered(question: Interaction, answer: str, text: str) -> str:
    """Return an answer as a person would put it: `deny: use pnpm`."""
    return one_line(": ".join(part for part in (answer_as_given(question, answer), text) if part))


def heading(question: Interaction) -> str:
    """Return what is asked, in one line; for a tool call, what it would do."""
    call = question.permission
    if call is None:
        return printable(question.display.title)
    does, to = WANTS[call.effect]
    if call.effect == "write" and len(call.paths) == 1:
        to = "a file"
    what = "" if call.effect == "run" else ", ".join(call.paths) or call.target
    what = what or ("" if call.effect == "run" else question.display.title)
    return f"wants to {does.upper()} {to.upper()}  {visible_line(what)}".rstrip()


def _about(call: ToolPermission | None, width: int, room: int, paint: Paint) -> list[str]:
    """Where, why, and what else a person should know; shortened if there is little room."""
    if call is None or room < 1:
        return []
    why = f'"{one_line(call.why)}"' if call.why.strip() else "gave none"
    rows = [("in", visible_line(call.cwd)), ("why", why)]
    if call.said.strip() and call.said.strip() != call.why.strip():
        rows.append(("said", f'"{one_line(call.said)}"'))
    notes = [one_line(call.note)] if call.note.strip() else []
    if call.may_have_run_at:
        notes.insert(0, f"it may already have run at {clock(call.may_have_run_at)}")
    if notes:
        rows.append(("note", "; ".join(notes)))
    folded = [(name, wrap(value, width - 8)) for name, value in rows]
    if sum(len(lines) for _, lines in folded) > room:
        folded = [(name, [clip(value, width - 8)]) for name, value in rows]
    lines: list[str] = []
    for name, (first, *rest) in folded:
        part = [f" {name:<5} {first}", *(f"{'':7}{line}" for line in rest)]
        lines += [paint(line, "asks") if name == "note" else line for line in part]
    # Keep the last row when dropping others: it is Coterie's own note.
    return lines if len(lines) <= room else [*lines[: room - 1], lines[-1]]


def _description(question: Interaction, width: int) -> list[str]:
    text = printable(question.display.description)
    return [f" {line}" for line in wrap(text, width - 2)] if text.strip() else []


def _content(context: QuestionContext, width: int, room: int, paint: Paint) -> list[str]:
    display = context.interaction.display
    if context.interaction.permission is None:  # nothing in it is run: blank lines may go
        display = display.model_copy(update={"content": display.content.strip("\n")})
    shown = excerpt(display, width, max(room, 1))
    lines = [*shown.first, *shown.last]
    if not lines:
        return []
    if len(lines) <= room and not shown.left_out:
        painted = [line.painted(paint) for line in lines]
        return ["", *painted] if len(lines) < room else painted
    # Mark every cut, and never cut the end: nobody should approve what they have not seen.
    kept = max(room - 2, 0)
    last = lines[len(lines) - kept // 2 :]
    left = shown.left_out or counted(len(lines) - kept, "more line")
    length = f"{len(display.content):,} characters in all"
    show = f"coterie show{context.project} {context.interaction.interaction_id}"
    return [
        *([""] if room > 1 else []),
        *(line.painted(paint) for line in lines[: kept - len(last)]),
        clip(f"     … {left}, {length}: {show}", width),
        *(line.painted(paint) for line in last),
    ]


def _options(
    question: Interaction, width: int, paint: Paint, live: LiveCard | None = None
) -> list[str]:
    if not question.options:
        return []
    rows = [_option(question, option, live=live is not None) for option in question.options]
    size = max(cells(name) for name, _ in rows)
    below = width - size < _NARROW
    indent = 3 if below else size + 6
    short = live is not None and live.height < _LOW
    lines: list[str] = []
    for number, (option, (name, means)) in enumerate(zip(question.options, rows, strict=True), 1):
        # Never clip a rule: nobody should agree to one that they can see only half of.
        folds = option.id == APPROVE_BY_RULE or not short
        first, *rest = wrap(means, width - indent) if folds else [clip(means, width - size - 6)]
        if folds and means and below:
            first, rest = "", [first, *rest]
        part = [f" {number} {pad(name, size)}   {first}".rstrip()]
        part += [" " * indent + line for line in rest]
        lines += [paint(line, "bad") for line in part] if option.style == "danger" else part
    return lines


def _option(question: Interaction, option: Option, *, live: bool) -> tuple[str, str]:
    """Return an option's name and what it means."""
    if question.permission is None:
        label = "" if option.label.casefold() == option.id.casefold() else option.label
        parts = [label, option.detail, "(default)" if option.default else ""]
        return option.id, one_line(" ".join(part for part in parts if part))
    means = one_line(option.detail)
    if option.id == REJECT and live:
        means = "and say why: type it after the number"
    elif option.id == APPROVE_BY_RULE:
        edit = "[e] edit it first" if live else "--say to edit it"
        means = f"{means}   {edit}"
    return one_line(option.label), means


def _keys(question: Interaction, live: LiveCard | None, width: int) -> list[str]:
    """The keys of a live card; with hardly any room, the hint below the card has to do."""
    if live is None or question.kind == "Input" or live.height < _LOW:
        return []
    keys = ["s the turn", "l later, stays in the inbox"]
    if question.display.content_kind == "Diff":
        keys.insert(1, "d diff")
    elif len(question.display.content) > _LONG:
        keys.insert(1, "d show all")
    if live.alike:
        keys.append(f"* and {live.alike} alike")
    return [clip(" " + " · ".join(keys), width)]


def _head(context: QuestionContext, width: int, live: LiveCard | None) -> str:
    parts = [context.interaction.interaction_id, context.who or "your turn", context.place]
    if live is not None:
        parts.append(f"{live.number} of {live.total}")
    waiting = f"waiting {context.waiting}" if context.waiting else ""
    return _ruled(one_line(" · ".join(part for part in parts if part)), waiting, width)


def _ruled(left: str, right: str, width: int) -> str:
    """A horizontal line with text near its two ends."""
    end = f" {right} ─" if right else "─"
    start = f"─ {clip(left, width - cells(end) - 4)} "
    return start + "─" * (width - cells(start) - cells(end)) + end
