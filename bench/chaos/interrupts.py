"""Interrupting the turns of chats at random instants, writing messages, and killing in between.

Run as a program, it is the parent of the processes that are killed:
python -m bench.chaos.interrupts TURNS
"""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from bench.chaos.chats import create_project, is_locked
from bench.chaos.forked import ROOT, NullObserver, Parent, kill, serve
from bench.chaos.stores import Stores
from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.errors import AnswerRefused, UsageError
from coterie.model.conversation import Message
from coterie.model.journal import Turn
from coterie.model.task import Caps
from coterie.model.team import YOU, Member, Team

_KILL_WITHIN, _INTERRUPT_WITHIN, _WORDS_WITHIN = 1.2, 0.5, 0.08
"""Seconds; messages after an interrupt come before, while and after the agent breaks off."""
_TEAM = Team(
    name="pair",
    workflow="chat",
    members=tuple(
        Member(id=name, name=name, display_name=name, agent="locked", order=place)
        for place, name in enumerate(("ann", "bob"))
    ),
)


@dataclass
class Interrupted:
    """The results of a series of interrupted and killed chats."""

    kills: int = 0
    chats: int = 0
    interrupts: int = 0
    cut: int = 0
    """Messages that an interrupt cut off."""
    words: int = 0
    executions: int = 0
    repeated: int = 0
    """Executions beyond one per turn; at most one per kill."""
    overlaps: int = 0
    survivors: int = 0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, duplicated or left running."""
        few = self.repeated <= self.kills
        return few and not (self.wrong or self.overlaps or self.survivors)


@dataclass
class InterruptChaos:
    """Chats of one length that are interrupted, written to and killed until each is done."""

    folder: Path
    turns: int = 30
    milliseconds: float = 40
    keeper: str = "auto"
    seed: int = 1
    kills_each: int = 10
    """After this many kills a chat is only interrupted."""
    stores: Stores = field(default_factory=Stores)
    outcome: Interrupted = field(default_factory=Interrupted)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def run(
        self, kills: int, progress: Callable[[Interrupted], None] = lambda _: None
    ) -> Interrupted:
        """Run chats until this many kills have happened, the last chat to its end."""
        words = [sys.executable, "-m", __spec__.name, str(self.turns)]
        async with await anyio.open_process(words, cwd=ROOT, stderr=None) as process:
            parent = Parent(process)
            while self.outcome.kills < kills:
                project = self.folder / f"interrupted{self.outcome.chats}"
                await anyio.to_thread.run_sync(create_project, project, self.milliseconds)
                await anyio.to_thread.run_sync(self.stores.settle, project, self.keeper)
                most = min(kills, self.outcome.kills + self.kills_each)
                chat = _Chat(project, self._random, self.outcome)
                with anyio.move_on_after(120) as scope:
                    await chat.run_to_completion(parent, most)
                if scope.cancelled_caught:
                    self.outcome.wrong.append(f"{project.name}: it did not end")
                    break
                await chat.count()
                progress(self.outcome)
            process.terminate()
        return self.outcome


class _Chat:
    """One chat: its owners come and go, the person who interrupts and writes stays."""

    def __init__(self, project: Path, chance: random.Random, outcome: Interrupted) -> None:
        self._project = project
        self._random = chance
        self._outcome = outcome
        self._words: list[str] = []
        self._said = 0
        self._kills = 0

    async def run_to_completion(self, parent: Parent, kills: int) -> None:
        """Start or resume, then kill or let it end."""
        code = None
        async with self._opened() as app, anyio.create_task_group() as person:
            person.start_soon(self._interrupt, app)
            person.start_soon(self._take_the_floor, app)
            while code is None or code == -signal.SIGKILL:
                process = await parent.fork(self._project)
                async with anyio.create_task_group() as killing:
                    if self._outcome.kills < kills:
                        killing.start_soon(self._kill, process)
                    try:
                        code = await parent.ended()
                    except anyio.get_cancelled_exc_class():  # we gave up: it would outlive us
                        kill(process)
                        raise
                    killing.cancel_scope.cancel()
                self._outcome.kills += code == -signal.SIGKILL
                self._kills += code == -signal.SIGKILL
            person.cancel_scope.cancel()
        if code != 0:
            self._outcome.wrong.append(f"{self._project.name}: exit {code}")

    def _opened(self) -> AbstractAsyncContextManager[App]:
        return App.open(self._project / "work", self._project / "user")

    async def _kill(self, process: int) -> None:
        await anyio.sleep(self._random.uniform(0.02, _KILL_WITHIN))
        kill(process)

    async def _interrupt(self, app: App) -> None:
        """Press Esc, and then write a message."""
        while True:
            await anyio.sleep(self._random.uniform(0.1, _INTERRUPT_WITHIN))
            for task in await app.tasks():
                await app.interrupt(task.id)
                self._outcome.interrupts += 1
                await anyio.sleep(self._random.uniform(0.0, _WORDS_WITHIN))
                await self._say(app, task.id)

    async def _take_the_floor(self, app: App) -> None:
        """Answer whenever the chat asks for the next message, as it does after an interrupt."""
        seen = 0
        while True:
            for question in await app.questions():
                if question.interaction.kind == "Input":
                    await anyio.sleep(self._random.uniform(0.0, _WORDS_WITHIN))
                    await self._say(app, question.interaction.task_id)
                else:
                    title = question.interaction.display.title
                    self._outcome.wrong.append(f"{self._project.name}: asked {title!r}")
            seen = await app.storage.changed(seen)

    async def _say(self, app: App, task: str) -> None:
        """Write a recognizable message; one that is refused does not count as written."""
        self._said += 1
        text = f"word {self._said * 1000}"
        with anyio.CancelScope(shield=True):  # if canceled, nobody would know whether it arrived
            try:
                await app.say(task, text)
            except (AnswerRefused, UsageError):  # answered in the meantime, or ended
                return
            self._words.append(text)

    async def count(self) -> None:
        """Compare what is on record with what was done."""
        async with self._opened() as app:
            [task] = await app.tasks()
            messages = await app.storage.conversation.messages(task.id)
            turns = await app.storage.journal.turns(task.id)
            unread = [request.text for request in await app.storage.inbox.requests(task.id)]
            damage = await app.storage.problems()
        marks: list[str] = []
        with suppress(FileNotFoundError):  # every turn was interrupted before its agent had begun
            marks = (self._project / "executions").read_text().split()[::2]
        outcome, executions = self._outcome, marks.count("begin")
        outcome.chats += 1
        outcome.words += len(self._words)
        outcome.cut += sum(message.cut for message in messages)
        outcome.executions += executions
        spoken = sum(message.turn > 0 and message.member != YOU for message in messages)
        outcome.repeated += max(executions - spoken, 0)
        outcome.overlaps += marks.count("overlap")
        outcome.survivors += is_locked(self._project / "lock")
        wrong = [*damage, *_lost_words(self._words, messages, unread), *_wrong(messages, turns)]
        if task.status != "completed":
            wrong.append(f"it is {task.status}")
        if executions > spoken + self._kills:
            wrong.append(f"{executions} executions of {spoken} turns, {self._kills} kills")
        outcome.wrong += [f"{self._project.name}: {fault}" for fault in wrong]


def _lost_words(
    words: Sequence[str], messages: Sequence[Message], unread: Sequence[str]
) -> Iterator[str]:
    """Yield messages not on record exactly once; the last may wait for a chat that has ended."""
    times = Counter([message.text for message in messages if message.member == YOU] + [*unread])
    for text in words:
        if times[text] != 1:
            yield f"{text!r} is there {times[text]} times"


def _wrong(messages: Sequence[Message], turns: Sequence[Turn]) -> Iterator[str]:
    """Yield violations: each finished turn has one message, marked with how the turn ended."""
    if [message.seq for message in messages] != list(range(1, len(messages) + 1)):
        yield f"the messages are numbered {[message.seq for message in messages]}"
    by_turn = Counter(message.turn for message in messages if message.turn)
    if by_turn != Counter(range(1, len(by_turn) + 1)):
        yield f"messages by turn: {by_turn}"
    interrupted = sum(turn.outcome == "interrupted" for turn in turns)
    cut = sum(message.cut for message in messages)
    if interrupted != cut:
        yield f"{interrupted} turns were interrupted, {cut} messages are cut"
    yield from (
        f"message {message.seq} is {message.text!r}, and not cut"
        for message in messages
        if not (message.cut or message.text)
    )


async def _own(project: Path, turns: int) -> int:
    async with App.open(project / "work", project / "user") as app:
        tasks = await app.tasks()
        task = tasks[0].id if tasks else None
        if task is None:
            caps = Caps(max_turns=turns, max_rounds=None, floor="ask")
            task = await app.create(StartRequest(_TEAM, "turn 0", caps))
        result = await app.run(task, NullObserver(), wait=None)
    return 0 if result.status == "completed" else 1


if __name__ == "__main__":
    serve(partial(_own, turns=int(sys.argv[1])))
