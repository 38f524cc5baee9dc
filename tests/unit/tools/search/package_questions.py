"""The questions asked about a real package: pip, some 440 files including vendored ones."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Question:
    """A developer's question in plain words, and the files that answer it."""

    text: str
    files: frozenset[str]


def package() -> Path:
    """Return the folder of the package to search."""
    spec = importlib.util.find_spec("pip")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def questions() -> list[Question]:
    """Return all questions, as written before the index existed."""
    entries = json.loads(Path(__file__).with_name("questions.json").read_text())
    return [Question(entry["question"], frozenset(entry["files"])) for entry in entries]
