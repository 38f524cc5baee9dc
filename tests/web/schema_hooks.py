"""What schemathesis is told about the server under test: existing ids, and folders that may be
made projects."""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis

KNOWN: dict[str, str] = json.loads(os.environ["COTERIE_KNOWN"])
"""Existing values by parameter name, substituted in most requests."""


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    given = dict(path_parameters or {})
    for name, value in given.items():
        # Chosen by the generated value, so that each run is the same.
        if name in KNOWN and (name == "project" or len(str(value)) % 4):
            given[name] = KNOWN[name]
    return given


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Create projects only below the test's own folder."""
    if isinstance(body, dict) and isinstance(body.get("folder"), str):
        return {**body, "folder": f"{KNOWN['folder']}{body['folder']}"}
    return body
