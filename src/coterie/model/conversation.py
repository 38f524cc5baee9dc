"""The conversation of a task: messages, their markers, who speaks next, and prompt composition."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coterie.model.task import TaskCreated
from coterie.model.team import Member, Team
from coterie.model.visible import folded


class Message(NamedTuple):
    """One message; `seq` counts from 1 in each task, without gaps."""

    task_id: str
    seq: int
    member: str
    text: str
    at: str
    turn: int = 0
    """The number of its turn in the task; 0 for a message outside any turn."""
    next: str | None = None
    """The member that it names as the next speaker."""
    done: bool = False
    """Whether it carried `[DONE]`."""
    cut: bool = False
    """Whether the user interrupted it."""


_MARKER = re.compile(r"\[\s*(?:NEXT\s*:(?P<names>[^\[\]]*)|DONE\s*)\]", re.I)
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_LONGEST_NAME = 2_000
"""How many characters after an `@` are compared with names."""


def summary_of(text: str) -> str:
    """The first line of a message, shown where there is room for only one line."""
    return text.strip().partition("\n")[0][:200]


class ParsedMessage(NamedTuple):
    """A message without its markers, and the markers' values."""

    text: str
    names: tuple[str, ...] = ()
    """The names in `[NEXT: …]`, in the order they were written."""
    done: bool = False


def parse_markers(message: str) -> ParsedMessage:
    """Strip the markers from the end of a message; elsewhere or in a code fence they are text."""
    length = end = len(message.rstrip())
    raw_names: list[str] = []  # last first
    done = False
    while message.endswith("]", 0, end) and (
        match := _MARKER.fullmatch(message, max(0, message.rfind("[", 0, end)), end)
    ):
        named = (match["names"] or "").strip()
        if "\n" in named:
            break
        raw_names += reversed(named.split(","))
        done = done or match["names"] is None
        end = match.start()
        while end and message[end - 1].isspace():
            end -= 1
    if end == length or _outside_fences(message[:end])[1]:
        return ParsedMessage(message.strip("\n").rstrip())
    names = [name.strip() for name in reversed(raw_names)]
    return ParsedMessage(message[:end].strip("\n"), tuple(filter(None, names)), done)


def _outside_fences(text: str) -> tuple[str, bool]:
    """The text without its code fences, and whether it ends inside one."""
    opened = ""
    outside: list[str] = []
    for line in text.splitlines():
        match = _FENCE.match(line)
        mark, info = (match["mark"], match["info"]) if match else ("", "")
        if opened:
            if mark.startswith(opened) and not info.strip():
                opened = ""
        elif not mark or (mark[0] == "`" and "`" in info):
            outside.append(line)
        else:
            opened = mark
            outside.append("")  # what is before it and what follows are apart
    return "\n".join(outside), bool(opened)


END = "/end"
"""What a person types to end the conversation."""


def is_end(text: str) -> bool:
    """Whether this input ends the conversation; with a leading space it is ordinary text."""
    return text.rstrip().lower() == END


_MENTION = re.compile(r"(?<![@/.])@(?P<name>[^\W_][\w.-]*)")


def parse_human_markers(message: str, known: Iterable[str] = ()) -> ParsedMessage:
    """Like `parse_markers`, for human input: `@name` picks the speaker, `/end` is `[DONE]`.

    The longest of the `known` names wins: it may contain spaces, and in scripts written without
    spaces it ends before the text that directly follows it.
    """
    if is_end(message):
        return ParsedMessage("", (), True)
    marked = parse_markers(message)
    if "@" not in marked.text:
        return marked
    return marked._replace(names=(*marked.names, *_mentions(marked.text, known)))


def _mentions(text: str, known: Iterable[str]) -> list[str]:
    """The names after an `@`, in order."""
    names = sorted(known, key=len, reverse=True)
    return [
        _name_at(text, match, names)
        for match in _MENTION.finditer(text)
        if not _in_word(text[max(0, match.start() - 1) : match.start()])
    ]


_CODE = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).){1,2000}?(?<!`)\1(?!`)", re.S)
"""Code within a paragraph; the limit keeps a reply full of backticks from costing much."""


def mentioned(team: Team, message: Message) -> list[Member]:
    """The members that a message mentions, in order, without its author.

    Code in an agent's message is ignored: `@pytest.fixture` does not mention a member.
    """
    member = team.get(message.member)
    is_ai = member is not None and member.type == "ai"
    text = _CODE.sub(" ", _outside_fences(message.text)[0]) if is_ai else message.text
    names = [*([message.next] if message.next else []), *_mentions(text, _names_in(team))]
    members = map(team.find, names)
    order = {one.id: one for one in members if one is not None and one.id != message.member}
    return list(order.values())


