"""The live screen of a build: commands that answer its question or show where it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from prompt_toolkit.input import create_pipe_input

from coterie.app.project import App
from coterie.cli.main import Call
from coterie.cli.screen.pipeline import PipelineScreen
from coterie.config.pipeline_file import load_graph
from coterie.model.about import PhaseChoice
from coterie.model.artifact import GateDecision
from coterie.model.interaction import Display, Interaction, Option
from coterie.model.pipeline_state import PipelineState, StatePatch
from coterie.model.record import InteractionRecord, PhaseRecord
from coterie.model.team import Member, Team
from tests.cli.test_screen import DisplayedScreen, RecordingApp, SizedOutput

TEAM = Team(
    name="pair",
    members=tuple(
        Member(id=name, name=name, display_name=name, agent="claude") for name in ("ada", "rex")
    ),
)
GRAPH = load_graph(None, "small")
GATE = GateDecision(gate="review", passed=True)
STATE = (
    PipelineState(task_id="k3f9", phase="code_review")
    .begun("code_review")
    .after("code_review", StatePatch(gate=GATE))
)


@dataclass
class Build(RecordingApp):
    """A stand-in for an App with one build."""

    @property
    def pipelines(self) -> object:
        async def view(task_id: str) -> object:
            return SimpleNamespace(task=task_id, graph=GRAPH, state=STATE)

        return SimpleNamespace(view=view)


def question(*choices: str) -> InteractionRecord:
    asked = Interaction(
        interaction_id="q1",
        task_id="k3f9",
        author_actor_id="coterie",
        kind="Composite",
        display=Display(title="code_review has finished: what next?"),
        options=tuple(Option(id=one, label=one) for one in choices),
        about=PhaseChoice(phase="code_review", next="test_run"),
    )
    return InteractionRecord(asked, "coterie")


@asynccontextmanager
async def displayed_screen() -> AsyncIterator[DisplayedScreen]:
    output = SizedOutput(100, 30)
    with create_pipe_input() as keys:
        screen = PipelineScreen(Call(), TEAM, None, None, (keys, output))
        made = DisplayedScreen(screen, keys, Build(), output)
        async with screen.shown(lambda: made.stopped.append("stop")):
            screen.attach(cast("App", made.app), "k3f9")
            yield made


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/next", ("next", "")),
        ("/codegen use decimals", ("codegen", "use decimals")),
        ("/eval", ("test", "")),
        ("/TEST", ("test", "")),
        ("/acc\t Add coupons", ("accept", "Add coupons")),
        ("/revert", ("revert", "")),
    ],
)
async def test_a_command_answers_what_is_asked(typed: str, answer: tuple[str, str]) -> None:
    async with displayed_screen() as it:
        it.screen.saw(question("next", "codegen", "test", "accept", "revert", "stop"))
        await it.press(f"{typed}\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q1", *answer)]


async def test_a_command_that_is_not_offered_says_what_is() -> None:
    async with displayed_screen() as it:
        await it.press("/plan\r")
        await it.until(lambda: "not now: it is working" in it.output.written)
        it.screen.saw(question("next", "codegen", "stop"))
        assert "/next /codegen" in it.screen.hint(99)
        await it.press("/plan\r")
        await it.until(
            lambda: "not available now; choose one of: /next /codegen" in it.output.written
        )
        assert it.app.calls == []
        await it.press("mind the cents\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "mind the cents")]


async def test_status_graph_and_help_are_looks() -> None:
    async with displayed_screen() as it:
        it.screen.saw(PhaseRecord("k3f9", "code_review", "code_review", "completed", gate="review"))
        await it.press("/status\r")
        await it.until(lambda: "gates    review passed" in it.output.written)
        await it.press("/graph\r")
        await it.until(lambda: "code_review ●" in it.output.written)
        await it.press("/help\r")
        await it.until(lambda: "/planreview" in it.output.written)
        assert it.app.calls == []
