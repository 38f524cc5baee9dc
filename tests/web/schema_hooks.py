"""What schemathesis is told of the server that it tries: ids that are there, and folders that may
be made projects."""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis

KNOWN: dict[str, str] = json.loads(os.environ["COTERIE_KNOWN"])
"""By name of a parameter: something that is there.  Half of the time it is asked for."""


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    given = dict(path_parameters or {})
    for name, value in given.items():
        # By what was generated, so that a run is the same each time.
        if name in KNOWN and (name == "project" or len(str(value)) % 4):
            given[name] = KNOWN[name]
    return given


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """A project is only ever made below the test's own folder."""
    if isinstance(body, dict) and isinstance(body.get("folder"), str):
        return {**body, "folder": f"{KNOWN['folder']}{body['folder']}"}
    return body
