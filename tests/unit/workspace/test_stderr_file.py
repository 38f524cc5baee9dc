"""Storing what members' processes write to stderr."""

from __future__ import annotations

from pathlib import Path

from coterie.model.redaction import Redactor
from coterie.workspace.stderr_file import StderrFile, read_stderr, stderr_path

SECRET = "correct-horse-battery"


def store(folder: Path, *chunks: bytes) -> str:
    file = StderrFile(folder, "k3f9", Redactor([SECRET]))
    for chunk in chunks:
        file.add(chunk)
    return read_stderr(folder, "k3f9")


def lines(text: str) -> list[str]:
    return [line.partition(" ")[2] for line in text.splitlines()]


def test_lines_are_kept_as_they_come_and_without_secrets(tmp_path: Path) -> None:
    halves = SECRET[:7].encode(), SECRET[7:].encode()
    text = store(
        tmp_path, b"one\r\ntw", b"o\n\nkey ", halves[0], halves[1] + b" bad\n", b"end", b""
    )
    assert lines(text) == ["one", "two", "key [redacted 21] bad", "end"]
    assert stderr_path(tmp_path, "k3f9").stat().st_mode & 0o777 == 0o600
    assert lines(store(tmp_path, b"\xff again\n"))[-1] == "\ufffd again"


def test_a_key_that_comes_line_by_line_is_known(tmp_path: Path) -> None:
    body = ["MIIEpAIBAAKCAQEA7bq" + str(number) * 40 for number in range(4)]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *body, "Qx==", "-----END RSA PRIVATE KEY-----"]
    text = store(tmp_path, b"before\n", *(f"{line}\n".encode() for line in key), b"after\n")
    assert lines(text)[0] == "before"
    assert lines(text)[-2:] == ["-----END RSA PRIVATE KEY-----", "after"]
    assert not any(line in text for line in (*body, "Qx=="))
    assert "MIIE" not in store(tmp_path, f"{key[0]}\n{body[0]}\n".encode(), b"")


def test_it_never_grows_beyond_a_bound(tmp_path: Path) -> None:
    text = store(tmp_path, *(b"x" * 3_000 + b"\n" for _ in range(500)), b"the last\n")
    assert stderr_path(tmp_path, "k3f9").stat().st_size <= 1 << 20
    assert "earlier output was dropped" in text
    assert lines(text)[-1] == "the last"
    assert len(lines(store(tmp_path, b"y" * 100_000))[-1]) <= 4_000


def test_nothing_is_followed_and_nothing_is_needed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine\n")
    stderr_path(tmp_path, "k3f9").symlink_to(elsewhere)
    assert store(tmp_path, b"no\n") == ""
    assert elsewhere.read_text() == "mine\n"
    assert store(tmp_path / "gone", b"no\n") == ""
