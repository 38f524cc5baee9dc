"""The text of the live lines: who does what, what waits, how far it is. No terminal code here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coterie.app.views import granted_tokens
from coterie.cli.doing import in_words
from coterie.cli.text import (
    FULL,
    NO_COLOUR,
    Paint,
    about,
    cells,
    clip,
    clocked,
    ends,
    one_line,
)
from coterie.model import instant
from coterie.model.interaction import Interaction
from coterie.model.record import (
    DeltaRecord,
    InteractionRecord,
    MemberRecord,
    MemberState,
    MessageRecord,
    QuestionView,
    Record,
    ToolCallRecord,
)
from coterie.model.team import YOU, Team
from coterie.model.update import token_count

COMMANDS: Mapping[str, str] = {
    "/help": "this",
    "/who": "the members, and what each does",
    "/tasks": "every task of this project",
    "/stop": "park the task (like ^C)",
    "/end": "end the conversation",
}
"""What may be typed after a slash in a chat, and what it does."""
KEYS: Mapping[str, str] = {
    "Enter": "send it to the team; while somebody works, it is read after that turn",
    "@name": "picks who speaks next",
    "Tab": "opens the oldest question, then the next; completes names and commands",
    "Esc": "interrupts the current turn",
    "^C": "parks the task: coterie resume continues it",
}

WORK_COMMANDS: Mapping[str, str] = {name: what for name, what in COMMANDS.items() if name != "/end"}
"""The same where a goal is worked on, and there is no conversation to end."""


def work_keys(enter: str) -> Mapping[str, str]:
    """Return what the keys do there; `enter` says what happens to what is typed."""
    return {
        "Enter": enter,
        "Tab": "opens the oldest question, then the next; completes commands",
        "Esc": "interrupts the current turns",
        "^C": KEYS["^C"],
    }


_MARKS: dict[MemberState, str] = {
    "starting": "●",
    "working": "●",
    "waiting": "◌",
    "quiet": "◌",
    "stuck": "■",
    "gone": "■",
    "idle": "○",
}

_BUSY = ("starting", "working", "quiet", "waiting")
_TAIL = 400
_PICKS = "@name picks speaker"
STOPS, LEAVES, HELP = "^C stop, keep", "^C leave, it keeps running", "/help"


@dataclass
class _Doing:
    record: MemberRecord = MemberRecord("", "", "idle")
    since: float = 0.0

    @property
    def state(self) -> MemberState:
        return self.record.state


class ChatStatus:
    """Follows the records of one task."""

    stops: str = STOPS
    """What ^C does; a task that runs elsewhere continues when its viewer leaves."""
    queued: str = "read after this turn"
    """What happens to a message while somebody works."""
    commands: Mapping[str, str] = COMMANDS
    """What may be typed after a slash, and what it does."""
    shortcuts: Mapping[str, str] = KEYS
    dropped_first: Sequence[str] = (_PICKS,)
    """What is dropped first from a hint that is too long."""

    watches: bool = False
    """Whether the task runs elsewhere."""

    def __init__(self, team: Team, max_turns: int | None) -> None:
        self._team = team
        self._max_turns = max_turns
        self._doing = {member.id: _Doing() for member in team.in_order}
        if all(member.type == "ai" for member in team.members):
            self._doing[YOU] = _Doing()
        self._open: dict[str, tuple[InteractionRecord, float]] = {}
        self._began = time.monotonic()
        self._tokens = 0
        self._limit = team.budget.tokens or 0
        """How many tokens the task may use, including what the user granted since."""
        self._tail = ""
        """The end of what is being said right now."""
        self.task = ""
        self.turn = 0

    def began(self, task_id: str) -> None:
        """Start the clock of the task."""
        self.task: str = task_id
        self._began = time.monotonic()

    def caught_up(self, tokens: int, questions: Sequence[QuestionView]) -> None:
        """Take over what earlier runs of the task used and were granted."""
        self._tokens: int = tokens
        for view in questions:
            self._grant(view.interaction, view.answer)

    def watch(self) -> None:
        """Watch a task that runs elsewhere: leaving does not stop it, `/stop` does."""
        self.watches, self.stops = True, LEAVES
        self.shortcuts = {**self.shortcuts, "^C": "leaves this screen; the task keeps running"}
        self.commands = {**self.commands, "/stop": "park the task"}

    def saw(self, record: Record) -> None:
        match record:
            case MemberRecord() if not self.is_person(record.member):
                self._note(record)
            case ToolCallRecord():
                busy = record.name if record.status == "started" else ""
                self._note(MemberRecord(record.task, record.member, "working", busy))
            case DeltaRecord():
                self._tail = (self._tail + record.text)[-_TAIL:]
            case MessageRecord():
                self._tail = ""
                self.turn: int = max(self.turn, record.turn)
                if record.usage is not None:
                    self._tokens += record.usage.input_tokens or 0
                    self._tokens += record.usage.output_tokens or 0
            case InteractionRecord():
                self._question(record)
            case _:
                pass

    def _note(self, record: MemberRecord) -> None:
        before = self._doing.get(record.member)
        same = before is not None and before.state == record.state
        since = before.since if before and same else time.monotonic()
        if record.since:  # the screen came later, or missed an end in between
            since = time.monotonic() - instant.seconds_between(record.since, instant.now())
        self._doing[record.member] = _Doing(record, since)

    def _question(self, record: InteractionRecord) -> None:
        name = record.interaction.interaction_id
        if record.state == "open":
            self._open[name] = (record, time.monotonic())
        else:
            self._open.pop(name, None)
            self._grant(record.interaction, record.answer)

    def _grant(self, question: Interaction, answer: str) -> None:
        if self._limit and answer:
            self._limit: int = self._limit + granted_tokens(question, answer)

    def is_person(self, name: str) -> bool:
        """Whether it is a person who is asked or at work under this name, no agent or Coterie."""
        return any(name == one.id for one in self._team.people)

    @property
    def questions(self) -> list[tuple[InteractionRecord, float]]:
        """Open questions of agents and of Coterie, oldest first, with when they came."""
        return [one for one in self._open.values() if not self.is_person(one[0].member)]

    @property
    def your_turn(self) -> bool:
        """Whether the conversation waits for the next word of a human."""
        return any(self.is_person(record.member) for record, _ in self._open.values())

    @property
    def busy(self) -> bool:
        """Whether a turn could be interrupted: one that runs, or waits for anything but you."""
        return any(
            doing.state in _BUSY and doing.record.waits_for != "you" and not self.is_person(name)
            for name, doing in self._doing.items()
        )

    def place(self, question: Interaction) -> str:
        """What a question is about: its task."""
        return question.task_id

    def status(self, width: int, paint: Paint = NO_COLOUR) -> str:
        """Who does what on the left, progress on the right; the less important is dropped first."""
        line = self._status(width)
        for member in self._team.members:
            name = self._named(member.id)
            if name != member.id:
                line = line.replace(f" {name} ", f" {member.id} {paint(FULL, 'bad')} ", 1)
        return line

    def _status(self, width: int) -> str:
        left = "   ".join(self._members(idle=True))
        if cells(left) > width - 2:
            left = "   ".join(self._members(idle=False))
        facts = self._facts()
        while facts and cells(left) + cells(" · ".join(facts)) + 4 > width:
            facts.pop(-2 if len(facts) > 1 else 0)
        left = f" {left}{self._saying(width - cells(left) - cells(' · '.join(facts)) - 6)}"
        return ends(left, " · ".join(facts), width) if facts else clip(left, width)

    def _saying(self, room: int) -> str:
        """The end of what is being said, if there is room for it."""
        text = one_line(self._tail)
        if room < 16 or not text:
            return ""
        return f"   …{text[-(room - 4) :]}" if text.isascii() else ""

    def who(self) -> list[str]:
        """Describe every member, for `/who`."""
        lines: list[str] = []
        for member in self._team.in_order:
            full = member.permissions.mode == FULL  # already shown beside its name
            agent = (member.agent if full else about(member)) if member.agent else "human"
            what = f"{agent}   {one_line(member.role)}"
            lines.append(f"   {self._shown(member.id)}   {what}".rstrip())
        return lines

    def keys(self) -> list[str]:
        """Describe the keys and commands, for `/help`."""
        known = {**self.shortcuts, **self.commands}
        width = max(8, *map(len, known))
        return [f"   {name:<{width}} {what}" for name, what in known.items()]

    def hint(self, width: int) -> str:
        """Return the keys that do something now."""
        parts = (
            [f"Tab open {self.questions[0][0].interaction.interaction_id}"]
            if self.questions
            else []
        )
        parts += self._hints()
        while len(parts) > 1 and cells(" · ".join(parts)) + 1 > width:
            parts.remove(next((part for part in self.dropped_first if part in parts), parts[1]))
        return clip(" " + " · ".join(parts), width)

    def _hints(self) -> list[str]:
        turn = ["your turn: type, Enter"] if self.your_turn else []
        return [*turn, _PICKS, *(["Esc interrupt"] if self.busy else []), self.stops, HELP]

    def _members(self, *, idle: bool) -> list[str]:
        busy = {record.member for record, _ in self._open.values()}
        return [
            self._shown(name)
            for name, doing in self._doing.items()
            if idle or doing.state != "idle" or name in busy
        ]

    def _shown(self, name: str) -> str:
        shown = self._named(name)
        for question, _ in self._open.values():
            if question.member == name:
                asks = f"asks {question.interaction.interaction_id}"
                return f"▲ {shown} {'speak next' if self.is_person(name) else asks}"
        doing = self._doing.get(name, _Doing())
        mark = _MARKS[doing.state]
        if doing.state == "idle":
            return f"{mark} {shown}"
        took = clocked(time.monotonic() - doing.since)
        return f"{mark} {shown} {in_words(doing.record, took)}"

    def _named(self, name: str) -> str:
        """A member's name, marked wherever it is shown if the member never asks."""
        member = self._team.get(name)
        return f"{name} {FULL}" if member and member.permissions.mode == FULL else name

    def _facts(self) -> list[str]:
        if not self.task:
            return []
        facts = [self.task]
        if self.turn:
            cap = f"/{self._max_turns}" if self._max_turns else ""
            facts.append(f"turn {self.turn}{cap}")
        used = self._used(token_count)
        return [*facts, *([used] if used else []), clocked(time.monotonic() - self._began)]

    def _used(self, figure: Callable[[int], str]) -> str:
        if self._limit:
            return f"{figure(self._tokens)} of {figure(self._limit)} tokens"
        return f"{figure(self._tokens)} tokens" if self._tokens else ""
