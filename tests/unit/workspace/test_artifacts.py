"""Checking artifacts against their files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from coterie.errors import ArtifactWrong
from coterie.model.envelope import ArtifactRef
from coterie.workspace.session_files import artifacts_folder, check_artifact

DATA = b"all well\n"
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = artifacts_folder(tmp_path, "k3f9")
    folder.mkdir(parents=True)
    (folder / "1-test.log").write_bytes(DATA)
    (tmp_path / "else where.txt").write_bytes(DATA)
    return tmp_path


def ref(uri: str, **more: object) -> ArtifactRef:
    given = {"label": "log", "uri": uri, "digest": DIGEST, "size_bytes": len(DATA), **more}
    return ArtifactRef.model_validate(given)


def test_what_is_what_it_says(root: Path) -> None:
    check_artifact(root, "k3f9", ref("1-test.log"))
    check_artifact(root, "k3f9", ref("./1-test.log", digest=None, size_bytes=None))
    check_artifact(root, "k3f9", ref(f"file://{root}/else%20where.txt"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (ref("2-test.log"), "cannot be read: No such file or directory"),
        (ref("1-test.log", size_bytes=8), "has 9 bytes instead of the stated 8"),
        (ref("1-test.log", digest=f"sha256:{'0' * 64}"), f"has the digest {DIGEST}"),
        (ref("../key"), "is not below the session's artifacts"),
        (ref("/etc/passwd"), "is not below the session's artifacts"),
        (ref("."), "is not below the session's artifacts"),
        (ref("https://example.com/log"), "is not below the session's artifacts"),
        (ref("file://example.com/log"), "is not a file on this machine"),
        (ref("link"), "is not below the session's artifacts"),
        (ref("pipe"), "cannot be read: Not a regular file"),
    ],
)
def test_what_is_not(root: Path, given: ArtifactRef, problem: str) -> None:
    folder = artifacts_folder(root, "k3f9")
    (folder / "link").symlink_to("../../../../else where.txt")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ArtifactWrong) as raised:
        check_artifact(root, "k3f9", given)
    assert str(raised.value) == f"The artifact {given.uri} {problem}."
