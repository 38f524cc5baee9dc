"""The questions asked of a real package: pip, some 440 files, with all it carries along."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Question:
    """What a developer asks in plain words, and the files that answer it."""

    text: str
    files: frozenset[str]


def package() -> Path:
    """The folder of the package that is searched."""
    spec = importlib.util.find_spec("pip")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def questions() -> list[Question]:
    """All of them, as they were written before there was an index."""
    entries = json.loads(Path(__file__).with_name("questions.json").read_text())
    return [Question(entry["question"], frozenset(entry["files"])) for entry in entries]
