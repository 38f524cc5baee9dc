"""`coterie completion`: the script that gives a shell Tab completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from coterie.cli.call import Call, command, pass_call

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
