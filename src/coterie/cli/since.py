"""`--since`: a span such as `7d` or `2h`, a date, or an instant."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

from coterie.cli import figures
from coterie.errors import InvalidTime
from coterie.model import instant

_DAYS = re.compile(r"(\d{1,5})d", re.I)


class Since(click.ParamType[str]):
    """The instant from which on something counts."""

    name = "since"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            return since(str(value))
        except InvalidTime as error:
            self.fail(str(error), param, ctx)


def since(text: str) -> str:
    """The instant that is meant; a date is the beginning of that day, here."""
    days = _DAYS.fullmatch(text.strip())
    span = int(days[1]) * 86_400.0 if days else figures.seconds(text)
    if span is not None:
        return instant.of(datetime.fromisoformat(instant.now()) - timedelta(seconds=span))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidTime(f"{text!r} is no time; write it like 7d, 2h or 2026-01-31.") from None
    return instant.of(moment.astimezone())  # one without an offset is the time here


def day(at: str) -> str:
    """The day of an instant, as budgets count days: in UTC."""
    return at[:10]
