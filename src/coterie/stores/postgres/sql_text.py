"""Conversion between our values and the text of PostgreSQL's simple protocol.

Our texts may contain NUL, PostgreSQL's cannot: it is stored as U+E000 and a `0`, and U+E000 itself
as U+E000 and an `e`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from psycopg.pq import abc as pq

from coterie.stores.codec import Row, Value, repair_surrogates
from coterie.stores.statements import load

SQL = load(Path(__file__).parent)
ANSWERING = frozenset(
    name
    for name, text in SQL.items()
    if "RETURNING" in text and text.startswith(("INSERT", "UPDATE", "DELETE"))
)
"""Writes that return a number or nothing, which is recorded with the commit."""


_PARTS = {
    name: (SQL["answer"].replace(":write", text) if name in ANSWERING else text).split("?")
    for name, text in SQL.items()
}
_MARK = "\ue000"


class HashedText(str):
    """A text that the server hashes but does not store: it is sent as it is."""

    __slots__ = ()


def statement(name: str, *given: Value) -> str:
    """Return a named statement with its values filled in."""
    return filled(_PARTS[name], given)


def filled(parts: Sequence[str], given: Sequence[Value]) -> str:
    """Join the parts of a statement, with values between them."""
    text = [parts[0]]
    for value, part in zip(given, parts[1:], strict=True):
        text.append(_literal(value))
        text.append(part)
    return "".join(text)


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        # `standard_conforming_strings` is on: only the quote is special.
        return "'" + _escape_nul(value).replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    return str(int(value))


def _escape_nul(text: str) -> str:
    if isinstance(text, HashedText):
        return text
    if _MARK in text or "\0" in text:
        text = text.replace(_MARK, _MARK + "e").replace("\0", _MARK + "0")
    return text


def encoded(message: str) -> bytes:
    """Encode for the wire; halves of surrogate pairs are repaired rather than refused."""
    try:
        return message.encode()
    except UnicodeEncodeError:
        return repair_surrogates(message).encode()


def unescape_nul(text: str) -> str:
    """Return a stored text as it was before it was stored."""
    if _MARK in text:
        text = text.replace(_MARK + "0", "\0").replace(_MARK + "e", _MARK)
    return text


def _text(value: bytes) -> str:
    return unescape_nul(value.decode())


_KINDS: dict[int, Callable[[bytes], object]] = {
    16: lambda value: value == b"t",
    17: lambda value: bytes.fromhex(value[2:].decode()),
    20: int,
    23: int,
    701: float,
}
"""How values are read, by their type's OID in `pg_type`; all others are text."""


def rows_of(result: pq.PGresult) -> list[Row]:
    """Return all rows of a result."""
    columns = range(result.nfields)
    readers = [_KINDS.get(result.ftype(column), _text) for column in columns]
    value = result.get_value
    return [
        tuple(_read(value(row, column), readers[column]) for column in columns)
        for row in range(result.ntuples)
    ]


def _read(value: bytes | None, reader: Callable[[bytes], object]) -> object:
    return None if value is None else reader(value)
