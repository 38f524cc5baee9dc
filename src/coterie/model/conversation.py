"""What is said in a task: messages, their markers, who speaks next, and the prompt made of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coterie.model.task import TaskCreated
from coterie.model.team import Member, Team

YOU = "you"
"""The person at the terminal, in a team that names no human member."""


class Message(NamedTuple):
    """One thing said; `seq` counts from 1 in each task, without gaps."""

    task_id: str
    seq: int
    member: str
    text: str
    at: str
    turn: int = 0
    """Which turn of the task it was; 0 for a word that was nobody's turn."""
    next: str | None = None
    """The member it names as the next speaker."""
    done: bool = False
    """Whether it carried `[DONE]`."""
    cut: bool = False
    """Whether the user broke it off before its end."""


_LAST = re.compile(r"\s*\[\s*(?:NEXT\s*:\s*(?P<names>[^\[\]\n]*)|(?P<done>DONE))\s*\]\s*\Z", re.I)
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_TAIL = 2_000
"""Markers are looked for in this many last characters, so that a huge reply costs nothing."""


def summary_of(text: str) -> str:
    """The first line of a message, which stands for it where there is room for one."""
    return text.strip().partition("\n")[0][:200]


class Marked(NamedTuple):
    """A message without its markers, and what they said."""

    text: str
    names: tuple[str, ...] = ()
    """The names in `[NEXT: …]`, in the order they were written."""
    done: bool = False


def parse_markers(message: str) -> Marked:
    """Take the markers off the end of a message; those elsewhere or in a code fence are text."""
    text, done = message.rstrip(), False
    found: list[list[str]] = []
    while text.endswith("]") and (match := _LAST.search(text, max(0, len(text) - _TAIL))):
        if match["done"]:
            done = True
        else:
            found.insert(0, [name.strip() for name in match["names"].split(",")])
        text = text[: match.start()].rstrip()
    if not found and not done:
        return Marked(message.strip("\n").rstrip())
    if _ends_in_fence(text):
        return Marked(message.strip("\n").rstrip())
    names = [name for group in found for name in group if name]
    return Marked(text.strip("\n"), tuple(names), done)


def _ends_in_fence(text: str) -> bool:
    """Whether what follows the text would stand inside a code fence that is still open."""
    opened = ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match is None:
            continue
        mark, info = match["mark"], match["info"]
        if not opened:
            opened = "" if mark[0] == "`" and "`" in info else mark
        elif mark[0] == opened[0] and len(mark) >= len(opened) and not info.strip():
            opened = ""
    return bool(opened)


END = "/end"
"""What a person types to end a conversation."""


def is_end(text: str) -> bool:
    """Whether a person ends the conversation with this; with a space before it, it is said."""
    return text.rstrip().lower() == END


_MENTION = re.compile(r"(?<![@/.])@(?P<name>[^\W_][\w.-]*)")


def parse_human_markers(message: str, known: Iterable[str] = ()) -> Marked:
    """The same for what a person wrote: `@name` picks the speaker, `/end` is `[DONE]`.

    Of names that are `known` the longest counts: it may hold spaces, and where people write
    without any, what follows is no part of it.
    """
    if is_end(message):
        return Marked("", (), True)
    marked = parse_markers(message)
    if "@" not in marked.text:
        return marked
    return marked._replace(names=(*marked.names, *_mentions(marked.text, known)))


def _mentions(text: str, known: Iterable[str]) -> list[str]:
    """The names that stand after an `@`, in order."""
    names = sorted(known, key=len, reverse=True)
    return [
        _name_at(text, match, names)
        for match in _MENTION.finditer(text)
        if not _in_word(text[: match.start()][-1:])
    ]


_CODE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|(`+)[^`\n].*?\2", re.M | re.S)


def mentioned(team: Team, message: Message) -> list[Member]:
    """The members whom a message speaks to, in order, its author left out.

    What an agent shows as code mentions nobody: `@pytest.fixture` is no member.
    """
    member = team.get(message.member)
    is_ai = member is not None and member.type == "ai"
    text = _CODE.sub(" ", message.text) if is_ai else message.text
    names = [*([message.next] if message.next else []), *_mentions(text, _names_in(team))]
    found = map(team.find, names)
    order = {one.id: one for one in found if one is not None and one.id != message.member}
    return list(order.values())


