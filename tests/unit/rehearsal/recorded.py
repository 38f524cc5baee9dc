"""Requests sent by the real CLIs, shortened; see `fixtures/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coterie.rehearsal.connection import HttpRequest
from coterie.rehearsal.model_api import CompletionRequest
from coterie.rehearsal.server import wire_format_for
from coterie.rehearsal.wire import ParsedRequest, WireFormat

FIXTURES = Path(__file__).with_name("fixtures")


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def wire_and_request(name: str) -> tuple[WireFormat, CompletionRequest]:
    """Return the wire format of a recorded request, and the completion it asks for."""
    kept = fixture(name)
    data = json.dumps(kept["body"]).encode()
    http = HttpRequest(kept["method"], kept["path"], kept["headers"], data)
    request = ParsedRequest.of(http, data)
    wire = wire_format_for(request)
    assert wire is not None
    return wire, wire.read(request)


def request_of(name: str) -> CompletionRequest:
    return wire_and_request(name)[1]
