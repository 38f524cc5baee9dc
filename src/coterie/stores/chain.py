"""The chains of hashes over events and audit: whether they are whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.stores.codec import Head, Row, chained
from coterie.stores.statements import Reading


def broken_chains() -> Reading[list[str]]:
    """What is wrong with the chains, in words; nothing where all is well."""
    found: list[str] = []
    for table in ("events", "audit"):
        (rows,) = yield [(f"all_{table}",)]
        found.extend(_broken(table, rows))
    return found


def _broken(table: str, rows: Sequence[Row]) -> Iterator[str]:
    previous = b""
    for place, row in enumerate(rows, start=1):
        *fields, found = row
        if fields[0] != place:
            yield f"{table}: row {place} is missing"
            return
        if chained(previous, fields) != found:
            yield f"{table}: row {place} is not the one that was written"
            return
        previous = found


def cut_off(known: Head | None) -> Reading[list[str]]:
    """A chain that lost its end is whole in itself."""
    if known is None or known.audit == 0:
        return []
    (rows,) = yield [("all_audit",)]
    if len(rows) < known.audit:
        return [f"audit: {known.audit} rows were written, {len(rows)} are there"]
    if rows[known.audit - 1][-1].hex() != known.audit_hash:
        return [f"audit: row {known.audit} is not the one that was written"]
    return []
