"""Long lists: the newest of them, and how to see the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from coterie.cli.main import Call
from coterie.errors import UsageError

T = TypeVar("T")

FEW = 20
"""So many rows are shown to a reader who did not say how many."""


@dataclass(frozen=True)
class Newest:
    """How much of a list is wanted."""

    limit: int | None = None
    whole: bool = False

    def of(self, call: Call, found: Sequence[T]) -> Sequence[T]:
        """The newest, which stand last; a program gets all of them unless it says how many."""
        if self.limit is None and (self.whole or call.json):
            return found
        return found[-(self.limit or FEW) :]

    def tell(self, call: Call, older: int) -> None:
        """Say how many are not shown, and how they can be."""
        if older > 0:
            call.line(f"{older:,} older: the same with --all, or --limit {FEW * 5}")


def newest_of(body: Callable[..., None]) -> Callable[..., None]:
    """Give a command that shows a list `--limit` and `--all`, as its argument `newest`."""

    @click.option("--limit", type=click.IntRange(1), metavar="N", help=f"The newest N ({FEW}).")
    @click.option("--all", "whole", is_flag=True, help="All of them.")
    @wraps(body)
    def limited(*given: Any, limit: int | None, whole: bool, **more: Any) -> None:
        if limit is not None and whole:
            raise UsageError("--limit and --all at once.", "Give one of them.")
        body(*given, newest=Newest(limit, whole), **more)

    return limited
