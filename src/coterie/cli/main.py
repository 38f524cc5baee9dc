"""The command line: its verbs, the options that all of them take, and the state of one call.

Verbs are named in a table (`verbs.py`) and imported when they are used, so that `coterie --help`
costs nothing but this file. Results go to stdout, anything that accompanies them to stderr; with
`--json`, stdout holds nothing but objects, one per line, numbered through the whole run.
"""

from __future__ import annotations

import functools
import gc
import importlib
import io
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from coterie import __version__
from coterie.app import terminal
from coterie.cli.text import Paint, write, write_data
from coterie.cli.verbs import ALIASES, UNLISTED, VERBS, Verb
from coterie.model.visible import printable

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.app.projects import Notice, Project
    from coterie.errors import CoterieError

P = ParamSpec("P")
R = TypeVar("R")


def find(name: str) -> Verb | None:
    """Return the verb with that name or alias."""
    return {**VERBS, **UNLISTED}.get(ALIASES.get(name, name))


class Call:
    """The global options of this run, and its two streams."""

    def __init__(self) -> None:
        self.json = False
        self.debug = False
        self.directory: Path | None = None
        self.store: str | None = None
        self._seq = 0

    @functools.cached_property
    def attended(self) -> bool:
        """Whether a person at a terminal reads the output, so that questions may be asked."""
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    @functools.cached_property
    def live(self) -> bool:
        """Whether the terminal can redraw lines."""
        return self.attended and not self._is_dumb

    @functools.cached_property
    def colour(self) -> bool:
        """Whether stdout gets colour."""
        plain = self.json or self._is_dumb or terminal.wants_no_colour()
        return sys.stdout.isatty() and not plain

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

    @property
    def row_width(self) -> int:
        """How many columns a row of a table may have; unlimited unless stdout is a terminal."""
        return self.width if sys.stdout.isatty() else sys.maxsize

    @functools.cached_property
    def paint(self) -> Paint:
        """Colours text if colour is enabled."""
        return Paint(self.colour)

    def line(self, shown: str = "") -> None:
        """Print a line for a reader; nothing with `--json`."""
        if not self.json:
            write(sys.stdout, shown)

    def lines(self, shown: list[str]) -> None:
        """Print several lines for a reader."""
        if shown:
            self.line("\n".join(shown))

    def note(self, shown: str) -> None:
        """Print a line that accompanies the result, to stderr."""
        write(sys.stderr, shown)

    def record(self, kind: str, fields: Mapping[str, object], at: str | None = None) -> None:
        """Print one object; nothing without `--json`."""
        if not self.json:
            return
        import json

        from coterie.model import instant

        self._seq += 1
        line = {"type": kind, "at": at or instant.now(), "seq": self._seq, **fields}
        write_data(sys.stdout, json.dumps(line, default=str, separators=(",", ":")))

    def records(self, kind: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Print several objects, which are built only with `--json`."""
        for fields in rows if self.json else ():
            self.record(kind, fields)

    def failure(self, code: str, message: str, details: Mapping[str, str | None]) -> None:
        """Print a failure: an `error` object, or `! message` and what to do."""
        if self.json:
            shown = {"hint": None, "member": None, "where": None, **details}
            return self.record("error", {"code": code, "message": message, **shown})
        lines = [f"! {message}".replace("\n", "\n  ")]
        where, hint = details.get("where"), details.get("hint") or ""  # some messages say where
        if where and not _import_attribute("report:names_place")(message, where):
            lines.append(f"  in {where}")
        lines += [f"  {line}" for line in hint.splitlines()]
        return self.note(printable("\n".join(lines)))

    def problem(self, error: CoterieError) -> None:
        """Print a CoterieError; the command may continue."""
        details = {"hint": error.hint, "member": error.member, "where": error.where}
        self.failure(error.code, str(error), details)


def current_project(call: Call) -> Project:
    """Return the project around us or named by `-C`; ask the user if its folder is not ours."""
    from coterie.app.projects import NotOurs, find_project

    project = find_project(call.directory)
    try:
        _ = project.folder
    except NotOurs as why:
        _import_attribute("project:settle")(call, project, why)
    if call.store:
        _import_attribute("store:require")(project)
    return project


def ensure_project(
    call: Call, project: Project | None = None, *, announced: bool = True
) -> Project:
    """Return the project, by default the current one, with its `.coterie` created and announced if
    it is new."""
    from coterie.app.projects import open_folder

    project = project or current_project(call)
    done = open_folder(project)
    if done.is_new and announced:
        call.note(f"Created {project.folder} (git ignores it; nothing else was touched).")
    show_notices(call, [done.notice] if done.notice else [])
    return project


def show_notices(call: Call, notices: Iterable[Notice]) -> None:
    """Print notices about files, to stderr."""
    for notice in notices:
        hint = f"  {notice.hint}" if notice.hint else ""
        call.note(f"note: {notice.message}{hint}")


def run_in_project(call: Call, body: Callable[[App], Awaitable[R]]) -> R | None:
    """Run `body` on this project; if nothing was ever done here, say how to start instead."""
    from coterie.app.projects import has_history

    project = current_project(call)
    if not has_history(project):
        nothing = f"Nothing has been done in {project.root} yet."
        return call.lines([nothing, 'Start:  coterie "what the team should do"'])
    return run_with_app(project, body)


def run_on_task(
    call: Call, name: str, body: Callable[[App, str], Awaitable[R]], *, tickets: bool = False
) -> R:
    """Run `body` on the task that the user named, in its project: this one, else the only other
    with a task of exactly this id. With `tickets`, it may be a ticket, `k3f9/T2`."""
    return _import_attribute("named:run_on_task")(call, name, body, tickets=tickets)


def run_here(call: Call, body: Callable[[App], Awaitable[R]]) -> R:
    """Run `body` on the current project, opened."""
    return run_with_app(current_project(call), body)


def run_with_app(project: Project, body: Callable[[App], Awaitable[R]]) -> R:
    """Run `body` on an open project."""
    import anyio

    async def inside() -> R:
        from coterie.app.project import App

        async with App.open(project.root, project.home) as app:
            return await body(app)

    return anyio.run(inside)


def _set(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if parameter.name and value:
        setattr(context.ensure_object(Call), parameter.name, value)
    if parameter.name == "store" and value:
        _import_attribute("store:use")(value)


_option = functools.partial(click.option, expose_value=False, callback=_set)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_OPTIONS = (
    _option("--debug", is_flag=True, help="Show a stack trace."),
    _option("--json", is_flag=True, is_eager=True, help="Print one JSON object per line."),
    _option("-C", "directory", type=_FOLDER, metavar="DIR", help="The project's folder."),
    _option("--store", metavar="URL", help="The database that machines share (COTERIE_STORE)."),
)
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _with_options(function: Callable[P, None]) -> Callable[P, None]:
    """Give a command `--json`, `--debug`, `-C` and `--store`, anywhere on its line."""
    for option in _OPTIONS:
        function = option(function)
    return function


def command(
    name: str, example: str, parent: click.Group | None = None
) -> Callable[[Callable[Concatenate[Call, P], None]], click.Command]:
    """Create a click command with the global options and an example at the end of its help.

    Its function gets the call that the command belongs to as its first argument.
    """
    create = click.command if parent is None else parent.command
    decorate = create(name, epilog=f"Example:  {example}", context_settings=_SETTINGS)
    pass_call = click.make_pass_decorator(Call, ensure=True)
    return lambda function: decorate(_with_options(pass_call(function)))


def group(
    name: str, example: str, kind: type[click.Group] = click.Group
) -> Callable[[Callable[P, None]], click.Group]:
    """Create a click group that can also be called without a subcommand."""
    text = f"Example:  {example}"
    decorate = click.group(
        name, cls=kind, epilog=text, context_settings=_SETTINGS, invoke_without_command=True
    )
    return lambda function: decorate(_with_options(function))


def valued_flag(
    name: str, metavar: str, help_: str
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """An option whose value is optional; left out, it is empty."""
    return click.option(name, metavar=metavar, is_flag=False, flag_value="", help=help_)


def list_group(
    name: str, example: str, doc: str, list_example: str
) -> Callable[[Callable[[Call], None]], click.Group]:
    """Create a click group whose decorated function is `list`, the default subcommand."""

    @group(name, example)
    @click.pass_context
    def made(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            context.invoke(made.commands["list"])

    def with_list(body: Callable[[Call], None]) -> click.Group:
        command("list", list_example, made)(body)
        return made

    made.help = doc
    return with_list


def _import_attribute(target: str) -> Any:
    """Import `module:attribute` from `coterie.cli`, late: those modules import this one."""
    module, attribute = target.split(":")
    return getattr(importlib.import_module(f"coterie.cli.{module}"), attribute)


class Verbs(click.Group):
    """The verbs of the table, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = find(cmd_name)
        return None if verb is None else _import_attribute(verb.target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, *rest = args
        if find(word) is not None:
            return super().resolve_command(ctx, args)
        if len(word.split()) > 1:
            return "chat", self.get_command(ctx, "chat"), args
        raise _import_attribute("failure:UnknownCommand")(word, rest)

    def invoke(self, ctx: click.Context) -> object:
        from coterie.app.projects import drop_relative_folders

        drop_relative_folders()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _import_attribute("failure:OutputClosed") from None  # click would exit with 1

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(_import_attribute("overview:summary")() + "\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click's own completion would import every verb for its help.
        return [
            CompletionItem(name, help=verb.help)
            for name, verb in {**VERBS, **UNLISTED}.items()
            if name.startswith(incomplete)
        ]


@group("coterie", "coterie help", Verbs)
@click.version_option(__version__, message="coterie %(version)s")
@click.pass_context
def coterie(context: click.Context) -> None:
    """The coding agents you have, as one team."""
    if context.invoked_subcommand is None:
        _import_attribute("overview:overview")(context.ensure_object(Call))


def main() -> NoReturn:
    """Run the command line and exit."""
    # A command imports and builds little garbage; collecting took a tenth of its CPU time.
    gc.set_threshold(20_000)
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # reported already; the interpreter would retry and complain
            _import_attribute("failure:discard")(stream)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    _open_streams()
    call = Call()
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    call.json, call.debug = "--json" in before, "--debug" in before
    try:
        # In a context of its own: what an option sets must not outlive this command.
        start = functools.partial(coterie.main, prog_name="coterie", standalone_mode=False)
        code = copy_context().run(start, arguments, obj=call)
    except SystemExit:  # raised by click after printing a shell's completions
        raise
    except BaseException as error:  # noqa: BLE001  the one place where everything ends
        return _import_attribute("failure:show_failure")(error, call)
    return code if isinstance(code, int) else 0


def _open_streams() -> None:
    """Make sure that the standard streams exist, and that any text can be read and written."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        terminal.open_streams()
    # An agent may say what this terminal cannot encode, and typed bytes may not be valid text.
    ways = {sys.stdin: "surrogateescape", sys.stdout: "replace", sys.stderr: "replace"}
    for stream, errors in ways.items():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
