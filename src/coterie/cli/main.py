"""The entry point: finds the verb, runs it, and turns what happened into an exit code."""

from __future__ import annotations

import importlib
import io
import os
import sys
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, get_completion_class

from coterie import __version__
from coterie.cli import verbs
from coterie.cli.call import Call, command, global_options, pass_call, write
from coterie.cli.verbs import NoVerb, ReaderLeft


class Verbs(click.Group):
    """The verbs of the table, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(verbs.VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = verbs.find(cmd_name)
        if verb is None:
            return None
        module, attribute = verb.target.split(":")
        return getattr(importlib.import_module(f"coterie.cli.{module}"), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, *rest = args
        if verbs.find(word) is not None:
            return super().resolve_command(ctx, args)
        if len(word.split()) > 1:
            return "chat", self.get_command(ctx, "chat"), args
        raise NoVerb(word, rest)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderLeft from None  # click would exit with 1

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(verbs.summary() + "\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Not click's own, which imports every verb to ask it for its help.
        return [
            CompletionItem(name, help=verb.help)
            for name, verb in {**verbs.VERBS, **verbs.UNLISTED}.items()
            if name.startswith(incomplete)
        ]


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        write(sys.stdout, f"coterie {__version__}")
        context.exit()


@click.group(
    cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version)
@global_options
@click.pass_context
def coterie(context: click.Context) -> None:
    """The coding agents you have, as one team."""
    if context.invoked_subcommand is None:
        from coterie.cli.overview import overview

        overview(context.ensure_object(Call))


_WHERE = {
    "bash": 'eval "$(coterie completion bash)"          in ~/.bashrc',
    "zsh": 'eval "$(coterie completion zsh)"           in ~/.zshrc',
    "fish": "coterie completion fish | source           in ~/.config/fish/config.fish",
}


@command("completion", 'eval "$(coterie completion bash)"')
@click.argument("shell", type=click.Choice(list(_WHERE)), required=False)
@pass_call
def completion(call: Call, shell: str | None) -> None:
    """Print the completion script of a shell; alone: where to put it."""
    if shell is None:
        for name, where in _WHERE.items():
            call.record("completion", {"shell": name, "line": where.partition("  ")[0]})
            call.line(f"  {where}")
        return
    found = get_completion_class(shell)
    if found is None:  # pragma: no cover  click has all three
        raise click.UsageError(f"No completion for {shell}.")
    whole = click.get_current_context().find_root().command
    script = found(whole, {}, "coterie", "_COTERIE_COMPLETE").source()
    call.record("completion", {"shell": shell, "script": script})
    call.line(script)


def main() -> NoReturn:
    """Run the command line and exit."""
    code = run(sys.argv[1:])
    _let_go_of_streams()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code."""
    _open_streams()
    call = Call()
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    call.json, call.debug = "--json" in before, "--debug" in before
    try:
        code = coterie.main(arguments, prog_name="coterie", standalone_mode=False, obj=call)
    except SystemExit:  # click's own, after a shell was given its completions
        raise
    except BaseException as error:  # noqa: BLE001  the one place where everything ends
        from coterie.cli.failure import show_failure

        return show_failure(error, call)
    return code if isinstance(code, int) else 0


def _let_go_of_streams() -> None:
    """What could not be written was told of; Python would try again at its end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)


def _open_streams() -> None:
    """Make sure that there is something to write to, and that any text can be written."""
    # They are None where the shell closed them.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An agent may say what this terminal cannot show; that must not end a command.
            stream.reconfigure(errors="replace")
