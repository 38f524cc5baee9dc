"""Invalid plans, and workers that fail, hang or claim too much: what becomes of a session, as shown
by its envelopes and `coterie`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import pytest

import coterie
from tests.cli.command import DOMAIN_EVENTS
from tests.cli.in_process_agent import Session, in_turn
from tests.cli.ticket_project import git
from tests.flow.ticket_harness import Say, folder_of, obedient, part, plan, replying, ticket_in

ONE = plan(part("a"))


def does(work: Callable[[coterie.Member, str], object]) -> Say:
    """Plan a single ticket, and do this as its work."""
    return replying(Split_the_goal=ONE, Do_the_work_now=work)


FAILS = coterie.TurnFailed("exit", "it broke", exit_code=3)


# -- the plan ----------------------------------------------------------------------------------


def test_a_plan_is_refused_for_a_cycle_and_says_who_works(session: Session) -> None:
    """E1c, E4j, E9a: finn is named, although wren comes first and could do it too."""
    session.set_up()
    cycle = plan(part("a", "c"), part("b", "a"), part("c", "b"))
    good = plan(
        part("a", assigned_to={"role_id": "finn"}), part("b", assigned_to={"role_id": "finn"})
    )
    ran = session.run(replying(Split_the_goal=in_turn(cycle, good)))
    assert (ran.code, session.errors) == (0, ["validation_failed"])
    refused = session.envelopes("error")[0]["payload"]["message"]
    assert "a -> c -> b -> a is a cycle: none of them could ever begin" in refused
    assert len(session.envelopes("plan")) == 1, "what is no plan moves nothing"
    assert {one["owner"] for one in ran.of("ticket")} == {None, "finn"}


def test_when_all_tries_are_used_up_the_manager_replans(session: Session) -> None:
    """E4g, E9c: a superseded ticket keeps its state and names its successor; dependents follow."""
    session.set_up()

    def works(member: coterie.Member, text: str) -> object:
        return FAILS if ticket_in(text) == "T1" else obedient(member, text)

    two = plan(part("a"), part("b", "a"))
    say = replying(Split_the_goal=two, Do_the_work_now=works, The_plan_has_to_change=two)
    ran = session.run(say)
    assert (ran.code, ran.lines[-1]["summary"].partition(";")[0]) == (
        0,
        "2 done, 1 dropped or replaced",
    )
    assert session.errors == ["worker_exit"] * 3 + ["retries_exceeded"]
    first, second = session.tickets["T1"], session.tickets["T2"]
    assert (first["status"], first["closed_by"], bool(first["reason"])) == ("error", "T3", True)
    assert (second["status"], second["dependencies"]) == ("done", ["T3"])
    assert [one["id"] for one in session("tickets", "--json").of("ticket")] == ["T1", "T2", "T3"]
    # D1b: two plans and two merges, none of which is a domain event.
    exported = session("export", "last", "-")
    assert {one["name"] for one in exported.of("event")} <= DOMAIN_EVENTS


def test_a_ticket_that_is_dropped_takes_what_waits_for_it_along(session: Session) -> None:
    session.set_up(retries=0, replans=0)
    ran = session.run(
        replying(Split_the_goal=plan(part("a"), part("b", "a")), Do_the_work_now=FAILS)
    )
    assert ran.code == 3
    assert session.answer("drop") == "T1 failed: Make a"
    assert session.run(obedient, "resume", "last").code == 0
    kept = {name: (one["status"], one["closed_by"]) for name, one in session.tickets.items()}
    assert kept == {"T1": ("error", "dropped"), "T2": ("pending", "dropped")}
    assert {one["reason"] for one in session.tickets.values()} == {"dropped by the user"}


# -- workers -----------------------------------------------------------------------------------


def test_a_blocked_report_must_say_what_is_needed(session: Session) -> None:
    """E9d and F9b: a turn's work is committed whatever it reports, even if it fails."""
    session.set_up(retries=5)
    commits: list[int] = []
    reports = in_turn(
        {"status": "blocked"},
        {"status": "blocked", "issues": ["no database here"]},
        FAILS,
        {"status": "completed"},
    )

    def works(member: coterie.Member, text: str) -> object:
        branch = git(folder_of(member), "rev-parse", "--abbrev-ref", "HEAD").strip()
        commits.append(int(git(session.root, "rev-list", "--count", f"main..{branch}")))
        (folder_of(member) / f"{len(commits)}.txt").write_text("so far\n")
        return reports(member, text)

    say = replying(Split_the_goal=ONE, Do_the_work_now=works, cannot_continue={"summary": "Go on."})
    assert session.run(say).code == 0
    assert "issues must not be empty" in session.envelopes("error")[0]["payload"]["message"]
    blocked = [one["payload"]["issues"] for one in session.envelopes("report")[:1]]
    assert blocked == [["no database here"]], "what names nothing is no report"
    assert session.errors == ["validation_failed", "worker_exit"]
    assert commits == [0, 1, 2, 3]


