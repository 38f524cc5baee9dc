"""Envelopes written before their payloads gained a field are still understood."""

from __future__ import annotations

import pytest

from coterie.model.check import check_results, check_scores
from coterie.model.envelope import ArtifactRef, CheckRun, Envelope, Instruction, Payload
from coterie.model.ticket import CheckScore

AT = "2026-01-01T12:00:00.000Z"
LOG = ArtifactRef(label="check: make test", uri="a.log", description="exit 0, at tree -")


def envelope(payload: Payload) -> Envelope:
    return Envelope.of("k3f9", AT, "coterie", "mira", payload, "T1")


@pytest.mark.parametrize(
    ("payload", "signature"),
    [
        (LOG, "2d4d50068e29c489d1a34b05f254bd40c1fefdd086c0455537728818f14adbd8"),
        (
            Instruction(summary="Do it."),
            "d0a29cf625f740b94ed60a15be710a70007873610f8495c3f1d1b0bc1c3e7a38",
        ),
    ],
)
def test_signatures_made_before_a_field_was_added_still_hold(
    payload: Payload, signature: str
) -> None:
    before = envelope(payload).model_copy(update={"signature": f"hmac-sha256:{signature}"})
    assert before.is_signed_by(b"key")
    assert not before.is_signed_by(b"another")


def test_a_field_that_was_added_is_signed_where_it_says_something() -> None:
    failed = LOG.model_copy(update={"check": CheckRun(command="make test", exit_code=1)})
    passed = LOG.model_copy(update={"check": CheckRun(command="make test", exit_code=0)})
    signed = envelope(failed).signed(b"key")
    assert signed.is_signed_by(b"key")
    assert not signed.model_copy(update={"payload": passed}).is_signed_by(b"key")


def test_how_a_check_ended_is_read_from_its_field_and_from_the_words_of_older_logs() -> None:
    told = [
        LOG,
        ArtifactRef(label="check: lint", uri="b.log", description="exit 2, at tree -"),
        # The field counts, whatever the label and description say.
        ArtifactRef(
            label="check: types",
            uri="c.log",
            description="exit 0",
            check=CheckRun(command="make types", exit_code=3),
        ),
        ArtifactRef(label="my check: list", uri="d.txt", description="exit 0"),
    ]
    kept = [Envelope.model_validate_json(envelope(one).model_dump_json()) for one in told]
    assert check_results(kept) == {"T1": {"make test": True, "lint": False, "make types": False}}
    assert check_scores(kept) == {"T1": CheckScore(1, 3)}
