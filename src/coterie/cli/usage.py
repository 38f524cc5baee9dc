"""Ways to use the command line that are no error of any layer below."""

from __future__ import annotations

import click

from coterie.cli import verbs


class NoVerb(click.UsageError):
    """One word that is no verb: never taken for a prompt."""

    def __init__(self, word: str, rest: list[str]) -> None:
        near = verbs.nearest(word)
        meant = f" Did you mean {near}?" if near else ""
        super().__init__(f'No verb "{word}".{meant}' if word else "There is no verb.")
        words = " ".join([word, *(one for one in rest if not one.startswith("-"))])
        if not word:
            self.hint = "coterie help"
        elif near and not rest:
            self.hint = f"coterie {near}"
        elif " " in words:
            self.hint = f'To say it to your team, quote it:  coterie "{words}"'
        else:
            self.hint: str = f'To say it to your team:  coterie chat "{words}"'


class ReaderLeft(Exception):
    """Whoever read our output has seen enough."""
