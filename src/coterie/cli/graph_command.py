"""`graph`: which tickets of a session wait for which, or the phases of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import click

from coterie.app.graphs import pipeline_graph
from coterie.app.pipelines import PipelineView
from coterie.app.project import App
from coterie.app.views import SessionView, read_session
from coterie.cli.graph import layers_of
from coterie.cli.graph_export import Arrow, Box, mermaid, svg
from coterie.cli.main import Call, command, run_on_task, valued_flag
from coterie.cli.phase_graph import drawn, gate_text, in_order, phase_fields
from coterie.cli.text import counted
from coterie.cli.ticket_table import Row, active_rows, rows, ticket_fields, ticket_graph
from coterie.model.phase_graph import PhaseGraph
from coterie.model.pipeline_state import PipelineState
from coterie.model.team import PIPELINE

_FORMATS = ("text", "mermaid", "svg")


@command("graph", "coterie graph --pipeline --format svg > pipeline.svg")
@click.argument("id_", metavar="[ID]", default="last")
@valued_flag(
    "--pipeline",
    "[FILE]",
    "The phases of a pipeline instead: a file, standard, small, or this project's.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="text",
    help="The output format (text).",
)
def graph_(call: Call, id_: str, pipeline: str | None, form: str) -> None:
    """The dependencies of a session's tickets, or the phases of a pipeline."""
    if pipeline is not None:
        # click parses a word after --pipeline as ID if a space separates them.
        wanted = pipeline or (None if id_ == "last" else id_)
        _show_phases(call, pipeline_graph(call.directory, wanted), form)
        return
    session = run_on_task(call, id_, _session)
    if isinstance(session, PipelineView):
        _show_phases(call, session.graph, form, session.state)
        return
    listed = rows(session)
    call.records("ticket", (ticket_fields(session.id, row) for row in listed))
    if not listed:
        call.line(f"{session.id} has no tickets.")
    elif form == "text":
        call.lines(ticket_graph(listed, call.width, call.paint))
    else:
        call.lines(_exported(*_tickets(listed), form, downwards=False))


async def _session(app: App, task_id: str) -> SessionView | PipelineView:
    if (await app.show(task_id)).view.workflow == PIPELINE:
        return await app.pipelines.view(task_id)
    return await read_session(app, task_id)


def _show_phases(
    call: Call, graph: PhaseGraph, form: str, state: PipelineState | None = None
) -> None:
    fields = phase_fields(graph)
    if state is not None:
        fields |= {"task": state.task_id, "state": state.model_dump(mode="json")}
    call.record("graph", fields)
    if form == "text":
        call.lines(drawn(graph, call.width, call.paint, state))
    else:
        call.lines(_exported(*_phases(graph, state), form, downwards=True))


def _exported(
    boxes: Sequence[Box], arrows: Sequence[Arrow], form: str, *, downwards: bool
) -> list[str]:
    return svg(boxes, arrows) if form == "svg" else mermaid(boxes, arrows, downwards=downwards)


def _phases(graph: PhaseGraph, state: PipelineState | None = None) -> tuple[list[Box], list[Arrow]]:
    boxes: list[Box] = []
    for row, name in enumerate(in_order(graph)):
        gate = graph.phases[name].gate
        note = f"gate: {gate}" if gate else ""
        if gate and state and gate in state.meta.gates:
            note = gate_text(gate, state)
        if state is not None and state.phase == name:
            note = f"{note}, here" if note else "here"
        boxes.append(Box(name, name, note, row=row))
    arrows = [
        Arrow(edge.source, edge.target, counted(edge.rounds, "time"), is_back=True)
        if edge.rounds is not None
        else Arrow(edge.source, edge.target)
        for edge in graph.edges()
    ]
    return boxes, arrows


def _tickets(listed: Sequence[Row]) -> tuple[list[Box], list[Arrow]]:
    known = active_rows(listed)
    needs = {
        name: [one for one in row.ticket.dependencies if one in known]
        for name, row in known.items()
    }
    placed = {
        node.name: node
        for layer in (layers_of(needs) if needs else ())
        for node in layer
        if node.name
    }
    boxes = [
        Box(
            name,
            f"{name}: {row.ticket.state}",
            row.ticket.title,
            placed[name].layer,
            placed[name].row,
        )
        for name, row in known.items()
    ]
    arrows = [Arrow(before, name) for name, all_of in needs.items() for before in all_of]
    return boxes, arrows
