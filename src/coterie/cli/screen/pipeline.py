"""A pipeline on a terminal: what happens in the scrollback, and commands that say what is next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from coterie.cli.lines import RecordLines
from coterie.cli.phase_events import PhaseEvents, state_lines
from coterie.cli.phase_graph import drawn
from coterie.cli.screen.input import Action
from coterie.cli.screen.screen import Screen
from coterie.cli.screen.status import COMMANDS, HELP, KEYS, ChatStatus
from coterie.model.conversation import YOU
from coterie.model.interaction import Interaction

if TYPE_CHECKING:
    from coterie.app.project import App

PHASES: Mapping[str, str] = {
    "/next": "go on with what comes next",
    "/plan": "plan, or plan anew with what you say after it",
    "/planreview": "have the plan reviewed",
    "/meeting": "hold the meeting about plan or reviews",
    "/codegen": "make the change, or mend it as you say after it",
    "/review": "have the change reviewed",
    "/test": "run the tests",
    "/accept": "commit it; what you say after it is the message",
    "/override": "go on, or commit, over a gate that failed",
    "/revert": "take the work back",
}
"""What may be said at the end of a phase, and what it does."""
_ALIASES = {"eval": "test"}
_LOOKS: Mapping[str, str] = {
    "/status": "where it is, and its gates",
    "/graph": "the phases, and which of them it is in",
}


class PipelineStatus(ChatStatus):
    """Follows the records of a pipeline."""

    commands: Mapping[str, str] = {
        **PHASES,
        "/eval": "the same as /test",
        **_LOOKS,
        **{name: what for name, what in COMMANDS.items() if name != "/end"},
    }
    shortcuts: Mapping[str, str] = {
        "Enter": "say it: the next step hears it",
        "Tab": "opens the oldest question, then the next; completes commands",
        "Esc": "breaks off the turns that run",
        "^C": KEYS["^C"],
    }
    spare: Sequence[str] = ()
    queued: str = "the next step hears it"

    def _hints(self) -> list[str]:
        offered = [one.id for record, _ in self.asked for one in record.interaction.options]
        able = " ".join(name for name in PHASES if name.removeprefix("/") in offered)
        working = ["Esc interrupt"] if self.busy else []
        return [*([able] if able else []), *working, self.stops, HELP]


class PipelineScreen(Screen):
    """Shows a pipeline, and takes commands."""

    renderer: type[RecordLines] = PhaseEvents
    _app: App | None = None

    def _make_board(self, max_turns: int | None) -> ChatStatus:
        return PipelineStatus(self._team, max_turns)

    def attach(self, app: App, task_id: str) -> None:
        super().attach(app, task_id)
        self._app = app

    def command(self, word: str) -> Action | None:
        """What a command does: an answer to what is asked, or a look."""
        name, _, said = word.partition(" ")
        name = name.lower()
        if name in _LOOKS:
            return self._status if name == "/status" else self._graph
        choice = name.removeprefix("/")
        if name not in PHASES and choice not in _ALIASES:
            return None
        return partial(self._choose, _ALIASES.get(choice, choice), said.strip() or None)

    async def _choose(self, choice: str, said: str | None) -> None:
        """Answer the question of the pipeline, where it offers that."""
        asked = self._asked()
        offered = [option.id for option in asked.options] if asked else []
        if self._app is None or asked is None:
            self.print([" ! not now: it is at work. /status says where it is"])
        elif choice not in offered:
            known = " ".join(f"/{one}" for one in offered if f"/{one}" in PHASES)
            self.print([f" ! not now; there is {known}"])
        else:
            await self._app.answer(asked.interaction_id, choice=choice, text=said, author=YOU)

    def _asked(self) -> Interaction | None:
        """The open question that commands answer: one about the phases."""
        questions = [record.interaction for record, _ in self._board.asked]
        known = [one for one in questions if any(f"/{o.id}" in PHASES for o in one.options)]
        return known[0] if known else None

    async def _status(self) -> None:
        if self._app is not None:
            state = (await self._app.pipelines.view(self._board.task)).state
            actors = [
                f"  {name:<9}{actor.status}" + (f", round {actor.round}" if actor.round > 1 else "")
                for name, actor in state.actors.items()
            ]
            self.print([*state_lines(state), *actors])

    async def _graph(self) -> None:
        if self._app is not None:
            found = await self._app.pipelines.view(self._board.task)
            self.print(drawn(found.graph, self._prompt.width, self._paint, found.state))
