"""An envelope is signed in its stored form, with its secrets redacted."""

from __future__ import annotations

import json

from coterie.engine.task_run import redacted
from coterie.model.envelope import Envelope, Error, signature_of
from coterie.model.journal import AppendEnvelope
from coterie.model.redaction import Redactor

KEY = b"k" * 32


def test_the_signature_is_over_what_is_kept() -> None:
    secret = "correct-horse-battery"
    failed = Error(code="worker_exit", message=f"the key {secret} is wrong")
    given = Envelope.of("k3f9", "2026-01-01T12:00:00Z", "wren", "mira", failed, "T1")
    write = redacted(AppendEnvelope(given, KEY), Redactor([secret]))
    assert isinstance(write, AppendEnvelope)
    assert write.key is None
    kept = write.envelope
    assert secret not in kept.model_dump_json()
    assert kept.is_signed_by(KEY)
    said = json.loads(kept.model_dump_json(exclude_none=True))
    assert said["signature"] == signature_of(said, KEY)
