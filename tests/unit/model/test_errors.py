"""Error codes are a contract: `--json` prints them, and programs rely on them."""

from __future__ import annotations

from coterie.errors import CoterieError


def test_every_error_has_a_code_of_its_own() -> None:
    assert sorted(_codes(CoterieError)) == [
        "agent",
        "agent_missing",
        "answer_refused",
        "artifact_wrong",
        "bug",
        "config",
        "envelope_forged",
        "foreign_store",
        "git_failed",
        "history_lost",
        "invalid_time",
        "lease_expired",
        "lease_lost",
        "not_accepted",
        "not_found",
        "not_ours",
        "not_sent",
        "not_trusted",
        "step_repeated",
        "storage",
        "storage_damaged",
        "storage_full",
        "storage_locked",
        "storage_read_only",
        "survivors_elsewhere",
        "task_busy",
        "usage",
    ]


def _codes(kind: type[CoterieError]) -> list[str]:
    """Return the codes of all subclasses of `kind` in `coterie.errors`."""
    found: list[str] = []
    for inner in kind.__subclasses__():
        if inner.__module__ == CoterieError.__module__:
            found += [inner.code, *_codes(inner)]
    return found
