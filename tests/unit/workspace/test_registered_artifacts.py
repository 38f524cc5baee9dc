"""Files that a worker registers as artifacts must be its own and match its description."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from coterie.errors import ArtifactWrong
from coterie.model.envelope import ArtifactRef
from coterie.workspace.session_files import register_artifact
from tests.conftest import init_project

DATA = b"day,sold\n"
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"

LONG = "ü" * 120 + ".csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A worker's folder inside a project."""
    init_project(tmp_path)
    folder = tmp_path / "work"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "sales.csv").write_bytes(DATA)
    (folder / "noise").write_bytes(b"\xff\0")
    (folder / "notes").write_text("text")
    (folder / LONG).write_text("text")
    (tmp_path / "key").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "key")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    return folder


def register(folder: Path, uri: str, **more: object) -> ArtifactRef:
    ref = ArtifactRef.model_validate({"label": "it", "uri": uri, **more})
    return register_artifact(folder.parent, "k3f9", "T1", folder, ref)


@pytest.mark.parametrize(
    ("uri", "more", "content_type"),
    [
        ("out/sales.csv", {}, "text/csv"),
        ("out/sales.csv", {"content_type": "text/x-sales"}, "text/x-sales"),
        ("out/sales.csv", {"digest": DIGEST, "size_bytes": len(DATA)}, "text/csv"),
        ("noise", {}, "application/octet-stream"),
        ("notes", {}, "text/plain"),
        (LONG, {}, "text/csv"),
    ],
)
def test_it_is_copied_with_what_is_known_of_it(
    folder: Path, uri: str, more: dict[str, object], content_type: str
) -> None:
    made = register(folder, uri, description="why", **more)
    data = (folder / uri).read_bytes()
    assert made.content_type == content_type
    assert (made.label, made.description, made.size_bytes) == ("it", "why", len(data))
    assert made.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    kept = folder.parent / ".coterie" / "sessions" / "k3f9" / "artifacts" / made.uri
    assert kept.read_bytes() == data


def test_by_its_whole_address(folder: Path) -> None:
    assert register(folder, (folder / "notes").as_uri()).size_bytes == 4


@pytest.mark.parametrize("uri", ["http://[", "a\0b", "a\0/b", "file:///%00", "loop", "loop/a"])
def test_what_is_no_address_is_refused(folder: Path, uri: str) -> None:
    with pytest.raises(ArtifactWrong):
        register(folder, uri)