def _name_at(text: str, match: re.Match[str], known: Sequence[str]) -> str:
    """The known name that stands at a mention, else all that could be one."""
    written = _folded(text[match.start("name") :][:_TAIL])
    for name in known:
        if written.startswith(folded := _folded(name)):
            after = written[len(folded) :].lstrip(".-")
            if not _in_word(after[:1]):
                return name
    return match["name"].rstrip(".-")


def _in_word(character: str) -> bool:
    """Whether a character beside a name belongs to its word: not in scripts without spaces."""
    is_letter = character.isalnum() or character == "_"
    return is_letter and unicodedata.category(character) != "Lo"


def _folded(name: str) -> str:
    """One form for all ways of writing a name."""
    return unicodedata.normalize("NFC", name).casefold()


RUNAWAY = 20
"""Turns without a human word after which a chat that nobody capped hands the floor back."""


def pick(team: Team, names: Iterable[str]) -> tuple[Member | None, tuple[str, ...]]:
    """The first name that means a member, and the names before it that mean nobody."""
    unknown: list[str] = []
    for name in names:
        member = team.find(name)
        if member is not None:
            return member, tuple(unknown)
        unknown.append(name)
    return None, tuple(unknown)


def marked_by(team: Team, author: str, text: str) -> Marked:
    """What a member or the person at the terminal said, with its markers taken off and read."""
    member = team.get(author)
    human = member is None or member.type == "human"
    if not human:
        return parse_markers(text)
    return parse_human_markers(text, _names_in(team))


def _names_in(team: Team) -> list[str]:
    return [name for one in team.members for name in one.names if name]


def opening_message(task: TaskCreated) -> Message | None:
    """What a task starts with, where its goal says something."""
    if not task.goal:
        return None
    marked = marked_by(task.team, task.author, task.goal)
    chosen, _ = pick(task.team, marked.names)
    following = chosen.id if chosen else None
    return Message(
        task.task_id, 1, task.author, marked.text, task.at, next=following, done=marked.done
    )


def following(members: Sequence[Member], speaker: str) -> Member:
    """Whoever follows the speaker among the members in their order.

    A speaker who is not of the team (the person at the terminal) is followed by its first AI.
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
        """The count after somebody spoke; None is the person at the terminal."""
        if member is None or member.type == "human":
            return Rounds(self.ai)
        spoken = (self.spoken | {member.id}) & self.ai
        if spoken == self.ai:
            return Rounds(self.ai, self.over + 1, turns=self.turns + 1)
        return Rounds(self.ai, self.over, spoken, self.turns + 1)


@dataclass(frozen=True)
class Limits:
    """The clocks that stand above a turn, in seconds.  They stop while a person is asked."""

    total: float
    """After this the turn has failed (stuck)."""
    quiet_after: float
    """After this long without an update the member is shown as quiet."""


class Prompt(NamedTuple):
    """What is sent for one turn; the role text is the adapter's own business."""

    text: str
    tries: int = 1
    """Which try at the turn this is."""
    turn: str = ""
    """The turn's name in the journal: the same for every try at it."""
    schema: Mapping[str, object] | None = None
    """The JSON Schema that the reply must fit, for an agent that can be held to one."""
    newest: str = ""
    """The last message alone, without context: all that a person has to read."""


@dataclass(frozen=True)
class Brief:
    """A turn on a prompt of its own, apart from the conversation."""

    text: str
    intent: object
    """What the turn is for, as JSON data: the journal knows it by this, never by its text."""
    schema: Mapping[str, object] | None = None
    tries: int | None = None
    """How often it is tried where its agent fails; None: as often as any turn."""
    topic: str = ""
    """What it is about: each topic has a thread of its own; empty: the conversation's."""


def compose(
    messages: Sequence[Message], name_of: Callable[[str], str], *, count: int, characters: int
) -> str:
    """`[CONTEXT]` with one `name: text` line per message, an empty line, `[MESSAGE]`, the newest.

    At most `count` messages stand in the context, and no more of them than fit `characters`.
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
