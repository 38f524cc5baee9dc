"""How a failed command is shown, and the exit code it ends with."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import traceback
from typing import TextIO, cast

import click

from coterie.cli.main import ALIASES, VERBS, Call
from coterie.cli.text import write
from coterie.errors import CoterieError

INTERRUPTED = 130


class UnknownCommand(click.UsageError):
    """A single word that is not a verb; it is never taken as a prompt."""

    def __init__(self, word: str, rest: list[str]) -> None:
        near = nearest(word)
        meant = f" Did you mean {near}?" if near else ""
        super().__init__(f'Unknown command "{word}".{meant}' if word else "No command given.")
        words = " ".join([word, *(argument for argument in rest if not argument.startswith("-"))])
        if not word:
            self.hint = "coterie help"
        elif near and not rest:
            self.hint = f"coterie {near}"
        elif " " in words:
            self.hint = f'To send it to your team, quote it:  coterie "{words}"'
        else:
            self.hint: str = f'To send it to your team:  coterie chat "{words}"'


class OutputClosed(Exception):
    """The reader of our output has closed the pipe."""


def nearest(word: str) -> str | None:
    """Return the verb that was probably meant, if any."""
    known = [*VERBS, *ALIASES, "help"]
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.7)
    return close[0] if close else None


def show_failure(error: BaseException, call: Call) -> int:
    """Show what happened, where, and what to paste; return the exit code."""
    error = _single(error)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if call.debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OutputClosed):
        discard(sys.stdout)
        return 0
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    try:
        return _shown(error, call)
    except OSError:  # stdout can no longer be written to
        discard(sys.stdout)
        with contextlib.suppress(OSError):
            write(sys.stderr, f"! {error}")
        return 1


def _shown(error: BaseException, call: Call) -> int:
    match error:
        case CoterieError():
            call.problem(error)
            return error.exit_code
        case click.UsageError():
            call.failure("usage", error.format_message(), {"hint": _help_of(error)})
            return 2
        case click.ClickException():
            call.failure("error", error.format_message(), {})
            return error.exit_code
        case OSError():
            named = cast("object", error.filename)  # which may be a descriptor
            where = os.fsdecode(named) if isinstance(named, str | bytes) else None
            what = error.strerror or str(error)
            call.failure("system", f"{where}: {what}." if where else f"{what}.", {"where": where})
            return 1
        case _:
            return _bug(error, call)


def _bug(error: BaseException, call: Call) -> int:
    text = " ".join(str(error).split())
    message = f"{type(error).__name__}: {text} (this is a bug in Coterie)."
    hint = "Run it again with --debug and report what it prints."
    call.failure("bug", message, {"hint": None if call.debug else hint})
    return 1


def _help_of(error: click.UsageError) -> str | None:
    if isinstance(error, UnknownCommand):
        return error.hint
    return f"{error.ctx.command_path} --help" if error.ctx else None


def _single(error: BaseException) -> BaseException:
    """Reduce a task group's error to a single one: a CoterieError if it has any, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inside = [_single(one) for one in cast("BaseExceptionGroup[BaseException]", error).exceptions]
    return next((one for one in inside if isinstance(one, CoterieError)), inside[0])


def discard(stream: TextIO) -> None:
    """Point a stream nobody reads at /dev/null, so the interpreter does not complain at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
