"""Figures as people read them: how long, how many tokens, when."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

from coterie.errors import InvalidTime
from coterie.model import instant
from coterie.model.update import Usage


def duration(seconds: float) -> str:
    """`0.1s`, `41s`, `1m 22s`, `2h 03m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {left:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def clocked(seconds: float) -> str:
    """The same in whole seconds, for what is looked at once a second."""
    return f"{int(seconds)}s" if seconds < 60 else duration(int(seconds))


def since(earlier: str) -> str:
    """How long ago an instant was; empty for one that is not known."""
    return duration(instant.seconds_between(earlier, instant.now())) if earlier else ""


def clock(at: str) -> str:
    """An instant as the time of day here, with the date where it was not today."""
    moment = datetime.fromisoformat(at).astimezone()
    today = datetime.fromisoformat(instant.now()).astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def tokens(count: int) -> str:
    """`940`, `8.2k`, `402k`, `1.3M`."""
    if count < 1000:
        return str(count)
    if count < 999_500:
        thousands = count / 1000
        return f"{thousands:.1f}k" if thousands < 99.95 else f"{thousands:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def used(usage: Usage | None) -> str:
    """What a turn or a task cost, as far as the agents told; empty where they did not."""
    if usage is None:
        return ""
    count = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    parts = [f"{tokens(count)} tokens"] if count else []
    if usage.cost_usd:
        parts.append(f"${usage.cost_usd:.2f}")
    return " · ".join(parts)


def counted(number: int, noun: str) -> str:
    """`1 turn`, `5 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_SPAN = re.compile(r"(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+)s?)?")


def seconds(text: str) -> float | None:
    """The seconds of `30m`, `1h30m`, `45s` or `90`; None for what is no time span."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None or not any(match.groups()):
        return None
    hours, minutes, left = (int(group or 0) for group in match.groups())
    return float(hours * 3600 + minutes * 60 + left)


_DAYS = re.compile(r"(\d{1,5})d", re.I)


class Since(click.ParamType[str]):
    """The instant from which on something counts."""

    name = "since"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            return _from(str(value))
        except InvalidTime as error:
            self.fail(str(error), param, ctx)


def _from(text: str) -> str:
    """The instant that is meant; a date is the beginning of that day, here."""
    days = _DAYS.fullmatch(text.strip())
    span = int(days[1]) * 86_400.0 if days else seconds(text)
    if span is not None:
        return instant.of(datetime.fromisoformat(instant.now()) - timedelta(seconds=span))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidTime(f"{text!r} is no time; write it like 7d, 2h or 2026-01-31.") from None
    return instant.of(moment.astimezone())  # one without an offset is the time here


since_option = click.option(
    "--since", type=Since(), metavar="7d", help="Only from then on: 7d, 2h, 2026-01-31."
)
