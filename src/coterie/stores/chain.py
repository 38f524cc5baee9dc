"""Verification of the hash chains over events and audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.stores.codec import Head, Row, chained
from coterie.stores.statements import Reading


def broken_chains() -> Reading[list[str]]:
    """Describe what is wrong with the chains; empty if they are intact."""
    problems: list[str] = []
    for table in ("events", "audit"):
        (rows,) = yield [(f"all_{table}",)]
        problems.extend(_broken(table, rows))
    return problems


def _broken(table: str, rows: Sequence[Row]) -> Iterator[str]:
    previous = b""
    for place, row in enumerate(rows, start=1):
        *fields, digest = row
        if fields[0] != place:
            yield f"{table}: row {place} is missing"
            return
        if chained(previous, fields) != digest:
            yield f"{table}: row {place} differs from what was written"
            return
        previous = digest


def cut_off(known: Head | None) -> Reading[list[str]]:
    """Describe a truncated audit chain: intact in itself, it falls short of the known head."""
    if known is None or known.audit == 0:
        return []
    (rows,) = yield [("all_audit",)]
    if len(rows) < known.audit:
        return [f"audit: {known.audit} rows were written, but only {len(rows)} found"]
    if rows[known.audit - 1][-1].hex() != known.audit_hash:
        return [f"audit: row {known.audit} differs from what was written"]
    return []
