"""A pipeline on a terminal: its events in the scrollback, and commands that choose what is next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from coterie.cli.lines import RecordLines
from coterie.cli.phase_events import PhaseEvents, state_lines
from coterie.cli.phase_graph import drawn
from coterie.cli.screen.input import Action
from coterie.cli.screen.screen import Screen
from coterie.cli.screen.status import HELP, WORK_COMMANDS, ChatStatus, work_keys
from coterie.model.interaction import Interaction
from coterie.model.team import YOU

if TYPE_CHECKING:
    from coterie.app.project import App

PHASES: Mapping[str, str] = {
    "/next": "go on to the next step",
    "/plan": "plan, or revise the plan as the text after it says",
    "/planreview": "have the plan reviewed",
    "/meeting": "hold the meeting about the plan or the reviews",
    "/codegen": "make the change, or fix it as the text after it says",
    "/review": "have the change reviewed",
    "/test": "run the tests",
    "/accept": "commit it; the text after it is the message",
    "/override": "continue or commit despite a failed gate",
    "/revert": "revert the work",
}
"""The commands at the end of a phase, and what they do."""
_ALIASES = {"eval": "test"}
_LOOKS: Mapping[str, str] = {
    "/status": "the current phase, and the gates",
    "/graph": "the phases, the current one marked",
}


class PipelineStatus(ChatStatus):
    """Follows the records of a pipeline."""

    commands: Mapping[str, str] = {
        **PHASES,
        "/eval": "the same as /test",
        **_LOOKS,
        **WORK_COMMANDS,
    }
    shortcuts: Mapping[str, str] = work_keys("send a message; the next step reads it")
    dropped_first: Sequence[str] = ()
    queued: str = "the next step reads it"

    def _hints(self) -> list[str]:
        offered = [one.id for record, _ in self.questions for one in record.interaction.options]
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
        """Return the action of a command: answer the open question, or show something."""
        name, _, text = word.partition(" ")
        name = name.lower()
        if name in _LOOKS:
            return self._status if name == "/status" else self._graph
        choice = name.removeprefix("/")
        if name not in PHASES and choice not in _ALIASES:
            return None
        return partial(self._choose, _ALIASES.get(choice, choice), text.strip() or None)

    async def _choose(self, choice: str, text: str | None) -> None:
        """Answer the pipeline's question, if it offers that choice."""
        question = self._phase_question()
        offered = [option.id for option in question.options] if question else []
        if self._app is None or question is None:
            self.print([" ! not now: it is working. /status shows where it is"])
        elif choice not in offered:
            known = " ".join(f"/{one}" for one in offered if f"/{one}" in PHASES)
            self.print([f" ! not available now; choose one of: {known}"])
        else:
            await self._app.answer(question.interaction_id, choice=choice, text=text, author=YOU)

    def _phase_question(self) -> Interaction | None:
        """Return the open question that commands answer: one about the phases."""
        questions = [record.interaction for record, _ in self._board.questions]
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
            view = await self._app.pipelines.view(self._board.task)
            self.print(drawn(view.graph, self._prompt.width, self._paint, view.state))
