"""Which files of a session's folder are sent to other machines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import anyio

from coterie.model.machine import SentRef
from coterie.model.remote import GitRemote
from coterie.workflows.shared_branches import SharedFiles


class MemorySharing:
    """`ports.Sharing` in memory."""

    machine, token, for_others = "here", 1, False

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.paths: dict[str, str] = {}

    async def remote(self) -> GitRemote | None:
        raise NotImplementedError

    async def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.data[digest] = data
        return digest

    async def get(self, digest: str) -> bytes | None:
        return self.data.get(digest)

    async def set_ref(self, ref: SentRef) -> None:
        raise NotImplementedError

    async def refs(self) -> list[SentRef]:
        raise NotImplementedError

    async def set_file(self, path: str, digest: str) -> None:
        self.paths[path] = digest

    async def files(self) -> Mapping[str, str]:
        return self.paths


async def test_neither_the_key_nor_what_checks_and_drafts_leave_is_sent(tmp_path: Path) -> None:
    files = {
        "state.json": "{}",
        "artifacts/1-npm-test.log": "ok",
        "artifacts/checks/report.md": "an artifact of that name",
        "artifacts/.hidden": "seen by nobody, and an artifact",
        "artifacts/.1-npm-test.log.1f2e3d4c.new": "half of i",
        "checks/home/.npm/cache": "of this machine",
        "checks/tmp-1/socket": "of a check that runs",
        "key": "secret",
    }
    session = tmp_path / "here" / ".coterie" / "sessions" / "k3f9"
    for name, text in files.items():
        path = anyio.Path(session / name)
        await path.parent.mkdir(parents=True, exist_ok=True)
        await path.write_text(text)
    kept = MemorySharing()
    await SharedFiles(kept, tmp_path / "here", "k3f9").send()
    sent = {path: kept.data[digest].decode() for path, digest in kept.paths.items()}
    assert sent == {name: files[name] for name in list(files)[:4]}
