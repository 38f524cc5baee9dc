"""A pipeline's artifacts as files."""

from __future__ import annotations

from pathlib import Path

from coterie.workspace.artifact_folder import ArtifactFolder


def test_a_log_is_moved_next_to_its_report(tmp_path: Path) -> None:
    (tmp_path / ".coterie").mkdir()
    folder = ArtifactFolder(tmp_path, "k3f9")
    folder.path.mkdir(parents=True)
    (folder.path / "check-1.log").write_text("passed\n")
    assert folder.keep_log("check-1.log", "test") == "eval-test.log"
    assert [path.name for path in folder.path.iterdir()] == ["eval-test.log"]
    # As if an interrupted run had already moved it.
    assert folder.keep_log("check-1.log", "test") == "eval-test.log"
    assert (folder.path / "eval-test.log").read_text() == "passed\n"


def test_without_a_log_the_report_names_none(tmp_path: Path) -> None:
    (tmp_path / ".coterie").mkdir()
    folder = ArtifactFolder(tmp_path, "k3f9")
    assert folder.keep_log("", "test") == ""
    assert not folder.path.exists()
