"""The steps of a probe, each tried for real and within a bounded time."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Literal

import anyio

from coterie.app.probe.outcome import STEPS, Step, Tried
from coterie.app.probe.place import Failed, Place, is_opened, replied, replied_or_asked
from coterie.errors import CoterieError
from coterie.model.agent_facts import ShellTool
from coterie.model.conversation import YOU
from coterie.model.interaction import Interaction
from coterie.rehearsal.model_api import Answer, ModelReply, NoReply, TextMessage, ToolCall, reply

NEEDED: tuple[Step, ...] = ("start", "turn")
"""Without these none of the later ones can be tried."""
PATIENCE = 20.0
"""Seconds for a step: a cold start of the slowest CLI takes five."""


FOLDER = "coterie-probe-"
"""How the name of a probe's folder begins."""
_OUR_FOLDER = re.compile(rf" \(in [^)]*{FOLDER}[^)]*\)")


class Steps:
    """The steps, in order; after one that failed the next begins on a new task."""

    def __init__(self, place: Place, shell: ShellTool) -> None:
        self._place = place
        self._shell = shell
        self._word = f"heliotrope-{secrets.token_hex(4)}"

    async def all_steps(self, tell: Callable[[Step], None]) -> tuple[Tried, ...]:
        """Try them all, as far as they can be."""
        tries: Mapping[Step, Callable[[], Awaitable[str]]] = {
            "start": self._start,
            "turn": self._turn,
            "tool": self._tool,
            "permission": self._permission,
            "interrupt": self._interrupt,
            "resume": self._resume,
        }
        tried: list[Tried] = []
        await self._place.begin()
        try:
            for step in STEPS:
                tell(step)
                tried.append(await self._tried(step, tries[step]))
                if tried[-1].outcome == "ok":
                    continue
                if step in NEEDED:
                    break
                await self._place.end()
                await self._place.begin()
        finally:
            await self._place.end()
        untried = f"it needs a {tried[-1].step}, which failed"
        return (*tried, *(Tried(step, "not tried", untried) for step in STEPS[len(tried) :]))

    async def _tried(self, step: Step, attempt: Callable[[], Awaitable[str]]) -> Tried:
        began = monotonic()

        def ended(outcome: Literal["ok", "failed"], detail: str) -> Tried:
            # The folder is gone when this is read.
            detail = _OUR_FOLDER.sub("", detail)
            return Tried(step, outcome, detail, round((monotonic() - began) * 1000))

        with anyio.move_on_after(PATIENCE):
            try:
                return ended("ok", await attempt())
            except (Failed, CoterieError) as error:
                return ended("failed", str(error))
        late, trouble = f"no end within {PATIENCE:g} s", self._place.trouble
        return ended("failed", f"{late}: {trouble}" if trouble else late)

    async def _start(self) -> str:
        await self._place.say("Which word?", reply(f"My word is {self._word}."))
        await self._place.heard(is_opened)
        return "its channel opened"

    async def _turn(self) -> str:
        said = await self._place.heard(replied)
        if self._word not in said.text:
            raise Failed("the reply is not what its model said")
        return "the reply of its model came back"

    async def _tool(self) -> str:
        made, call = self._making("tool")
        await self._take("Make a file.", call, "approve", made)
        if not await made.exists():
            raise Failed("its shell tool did not make the file")
        return "its shell tool made a file"

    async def _permission(self) -> str:
        for choice in ("reject", "approve"):
            made, call = self._making(choice)
            if not await self._take("Make another file.", call, choice, made):
                raise Failed("it asked nobody before it ran a command")
            if await made.exists() != (choice == "approve"):
                raise Failed(f"the answer {choice} did not count")
        return "it asked, and kept to the answer"

    async def _interrupt(self) -> str:
        place = self._place
        number = len(place.server.turns) + 1
        await place.say("Think for long.", NoReply())
        await place.server.turn(number)
        await place.app.interrupt(place.task)
        if not (await place.heard(replied)).cut:
            raise Failed("the turn was not broken off")
        await place.say("Are you there?", reply(f"I am, {self._word}."))
        said = await place.heard(replied)
        if said.cut or self._word not in said.text:
            raise Failed("the turn after the one that was broken off did not work")
        return "the turn was broken off, and the next one worked"

    async def _resume(self) -> str:
        place, word = self._place, f"{self._word}-kept"
        await place.say("Which word do you keep?", reply(f"I keep {word}."))
        await place.heard(replied)
        await place.rest()
        await place.end()
        place.run()
        await place.say("Which one was it?", reply("You know it."))
        await place.heard(replied)
        asked = place.server.turns[-1].asked
        said = (
            [item for item in asked.conversation if isinstance(item, TextMessage)] if asked else []
        )
        if not any(word in item.text for item in said):
            raise Failed("its model was not told again what had been said before")
        return "a new process knew what had been said before"

    def _making(self, name: str) -> tuple[anyio.Path, ModelReply]:
        """A file that is not there, and a model that wants it made."""
        path = self._place.app.root / f"made-{name}-{secrets.token_hex(4)}.txt"
        return anyio.Path(path), ModelReply((), (self._call(f"touch {shlex.quote(str(path))}"),))

    def _call(self, command: str) -> ToolCall:
        shell = self._shell
        return ToolCall(shell.name, {shell.command: command, **shell.arguments})

    async def _take(self, word: str, answer: Answer, choice: str, made: anyio.Path) -> int:
        """A turn in which every permission is answered so; how many were asked for."""
        place, asked = self._place, 0
        await place.say(word, answer)
        while isinstance(found := await place.heard(replied_or_asked), Interaction):
            asked += 1
            if await made.exists():
                raise Failed("it ran the command before the question was answered")
            await place.app.answer(found.interaction_id, choice=choice, text=None, author=YOU)
        return asked
