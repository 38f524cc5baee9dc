"""The command line: its verbs, the options that all of them take, and where a run of it is.

Verbs are named in a table (`verbs.py`) and imported when they are used, so that `coterie --help`
costs nothing but this file.  What was asked for goes to stdout, what goes along with it to stderr;
with `--json` stdout holds nothing but objects, one a line, numbered through the whole run.
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
    """The verb of that name or alias."""
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
        """Whether a person sits at a terminal and reads prose: questions may be put to them."""
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    @functools.cached_property
    def live(self) -> bool:
        """Whether the terminal can redraw lines."""
        return self.attended and not self._is_dumb

    @functools.cached_property
    def colour(self) -> bool:
        """Whether stdout takes colour."""
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
        """How many columns a row of a table may have; nothing is cut off for a program or file."""
        return self.width if sys.stdout.isatty() else sys.maxsize

    @functools.cached_property
    def paint(self) -> Paint:
        """Puts colour on text where there is colour."""
        return Paint(self.colour)

    def line(self, shown: str = "") -> None:
        """A line for a reader; nothing with `--json`."""
        if not self.json:
            write(sys.stdout, shown)

    def lines(self, shown: list[str]) -> None:
        """Several lines for a reader."""
        if shown:
            self.line("\n".join(shown))

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
        write_data(sys.stdout, json.dumps(line, default=str, separators=(",", ":")))

    def records(self, kind: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Several objects, which are only made with `--json`."""
        for fields in rows if self.json else ():
            self.record(kind, fields)

    def failure(self, code: str, message: str, details: Mapping[str, str | None]) -> None:
        """What went wrong: an `error` object, or `! message` and what to do."""
        if self.json:
            shown = {"hint": None, "member": None, "where": None, **details}
            return self.record("error", {"code": code, "message": message, **shown})
        lines = [f"! {message}".replace("\n", "\n  ")]
        where, hint = details.get("where"), details.get("hint") or ""  # some messages say where
        if where and where.rsplit("/", 1)[-1].partition(":")[0] not in message:
            lines.append(f"  in {where}")
        lines += [f"  {line}" for line in hint.splitlines()]
        return self.note(printable("\n".join(lines)))

    def problem(self, error: CoterieError) -> None:
        """An error of ours, shown; the command may go on."""
        details = {"hint": error.hint, "member": error.member, "where": error.where}
        self.failure(error.code, str(error), details)


def here(call: Call) -> Project:
    """The project around us or that `-C` names; a person is asked about one that is not ours."""
    from coterie.app.projects import NotOurs, find_project

    project = find_project(call.directory)
    try:
        _ = project.folder
    except NotOurs as why:
        _loaded("project:settle")(call, project, why)
    if call.store:
        _loaded("store:require")(project)
    return project


def made(call: Call, project: Project, *, announced: bool = True) -> Project:
    """The project with its `.coterie`, which is announced when it is new."""
    from coterie.app.projects import open_folder

    done = open_folder(project)
    if done.is_new and announced:
        call.note(f"Made {project.folder} (git ignores it; nothing else was touched).")
    show_notices(call, [done.notice] if done.notice else [])
    return project


def show_notices(call: Call, notices: Iterable[Notice]) -> None:
    """What is worth knowing about a file, on stderr."""
    for notice in notices:
        hint = f"  {notice.hint}" if notice.hint else ""
        call.note(f"note: {notice.message}{hint}")


def look(call: Call, body: Callable[[App], Awaitable[R]]) -> R | None:
    """Run `body` on this project; says so kindly where nothing was ever done here."""
    from coterie.app.projects import has_history

    project = here(call)
    if not has_history(project):
        nothing = f"Nothing has been done in {project.root} yet."
        return call.lines([nothing, 'Start:  coterie "what the team should do"'])
    return opened(project, body)


def named(
    call: Call, name: str, body: Callable[[App, str], Awaitable[R]], *, tickets: bool = False
) -> R:
    """Run `body` on the id of the task that a person named, and on its project: this one, else the
    one other that has a task of exactly this id.  `tickets`: it may be a ticket, `k3f9/T2`."""
    return _loaded("named:run_on_task")(call, name, body, tickets=tickets)


