"""Embed untrusted text in a generated Markdown document without letting it add structure.

A heading, a fence or a comment in a plan's text must not end the section that contains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coterie.model.visible import printable

_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<rest>.*)")
_BEGINS = re.compile(r"(?P<blank>\s*)(?P<mark>#{1,6}(?=\s|$)|<!--|={3,}\s*$|-{3,}\s*$|`{3,}|~{3,})")
"""What a line outside a code block must not begin with."""


def inline(text: str, longest: int | None = None) -> str:
    """A text as one line, with any Markdown marker at its beginning escaped."""
    line = printable(" ".join(text.split()))
    if longest is not None and len(line) > longest:
        line = f"{line[: longest - 1].rstrip()}…"
    return _BEGINS.sub(r"\\\g<mark>", line, count=1) if _BEGINS.match(line) else line


def paragraph(text: str) -> str:
    """A text of several lines, with markers escaped; code blocks are kept if they are closed."""
    lines = [printable(line) for line in text.strip("\n").splitlines()]
    inside = _in_blocks(lines)
    shown = [
        line
        if is_code
        else _BEGINS.sub(r"\g<blank>\\\g<mark>", line, count=1)
        if _BEGINS.match(line)
        else line
        for line, is_code in zip(lines, inside, strict=True)
    ]
    return "\n".join(shown).strip()


def _in_blocks(lines: list[str]) -> list[bool]:
    """Whether each line belongs to a closed code block."""
    inside = [False] * len(lines)
    opened, marks = -1, ""
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        if opened < 0:
            opened, marks = number, fence["marks"]
        elif fence["marks"].startswith(marks) and not fence["rest"].strip():
            inside[opened : number + 1] = [True] * (number + 1 - opened)
            opened = -1
    return inside


def bullets(texts: Iterable[str], otherwise: str = "") -> str:
    """A bullet list, or `otherwise` if it would be empty."""
    lines = [f"- {inline(text)}" for text in texts if text.strip()]
    return "\n".join(lines) or otherwise


def section(heading: str, body: str, level: int = 2) -> str:
    """A section with its heading; empty if the body is empty."""
    return f"{'#' * level} {heading}\n\n{body}\n" if body else ""


def document(title: str, *sections: str) -> str:
    """A document with a title and those sections that are not empty."""
    return "\n".join((f"# {inline(title)}\n", *(one for one in sections if one)))
