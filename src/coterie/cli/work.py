"""What the verbs that work have in common: a goal, a rehearsal, patience with questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

import click

from coterie.cli.call import Call
from coterie.cli.text import parse_span
from coterie.errors import UsageError

P = ParamSpec("P")

LONGEST = 10_000_000
"""No message is longer than this many characters."""


class Span(click.ParamType[float]):
    """A time such as `30m`, in seconds."""

    name = "span"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = parse_span(str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write it like 90s, 30m or 1h30m.", param, ctx)
        return found


@dataclass(frozen=True)
class Patience:
    """What is waited for."""

    seconds: float | None
    """How long an open question is waited for; None: for ever."""
    at_reset: bool = False
    """Whether the end of a rate limit is waited for too, however long that takes."""

    @classmethod
    def of(cls, call: Call, wait: float | None, *, at_reset: bool = False) -> Patience:
        """As told; else for ever where a person sits, and not at all where nobody could answer."""
        default = None if call.live else 0.0
        return cls(default if wait is None else wait, at_reset)


_OPTIONS = (
    click.option("--wait", type=Span(), metavar="30m", help="How long a question is waited for."),
    click.option(
        "--rehearse", is_flag=True, help="Real CLIs on a stand-in for the model: no tokens."
    ),
    click.option("--script", metavar="FILE", help="Rehearse with the replies of this file."),
)


def work_options(function: Callable[P, None]) -> Callable[P, None]:
    """Give a verb `--wait`, `--rehearse` and `--script`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def rehearsal(call: Call, script: str | None, *, wished: bool) -> bool | Path:
    """Whether models are stood in for, and by which file; checked before anything is made."""
    if script is None:
        found: bool | Path = wished
    else:
        from coterie.rehearsal.script import read_script

        found = Path(script).expanduser().absolute()  # the task may be resumed from elsewhere
        read_script(found)
    if found:
        call.note("Rehearsal: the models are stand-ins. No tokens, no login; replies mean nothing.")
    return found


def goal(call: Call, words: tuple[str, ...], example: str) -> str | None:
    """What was said on the command line or piped in; None where it will be typed."""
    text = " ".join(words)
    if not words:
        if call.live:
            return None
        text = "" if sys.stdin.isatty() else sys.stdin.read(LONGEST + 1)
    if not text.strip():
        raise UsageError("There is no message.", example)
    if len(text) > LONGEST:
        raise UsageError(f"The message has more than {LONGEST} characters.")
    return text.strip("\n")
