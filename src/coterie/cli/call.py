"""One run of the command line: where it is, and how it speaks.

What was asked for goes to stdout, what goes along with it to stderr; with `--json` stdout holds
nothing but objects, one a line, numbered through the whole run.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TextIO, TypeVar

import click

from coterie.app import terminal
from coterie.cli import text
from coterie.cli.text import Paint

if TYPE_CHECKING:
    from coterie.errors import CoterieError

P = ParamSpec("P")


class Call:
    """The global options of this run, and its two streams."""

    def __init__(self) -> None:
        self.json = False
        self.debug = False
        self.directory: Path | None = None
        self._seq = 0

    # -- what the streams are ------------------------------------------------------------------

    @functools.cached_property
    def attended(self) -> bool:
        """Whether a person sits at a terminal and reads prose: questions may be put to them."""
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    @functools.cached_property
    def live(self) -> bool:
        """Whether the terminal can redraw lines."""
        return self.attended and not self._is_dumb

    @functools.cached_property
    def colour(self) -> bool:
        """Whether stdout takes colour."""
        if self.json or not sys.stdout.isatty() or self._is_dumb:
            return False
        return not terminal.wants_no_colour()

    @property
    def _is_dumb(self) -> bool:
        """Whether the terminal can neither move its cursor nor show colour."""
        return (terminal.terminal_type() or "").lower() in ("dumb", "unknown")

    @property
    def width(self) -> int:
        """How many columns a line may have."""
        try:
            return max(os.get_terminal_size(sys.stdout.fileno()).columns or 80, 20)
        except OSError:
            return 80

    @functools.cached_property
    def paint(self) -> Paint:
        """Puts colour on text where there is colour."""
        return Paint(self.colour)

    # -- speaking ------------------------------------------------------------------------------

    def line(self, shown: str = "") -> None:
        """A line for a reader; nothing with `--json`."""
        if not self.json:
            write(sys.stdout, shown)

    def lines(self, shown: list[str]) -> None:
        """Several lines for a reader."""
        if shown:
            self.line("\n".join(shown))

    def prose(self, shown: str) -> None:
        """Sentences for a reader, folded."""
        self.lines(text.wrap(shown, min(self.width, 80) - 1))

    def note(self, shown: str) -> None:
        """A line beside the result, on stderr."""
        write(sys.stderr, shown)

    def record(self, kind: str, fields: Mapping[str, object], at: str | None = None) -> None:
        """One object; nothing without `--json`."""
        if not self.json:
            return
        import json

        from coterie.model import instant

        self._seq += 1
        line = {"type": kind, "at": at or instant.now(), "seq": self._seq, **fields}
        write(sys.stdout, json.dumps(line, default=str, separators=(",", ":")))

    def records(self, kind: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Several objects, which are only made with `--json`."""
        if self.json:
            for fields in rows:
                self.record(kind, fields)

    def failure(self, code: str, message: str, details: Mapping[str, str | None]) -> None:
        """What went wrong: an `error` object, or `! message` and what to do."""
        if self.json:
            shown = {"hint": None, "member": None, "where": None, **details}
            return self.record("error", {"code": code, "message": message, **shown})
        first, *rest = message.split("\n")
        lines = [f"! {first}", *(f"  {line}" for line in rest)]
        where, hint = details.get("where"), details.get("hint")
        if where and not _named(where, message):
            lines.append(f"  in {where}")
        if hint:
            lines += [f"  {line}" for line in hint.splitlines()]
        return self.note(text.printable("\n".join(lines)))

    def problem(self, error: CoterieError) -> None:
        """An error of ours, shown; the command may go on."""
        details = {"hint": error.hint, "member": error.member, "where": error.where}
        self.failure(error.code, str(error), details)


def _named(where: str, message: str) -> bool:
    """Whether a message already says where; it may do so by a shorter path."""
    last = where.rsplit("/", 1)[-1]
    return last.partition(":")[0] in message


def write(stream: TextIO, shown: str) -> None:
    """A line, at once, in symbols that the stream's encoding has."""
    if not (stream.encoding or "ascii").lower().replace("-", "").startswith("utf"):
        shown = shown.translate(text.ASCII)
    stream.write(shown + "\n")
    stream.flush()


# -- options that every command has ------------------------------------------------------------


def _set(context: click.Context, parameter: click.Parameter, value: object) -> None:
    call = context.ensure_object(Call)
    if parameter.name and value:
        setattr(call, parameter.name, value)


_OPTIONS = (
    click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set, help="Show stack traces."
    ),
    click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set,
        help="One JSON object a line.",
    ),
    click.option(
        "-C",
        "directory",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        expose_value=False,
        callback=_set,
        help="The project's folder.",
    ),
)


def global_options(function: Callable[P, None]) -> Callable[P, None]:
    """Give a command `--json`, `--debug` and `-C`, wherever on the line they stand."""
    for option in _OPTIONS:
        function = option(function)
    return function


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def command(name: str, example: str) -> Callable[[Callable[P, None]], click.Command]:
    """A click command with the options of all and an example at the end of its help."""

    def made(function: Callable[P, None]) -> click.Command:
        decorate = click.command(name, epilog=_example(example), context_settings=_SETTINGS)
        return decorate(global_options(function))

    return made


def group(
    name: str, example: str, kind: type[click.Group] = click.Group
) -> Callable[[Callable[P, None]], click.Group]:
    """A click group that does something when it stands alone, too."""

    def made(function: Callable[P, None]) -> click.Group:
        decorate = click.group(
            name,
            cls=kind,
            epilog=_example(example),
            context_settings=_SETTINGS,
            invoke_without_command=True,
        )
        return decorate(global_options(function))

    return made


def list_group(name: str, example: str, doc: str) -> click.Group:
    """A click group that, alone, does what its command `list` does."""

    @group(name, example)
    @click.pass_context
    def made(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            context.invoke(made.commands["list"])

    made.help = doc
    return made


def _example(line: str) -> str:
    return f"Example:  {line}"


R = TypeVar("R")


def pass_call(body: Callable[Concatenate[Call, P], R]) -> Callable[P, R]:
    """Give a command the call it belongs to, as its first argument."""
    return click.make_pass_decorator(Call, ensure=True)(body)