def test_a_limit_of_time_gives_the_ticket_to_another(session: Session) -> None:
    """E9e, E11d, F4g: the file's limit applies, whatever the adapter says; no report, no pass."""
    session.set_up(time_limits={"work": 0.02})

    def works(member: coterie.Member, text: str) -> object:
        return None if member.id == "wren" else obedient(member, text)

    first = plan(part("a", assigned_to={"role_id": "wren"}))
    ran = session.run(replying(Split_the_goal=first, Do_the_work_now=works))
    assert (ran.code, session.errors) == (0, ["timeout"])
    assert session.moves("T1")[1:4] == ["in_progress", "blocked", "in_progress"]
    owners = [one["owner"] for one in ran.of("ticket") if one["state"] == "in_progress"]
    assert owners == ["wren", "finn"]


def test_a_manager_and_a_check_have_limits_of_their_own(session: Session) -> None:
    """E11d."""
    session.set_up(time_limits={"manager": 0.007, "check": 0.005}, checks=["sleep 60"])
    assert session.run(replying(Split_the_goal=lambda member, text: None)).code == 3
    assert session.answer("retry") == "mira (manager) gave no usable answer"
    assert session.run(does(obedient), "resume", "last").code == 3
    assert session.answer("override") == "T1 was approved, but sleep 60: did not finish"
    assert session.run(does(obedient), "resume", "last").code == 0


def test_a_stalled_dependency_is_announced_and_a_late_report_counts(session: Session) -> None:
    """E9f, F4f."""
    session.set_up(alerts={"stalled": 0.0005})
    log = session.root / ".coterie" / "logs"
    noticed = threading.Event()

    def works(member: coterie.Member, text: str) -> object:
        while ticket_in(text) == "T1" and not noticed.wait(0.01):
            told = [path.read_text() for path in log.glob("*/events.log")]
            noticed.set() if any("[T2][stalled]" in one for one in told) else None
        return obedient(member, text)

    ran = session.run(
        replying(Split_the_goal=plan(part("a"), part("b", "a")), Do_the_work_now=works)
    )
    assert ran.code == 0
    told = ran.of("error")[0]  # a limit this short may expire again in review
    assert (told["code"], told["hint"]) == ("stalled", f"coterie show {session.task}")
    assert told["message"].startswith("T2 waits for T1, which is ")
    report = next(
        one for one in session.envelopes("report") if one["payload"]["status"] == "blocked"
    )
    assert (report["source"], report["target"]) == ("coterie", "mira")
    assert session.moves("T2")[:2] == ["created", "stalled"]
    assert [one["status"] for one in session.tickets.values()] == ["done", "done"]


# -- checks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["back", "override"])
def test_done_is_what_the_checks_say(session: Session, choice: str) -> None:
    """F8d: worker and manager say it is done, the check does not; only the user can override it."""
    session.set_up(checks=["test -f tested"])

    def works(member: coterie.Member, text: str) -> object:
        if "It was sent back" in text:
            assert "test -f tested: exit 1" in text
            (folder_of(member) / "tested").write_text("")
        return obedient(member, text)

    assert session.run(does(works)).code == 3
    assert session.tickets["T1"]["status"] == "awaiting_review"
    assert session.answer(choice) == "T1 was approved, but test -f tested: exit 1"
    ran = session.run(does(works), "resume", "last")
    assert (ran.code, session.tickets["T1"]["status"]) == (0, "done")
    said = {
        "back": "approved and merged; all checks passed",
        "override": "approved and merged; you accepted failed checks",
    }
    assert session.tickets["T1"]["reason"] == said[choice]
    folder = session.root / ".coterie" / "sessions" / session.task / "artifacts"
    assert "test-f-tested" in " ".join(path.name for path in folder.iterdir()), "its log is kept"
    assert ran.lines[-1]["checks"] == [
        {"ticket": "T1", "command": "test -f tested", "passed": choice == "back"}
    ]


