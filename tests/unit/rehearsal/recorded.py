"""Requests that the real CLIs sent, cut short; see `fixtures/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coterie.rehearsal.connection import HttpRequest
from coterie.rehearsal.dialogue import Asked
from coterie.rehearsal.received import opened
from coterie.rehearsal.routes import wire_for
from coterie.rehearsal.wire import Posted, Wire, client_of

FIXTURES = Path(__file__).with_name("fixtures")


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def wire_and_asked(name: str) -> tuple[Wire, Asked]:
    """What a recorded request asks, and in which format."""
    kept = fixture(name)
    data = json.dumps(kept["body"]).encode()
    seen = opened(HttpRequest(kept["method"], kept["path"], kept["headers"], data), data)
    wire = wire_for(seen)
    assert wire is not None
    client = client_of(seen.headers["user-agent"])
    return wire, wire.asked(Posted(seen.path, seen.query, client, seen.body, seen.size))


def asked_by(name: str) -> Asked:
    return wire_and_asked(name)[1]
