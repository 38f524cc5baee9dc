"""`SqliteNotifications`: what the user is to be told elsewhere, and by whom it was."""

from __future__ import annotations

from coterie.model.notification import Outcome, PendingNotification
from coterie.stores.sqlite.codec import PENDING_NOTIFICATION, select
from coterie.stores.sqlite.writer import SqliteStore


class SqliteNotifications(SqliteStore):
    """Queued by `AppendEvent.incident`; each is claimed once."""

    async def unsent(self) -> list[PendingNotification]:
        return await self._all(PENDING_NOTIFICATION.value, "notifications_due")

    async def claim(self, incident: str) -> bool:
        found = await self._writer.submit(lambda c: select(c, "claim_notification", incident))
        return bool(found)

    async def settle(self, incident: str, outcome: Outcome, problem: str = "") -> None:
        await self._writer.submit(
            lambda c: select(c, "settle_notification", outcome, problem, incident)
        )

    async def failed(self) -> list[PendingNotification]:
        return await self._all(PENDING_NOTIFICATION.value, "notifications_failed")