def _name_at(text: str, match: re.Match[str], known: Sequence[str]) -> str:
    """The known name at a mention, else the longest text that could be a name."""
    start = match.start("name")
    written = folded(text[start : start + _LONGEST_NAME])
    for name in known:
        if written.startswith(folded(name)):
            after = written[len(folded(name)) :].lstrip(".-")
            if not _in_word(after[:1]):
                return name
    return match["name"].rstrip(".-")


def _in_word(character: str) -> bool:
    """Whether a character next to a name is part of its word: never in scripts without spaces."""
    is_letter = character.isalnum() or character == "_"
    return is_letter and unicodedata.category(character) != "Lo"


MAX_UNCAPPED_TURNS = 20
"""After this many turns without a human message, a chat without a cap returns the floor."""


def pick(team: Team, names: Iterable[str]) -> tuple[Member | None, tuple[str, ...]]:
    """The first name that matches a member, and the unknown names before it."""
    unknown: list[str] = []
    for name in names:
        member = team.find(name)
        if member is not None:
            return member, tuple(unknown)
        unknown.append(name)
    return None, tuple(unknown)


def parse_message(team: Team, author: str, text: str) -> ParsedMessage:
    """Parse the markers of a text by a member or by the person at the terminal."""
    if team.is_person(author):
        return parse_human_markers(text, _names_in(team))
    return parse_markers(text)


def _names_in(team: Team) -> list[str]:
    return [name for one in team.members for name in one.names if name]


def opening_message(task: TaskCreated) -> Message | None:
    """The first message of a task, or None if its goal is empty."""
    if not task.goal:
        return None
    marked = parse_message(task.team, task.author, task.goal)
    chosen, _ = pick(task.team, marked.names)
    following = chosen.id if chosen else None
    return Message(
        task.task_id, 1, task.author, marked.text, task.at, next=following, done=marked.done
    )


def next_in_order(members: Sequence[Member], speaker: str) -> Member:
    """The member after the speaker, in the members' order.

    A speaker outside the team (the person at the terminal) is followed by its first AI member.
    """
    for place, member in enumerate(members):
        if member.id == speaker:
            return members[(place + 1) % len(members)]
    return next((member for member in members if member.type == "ai"), members[0])


class Rounds(NamedTuple):
    """A round is over when every AI member has spoken since a human last did."""

    ai: frozenset[str]
    over: int = 0
    spoken: frozenset[str] = frozenset()
    turns: int = 0
    """AI turns since a human last spoke."""

    def after(self, member: Member | None) -> Rounds:
        """The rounds after a member spoke; None is the person at the terminal."""
        if member is None or member.type == "human":
            return Rounds(self.ai)
        spoken = (self.spoken | {member.id}) & self.ai
        if spoken == self.ai:
            return Rounds(self.ai, self.over + 1, turns=self.turns + 1)
        return Rounds(self.ai, self.over, spoken, self.turns + 1)


@dataclass(frozen=True)
class Limits:
    """The time limits of a turn, in seconds.  Their clocks stop while a question is open."""

    total: float
    """After this long the turn fails (stuck)."""
    quiet_after: float
    """After this long without an update the member is shown as quiet."""


class Prompt(NamedTuple):
    """The prompt sent for one turn; adding the role text is up to the adapter."""

    text: str
    tries: int = 1
    """The number of this attempt at the turn."""
    turn: str = ""
    """The turn's name in the journal: the same for every attempt."""
    schema: Mapping[str, object] | None = None
    """The JSON Schema that the reply must match, for agents that can enforce one."""
    newest: str = ""
    """The last message alone, without context: all that a human member needs to read."""


@dataclass(frozen=True)
class Brief:
    """A turn with its own prompt, separate from the conversation."""

    text: str
    intent: object
    """What the turn is for, as JSON data: identifies it in the journal, instead of its text."""
    schema: Mapping[str, object] | None = None
    tries: int | None = None
    """How many attempts it gets if its agent fails; None for the usual number."""
    topic: str = ""
    """Each topic has its own thread; empty for the conversation's thread."""


def compose(
    messages: Sequence[Message], name_of: Callable[[str], str], *, count: int, characters: int
) -> str:
    """Compose `[CONTEXT]`, one `name: text` line per message, an empty line, `[MESSAGE]` and the
    newest message.

    The context has at most `count` messages, and only as many as fit into `characters`.
    """
    if not messages:
        return ""
    *past, newest = messages
    lines: list[str] = []
    room = characters
    for message in reversed(past[-count:] if count > 0 else ()):
        line = f"{name_of(message.member)}: {message.text}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    head = ["[CONTEXT]", *reversed(lines), ""] if lines else []
    return "\n".join([*head, "[MESSAGE]", newest.text])
