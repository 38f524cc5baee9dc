"""How a run that did not go well is told, and the exit code it ends with."""

from __future__ import annotations

import os
import sys
import traceback

import click

from coterie.cli.call import Call
from coterie.errors import CoterieError

INTERRUPTED = 130


def told(error: BaseException, call: Call) -> int:
    """Tell what happened, where, and what to paste; returns the exit code."""
    error = _single(error)
    if call.debug and not isinstance(error, click.exceptions.Exit):
        traceback.print_exception(error, file=sys.stderr)
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case BrokenPipeError():
            _close_quietly()
            return 0
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case _:
            return _mistake(error, call)


def _mistake(error: BaseException, call: Call) -> int:
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
        case OSError() if error.filename is not None:
            where = os.fsdecode(error.filename)
            message = f"{where}: {error.strerror or error}."
            call.failure("system", message, {"where": where})
            return 1
        case _:
            return _bug(error, call)


def _bug(error: BaseException, call: Call) -> int:
    said = " ".join(str(error).split())
    message = f"{type(error).__name__}: {said} (this is a bug in Coterie)."
    hint = "Run it again with --debug and report what it prints."
    call.failure("bug", message, {"hint": None if call.debug else hint})
    return 1


def _help_of(error: click.UsageError) -> str | None:
    from coterie.cli.main import NoVerb

    if isinstance(error, NoVerb):
        return error.hint
    return f"{error.ctx.command_path} --help" if error.ctx else None


def _single(error: BaseException) -> BaseException:
    """What a task group's error is about: the one of ours in it, else the first."""
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(CoterieError)
        error = (ours or error).exceptions[0]
    return error


def _close_quietly() -> None:
    """Nobody reads stdout any more; the interpreter must not complain of that when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
