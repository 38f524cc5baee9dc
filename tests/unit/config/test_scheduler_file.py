"""`scheduler_config.json`: defaults, and mistakes reported with their location."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coterie.config.project import Project
from coterie.config.schemas import FOLDER
from coterie.config.settings import load_scheduler
from coterie.errors import ConfigError
from coterie.model.ticket import Alerts, SchedulerConfig, TimeLimits
from tests.conftest import init_project

Write = Callable[[Path, str], Path]


def accepted(text: str) -> bool:
    schema: dict[str, Any] = json.loads((FOLDER / "scheduler.schema.json").read_text())
    return Draft202012Validator(schema).is_valid(json.loads(text))


@pytest.fixture
def load(tmp_path: Path, write: Write) -> Callable[[str], SchedulerConfig]:
    def loaded(text: str) -> SchedulerConfig:
        write(init_project(tmp_path) / "scheduler_config.json", text)
        return load_scheduler(Project(tmp_path))

    return loaded


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_scheduler(Project(tmp_path)) == SchedulerConfig()


def test_all_that_can_be_said(load: Callable[[str], SchedulerConfig]) -> None:
    text = json.dumps(
        {
            "$schema": "x",
            "concurrency": 2,
            "retries": 0,
            "rework": 1,
            "replans": 3,
            "clarifications": 0,
            "checks": ["make test"],
            "time_limits": {"work": 1.5, "manager": 2, "check": 3},
            "alerts": {"stalled": 4},
            "sign": True,
        }
    )
    assert accepted(text)
    assert load(text) == SchedulerConfig(
        concurrency=2,
        retries=0,
        rework=1,
        replans=3,
        clarifications=0,
        checks=("make test",),
        time_limits=TimeLimits(work=1.5, manager=2, check=3),
        alerts=Alerts(stalled=4),
        sign=True,
    )


WRONG = {
    '{"concurrency": 0}': "concurrency is 0; expected at least 1.",
    '{"concurrency": "3"}': 'concurrency is "3"; expected a whole number.',
    '{"retries": true}': "retries is true; expected a whole number.",
    '{"concurency": 3}': "concurency is not a known key. Did you mean concurrency?",
    '{"sign": 1}': "sign is 1; expected true or false.",
    '{"checks": "make"}': 'checks is "make"; expected a list.',
    '{"checks": [""]}': 'checks[0] is ""; expected some text.',
    '{"time_limits": {"chek": 3}}': "time_limits.chek is not a known key. Did you mean check?",
    '{"time_limits": {"work": 0}}': "time_limits.work is 0; expected more than 0",
    '{"alerts": []}': "alerts is a list; expected an object.",
    '{"alerts": {"stalled": null}}': "alerts.stalled is null; leave it out.",
    '{"retries": 1,\n "retries": 2}': "retries appears twice.",
    "[]": "is a list; expected an object.",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_named(load: Callable[[str], SchedulerConfig], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert "scheduler_config.json:" in str(raised.value)
    assert WRONG[text] in str(raised.value)
    assert "twice" in WRONG[text] or not accepted(text)