def opened(project: Project, body: Callable[[App], Awaitable[R]]) -> R:
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
        _loaded("store:use")(value)


_option = functools.partial(click.option, expose_value=False, callback=_set)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_OPTIONS = (
    _option("--debug", is_flag=True, help="Show stack traces."),
    _option("--json", is_flag=True, is_eager=True, help="One JSON object a line."),
    _option("-C", "directory", type=_FOLDER, metavar="DIR", help="The project's folder."),
    _option("--store", metavar="URL", help="The database that machines share (COTERIE_STORE)."),
)
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _with_options(function: Callable[P, None]) -> Callable[P, None]:
    """Give a command `--json`, `--debug`, `-C` and `--store`, wherever on the line they stand."""
    for option in _OPTIONS:
        function = option(function)
    return function


def command(
    name: str, example: str, parent: click.Group | None = None
) -> Callable[[Callable[P, None]], click.Command]:
    """A click command with the options of all and an example at the end of its help."""
    create = click.command if parent is None else parent.command
    decorate = create(name, epilog=f"Example:  {example}", context_settings=_SETTINGS)
    return lambda function: decorate(_with_options(function))


def group(
    name: str, example: str, kind: type[click.Group] = click.Group
) -> Callable[[Callable[P, None]], click.Group]:
    """A click group that does something when it stands alone, too."""
    text = f"Example:  {example}"
    decorate = click.group(
        name, cls=kind, epilog=text, context_settings=_SETTINGS, invoke_without_command=True
    )
    return lambda function: decorate(_with_options(function))


def list_group(name: str, example: str, doc: str) -> click.Group:
    """A click group that, alone, does what its command `list` does."""

    @group(name, example)
    @click.pass_context
    def made(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            context.invoke(made.commands["list"])

    made.help = doc
    return made


def pass_call(body: Callable[Concatenate[Call, P], R]) -> Callable[P, R]:
    """Give a command the call it belongs to, as its first argument."""
    return click.make_pass_decorator(Call, ensure=True)(body)


def _loaded(target: str) -> Any:
    """What `module:attribute` names below `coterie.cli`; those modules import this one."""
    module, attribute = target.split(":")
    return getattr(importlib.import_module(f"coterie.cli.{module}"), attribute)


class Verbs(click.Group):
    """The verbs of the table, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = find(cmd_name)
        return None if verb is None else _loaded(verb.target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, *rest = args
        if find(word) is not None:
            return super().resolve_command(ctx, args)
        if len(word.split()) > 1:
            return "chat", self.get_command(ctx, "chat"), args
        raise _loaded("failure:NoVerb")(word, rest)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _loaded("failure:ReaderLeft") from None  # click would exit with 1

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(_loaded("overview:summary")() + "\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Not click's own, which imports every verb to ask it for its help.
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
        _loaded("overview:overview")(context.ensure_object(Call))


def main() -> NoReturn:
    """Run the command line and exit."""
    # What a command imports and builds is no garbage; looking for some took a tenth of its CPU.
    gc.set_threshold(20_000)
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # reported already; the interpreter would try again, and complain
            _loaded("failure:discard")(stream)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code."""
    _open_streams()
    call = Call()
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    call.json, call.debug = "--json" in before, "--debug" in before
    try:
        # What an option names holds for this command, whatever else this process runs.
        start = functools.partial(coterie.main, prog_name="coterie", standalone_mode=False)
        code = copy_context().run(start, arguments, obj=call)
    except SystemExit:  # click's own, after a shell was given its completions
        raise
    except BaseException as error:  # noqa: BLE001  the one place where everything ends
        return _loaded("failure:show_failure")(error, call)
    return code if isinstance(code, int) else 0


def _open_streams() -> None:
    """Make sure that there is something to read and write, and that any text can be."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        terminal.open_streams()
    # An agent may say what this terminal cannot show, and a byte that is typed may be no text.
    ways = {sys.stdin: "surrogateescape", sys.stdout: "replace", sys.stderr: "replace"}
    for stream, errors in ways.items():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
