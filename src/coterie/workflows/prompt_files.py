"""Prompts as files: those shipped with a workflow, and the user's own that replace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import cast

from coterie.errors import ConfigError
from coterie.model.workspace import shown
from coterie.workspace.beneath import read_regular

_LARGEST = 1 << 20
"""Bytes; no prompt is larger."""


class Prompts:
    """The prompts of a workflow, to be filled in."""

    def __init__(self, templates: Mapping[str, Template] | None = None) -> None:
        self._templates = templates or {}

    @classmethod
    def read(cls, shipped: Path, own: Path | None = None) -> Prompts:
        """Read the prompts in a folder, each replaced by the user's own one of the same name.

        Blocks; raises ConfigError if a prompt cannot be read.
        """
        paths = {path.stem: path for path in shipped.glob("*.md")}
        if own is None:
            return cls({name: Template(_text_of(path)) for name, path in paths.items()})
        paths |= {path.stem: path for path in own.glob("*.md") if path.stem in paths}
        return cls({name: Template(_text_of(path)) for name, path in paths.items()})

    def filled(self, name: str, **facts: object) -> str:
        """Return a prompt with the facts filled in; a list gets a line for each of its entries."""
        words = {key: _shown(value) for key, value in facts.items()}
        return self._templates[name].safe_substitute(words)


def _text_of(prompt: Path) -> str:
    try:
        text = read_regular(prompt, _LARGEST, follow=True).decode("utf-8-sig")
        return text.replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"{shown(prompt)}:{line} is not UTF-8 text."
        raise ConfigError(problem, "Save it as UTF-8.", f"{prompt}:{line}") from None
    except OSError as error:
        problem = f"{shown(prompt)} cannot be read: {error.strerror or error}."
        raise ConfigError(
            problem, "Fix it, or delete it to use the built-in prompt.", str(prompt)
        ) from None


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value or "-"
    if isinstance(value, Sequence):
        lines = cast("Sequence[object]", value)
        return "\n".join(f"- {one}" for one in lines) or "- none"
    return str(value)
