"""`coterie serve`: how it begins and ends."""

from __future__ import annotations

from tests.web.server import API, Api, Process


async def test_it_shows_the_project_around_it(api: Api) -> None:
    found = await api.client.get(f"{API}/projects")
    shown = {"id": api.project, "name": "project", "root": str(api.root)}
    assert (found.status_code, found.json()) == (200, [shown])


async def test_a_stream_begins_with_reading_all_anew(api: Api) -> None:
    async with api.stream() as events:
        assert (await anext(events)).name == "reset"


def test_a_process_serves_until_it_is_told_to_stop(process: Process) -> None:
    assert process.client.get(f"{API}/projects").status_code == 200
    assert process.stop() == 0
