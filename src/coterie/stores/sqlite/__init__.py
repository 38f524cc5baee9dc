"""The SQLite back end: one file, one writer thread, group commit."""

from coterie.stores.sqlite.database import SqliteStorage

__all__ = ["SqliteStorage"]
