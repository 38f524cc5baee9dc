"""Finding the one place in a text that an edit means; and saying why there is none."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice

from coterie.tools.ground import Refusal
from coterie.tools.text_file import TextFile

LOOKED_THROUGH = 5000
"""Among so many lines the nearest is looked for; more would take too long."""
LINE_SHOWN = 160
PLACES_SHOWN = 5


def replaced(file: TextFile, old: str, new: str, path: str) -> tuple[str, int]:
    """The text with the one piece replaced, and its line; Refusal where it is not just one."""
    new = file.with_its_lines(new)
    wanted = old if old in file.text else file.with_its_lines(old)
    places = list(islice(_places(file.text, wanted), PLACES_SHOWN + 1))
    if not places:
        raise Refusal(f"oldStr is not in {path}. {_nearest(file.text, old)}")
    if len(places) > 1:
        raise Refusal(_too_many(file.text, places, path))
    at = places[0]
    after = file.text[:at] + new + file.text[at + len(wanted) :]
    if after == file.text:
        raise Refusal("oldStr and newStr are the same: nothing would change.")
    return after, _line(file.text, at)


def _places(text: str, wanted: str) -> Iterator[int]:
    """Where it begins, also where one overlaps the next."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _too_many(text: str, places: list[int], path: str) -> str:
    more = len(places) > PLACES_SHOWN
    lines = ", ".join(str(_line(text, at)) for at in places[:PLACES_SHOWN])
    count = f"more than {PLACES_SHOWN}" if more else str(len(places))
    where = f"{lines}, …" if more else lines
    return (
        f"oldStr is in {path} {count} times (lines {where}). Take in more of the text around "
        "the one that you mean, so that it is there once."
    )


def _nearest(text: str, old: str) -> str:
    """Where the text is almost what was looked for."""
    lines = text.splitlines()
    wanted = [line.strip() for line in old.strip().splitlines()]
    if not wanted or not wanted[0]:
        return "Read the file, and give the text exactly as it is there."
    plain = [line.strip() for line in lines]
    for at in range(len(plain) - len(wanted) + 1):
        if plain[at : at + len(wanted)] == wanted:
            return f"At line {at + 1} it differs in white space only: give it as it is there."
    head = [line[:LINE_SHOWN] for line in plain[:LOOKED_THROUGH]]
    near = difflib.get_close_matches(wanted[0][:LINE_SHOWN], head, 1)
    if not near:
        return "Nothing like its first line is there. Read the file again."
    number = head.index(near[0])
    return f"The nearest to its first line is line {number + 1}: {lines[number][:LINE_SHOWN]}"
