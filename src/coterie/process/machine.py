"""Which machine, boot and pid namespace this process lives in: who can see whose children."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """Where a pid means something; two that differ cannot see each other's processes.

    A container on the same host has the same boot id and may have the same host name, so the
    pid namespace decides.  Where there is no /proc (macOS) both are None.
    """

    host: str
    boot_id: str | None
    pid_namespace: str | None

    @classmethod
    def here(cls) -> Machine:
        """The one that this process lives in.  Reads files: not for the event loop."""
        return cls(os.uname().nodename, _boot_id(), _pid_namespace())


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return None