# -- artifacts ---------------------------------------------------------------------------------

DATA = b"day,sold\n"
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
WRONG: dict[str, dict[str, object]] = {
    "gone": {"uri": "gone.csv"},
    "a link": {"uri": "link.txt"},
    "through a link": {"uri": "up/hostname"},
    "a folder": {"uri": "."},
    "above": {"uri": "../../../../key"},
    "not its own": {"uri": "file:///etc/hostname"},
    "far away": {"uri": "https://example.com/x"},
    "size": {"uri": "sales.csv", "size_bytes": 1},
    "digest": {"uri": "sales.csv", "digest": f"sha256:{'0' * 64}"},
}


def test_an_artifact_is_checked_against_its_file(session: Session) -> None:
    """E8b, E8c: by path and by URI; every mismatch is an error that names the file."""
    session.set_up()
    negative = {"label": "x", "uri": "sales.csv", "size_bytes": -1}
    tried: list[str] = []

    def works(member: coterie.Member, text: str) -> object:
        tried.append(text)
        path = folder_of(member) / "sales.csv"
        path.write_bytes(DATA)
        if len(tried) == 1:
            (path.parent / "link.txt").symlink_to("/etc/hostname")
            (path.parent / "up").symlink_to("/etc")
        right = {"digest": DIGEST, "size_bytes": len(DATA)}
        good = [
            {"label": "by path", "uri": "sales.csv", **right},
            {"label": "by address", "uri": path.as_uri(), **right},
        ]
        wrong = [{"label": name, **given} for name, given in WRONG.items()]
        refs = [negative] if len(tried) == 1 else [*good, *wrong]
        return {"status": "completed", "artifacts": refs}

    assert session.run(does(works)).code == 0
    assert "artifacts.0.size_bytes" in tried[1]
    assert session.errors == ["validation_failed", *["artifact_wrong"] * len(WRONG)]
    refs = [one["payload"] for one in session.envelopes("artifact_ref")]
    assert [one["label"] for one in refs] == ["by path", "by address"]
    folder = session.root / ".coterie" / "sessions" / session.task / "artifacts"
    assert [(folder / one["uri"]).read_bytes() for one in refs] == [DATA, DATA]
    wrong = [one["payload"]["message"] for one in session.envelopes("error")[1:]]
    assert [
        name
        for (name, given), said in zip(WRONG.items(), wrong, strict=True)
        if str(given["uri"]) not in said
    ] == []


# -- side by side ------------------------------------------------------------------------------


def at_work(seen: list[set[str]], timeout: float) -> Say:
    """Record who works at the same time, and give others time to begin."""
    working: set[str] = set()
    lock = threading.Condition()

    def works(member: coterie.Member, text: str) -> object:
        with lock:
            working.add(ticket_in(text))
            seen.append({*working})
            lock.notify_all()
            lock.wait_for(lambda: {"T1", "T2"} in seen, timeout=timeout)
        done = obedient(member, text)
        with lock:
            working.discard(ticket_in(text))
        return done

    return works


@pytest.mark.parametrize(
    ("in_git", "outputs", "together"),
    [
        (True, (["cart.py"], ["./cart.py"]), False),
        (True, (["src"], ["src/form.py"]), False),
        (True, (["model.py"], ["form.py"]), True),
        (True, ([], []), True),
        (False, ([], []), False),
        (False, (["model.py"], ["form.py"]), True),
    ],
)
def test_work_that_overlaps_is_done_in_turn(
    session: Session, in_git: bool, outputs: tuple[list[str], list[str]], together: bool
) -> None:
    """F9d, F9e."""
    session.set_up(in_git=in_git, concurrency=2)
    seen: list[set[str]] = []
    parts = plan(
        *(part(name, expected_outputs=one) for name, one in zip("ab", outputs, strict=True))
    )
    works = at_work(seen, 20.0 if together else 0.2)
    assert session.run(replying(Split_the_goal=parts, Do_the_work_now=works)).code == 0
    assert ({"T1", "T2"} in seen) == together
    assert [one["status"] for one in session.tickets.values()] == ["done", "done"]
