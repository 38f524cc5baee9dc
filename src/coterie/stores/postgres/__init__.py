"""The PostgreSQL back end: the same stores for several machines; needs `coterie[postgres]`."""

from coterie.stores.postgres.storage import PostgresStorage

__all__ = ["PostgresStorage"]
