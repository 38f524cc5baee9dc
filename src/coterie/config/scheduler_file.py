"""`scheduler_config.json`: the limits of a session with tickets, as the user wants them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ValidationError

from coterie.config.document import Document, Place, read_document
from coterie.config.mistakes import Mistake, described, doubled_keys, found_by, nulls, refusal
from coterie.config.project import Project
from coterie.model.scheduler import Alerts, SchedulerConfig, TimeLimits

FILE_NAME = "scheduler_config.json"
_EDITORS = "$schema"
_PARTS: dict[Place, type[BaseModel]] = {
    (): SchedulerConfig,
    ("time_limits",): TimeLimits,
    ("alerts",): Alerts,
}


def scheduler_path(project: Project) -> Path:
    """Where the user writes it."""
    return project.folder / FILE_NAME


def load_scheduler(project: Project) -> SchedulerConfig:
    """The limits that hold in a project; a ConfigError names every mistake."""
    path = scheduler_path(project)
    return interpret(read_document(path)) if path.exists() else SchedulerConfig()


def interpret(document: Document) -> SchedulerConfig:
    """The limits that a document gives."""
    data = document.data
    if not isinstance(data, dict):
        raise refusal(document, [Mistake((), f"is {described(data)}; expected an object")])
    given = {
        key: value for key, value in cast("dict[str, object]", data).items() if key != _EDITORS
    }
    mistakes = [*doubled_keys(document), *nulls(given)]
    if mistakes:
        raise refusal(document, mistakes)
    try:
        # As JSON and strictly: "3" is no number, and true is not 1.
        return SchedulerConfig.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        raise refusal(document, found_by(error, given, _keys_at)) from None


def _keys_at(place: Place) -> tuple[str, ...]:
    return tuple(_PARTS.get(place, SchedulerConfig).model_fields)
