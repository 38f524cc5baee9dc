"""Manager and workers of a plan of twelve tickets, as one separate program that proves its work.

    ticket_agent.py FOLDER MEMBER [MILLISECONDS]

It is run by path without `site`, one process per prompt.  What it says follows from the prompt
alone, so it says the same when asked again.  A worker really changes files, and leaves them half
changed while it works.  Meanwhile it holds two locks, its member's and its ticket's, as does a
grandchild in a session of its own; an agent that finds one taken writes `overlap` to
FOLDER/executions, where every execution also leaves a line.
"""

import fcntl
import json
import os
import re
import signal
import sys
import time

from bench.chaos.locked_agent import grandchild, note

WORKERS = ("ada", "ben", "cleo")
PRICES = "prices.txt"
"""A file that exists from the beginning and that several tickets change."""
TICKETS = 12
RISKY = "T3"
"""Discussed before it is done."""
SENT_BACK = "T6"
"""Sent back for changes once."""
MEND = "mend it"

_NEEDS = {4: (1, 2), 5: (3,), 7: (4,), 8: (4, 5), 9: (6,), 10: (7, 8), 12: (9, 10, 11)}
_SHARE_PRICES = (2, 3, 5, 9, 11)
"""Tickets that declare a change to the prices: no two of them may run at once."""


def plan() -> dict[str, object]:
    """Return the plan: some tickets depend on others, some need the same file, one is risky."""
    return {"tasks": [_task(number) for number in range(1, TICKETS + 1)]}


def _task(number: int) -> dict[str, object]:
    return {
        "task_id": f"part-{number}",
        "description": f"Make part {number}",
        "dependencies": [f"part-{one}" for one in _NEEDS.get(number, ())],
        "expected_outputs": _outputs(number),
        "assigned_to": {"role_id": WORKERS[number % len(WORKERS)]},
        "risks": ["it may break the prices"] if f"T{number}" == RISKY else [],
    }


def _outputs(number: int) -> list[str]:
    return [f"parts/T{number}.txt", *([PRICES] if number in _SHARE_PRICES else [])]


# -- replies -------------------------------------------------------------------------------------


def answer(ticket: str, prompt: str, milliseconds: float) -> dict[str, object]:
    """Return what the last line of the prompt asks for."""
    asked = prompt.rstrip().rpartition("\n")[2]
    if '"intent_summary"' in asked:
        return {"status": "clear", "intent_summary": "Twelve parts."}
    if '"tasks"' in asked:
        return plan()
    if '"draft_steps"' in asked:
        return {"summary": f"Carefully: {ticket}", "risks": ["prices"], "draft_steps": ["look"]}
    if '"acceptance_criteria"' in asked:
        looked_at = {"text": f"{ticket} reads well"}
        return {"summary": f"Write {ticket}.", "acceptance_criteria": [looked_at]}
    if '"decision"' in asked:
        return _review(ticket, prompt)
    if '"proposal"' in asked:
        return {"status": "proposal", "outputs": ["I agree"], "next_actions": ["begin"]}
    return _work(ticket, milliseconds, mended=MEND in prompt)


def _review(ticket: str, prompt: str) -> dict[str, object]:
    if ticket == SENT_BACK and f"{MEND}: done" not in prompt:
        return {"decision": "changes_requested", "requested_changes": [MEND]}
    return {"decision": "approved", "notes": "fine"}


# -- work ----------------------------------------------------------------------------------------


def _work(ticket: str, milliseconds: float, *, mended: bool) -> dict[str, object]:
    number = int(ticket[1:])
    outputs = _outputs(number)
    os.makedirs("parts", exist_ok=True)  # noqa: PTH103 - pathlib would double the time to start
    before = [_read(f"parts/T{one}.txt") for one in _NEEDS.get(number, ())]
    _write(outputs[0], f"half of {ticket}")
    _write("scratch", "left behind where it is killed")
    if PRICES in outputs:
        lines = _read(PRICES).split("\n")
        lines[number] = f"part {number} costs {number * 10}"
        _write(PRICES, "\n".join(lines))
    time.sleep(milliseconds / 1000)
    made = f"{ticket} on top of {[len(text) for text in before]}\n"
    _write(outputs[0], made + ("mended\n" if mended else ""))
    os.unlink("scratch")  # noqa: PTH108
    evidence = [f"{MEND}: done"] if mended else ["it is there"]
    return {"status": "completed", "outputs": outputs, "evidence": evidence}


def _read(name: str) -> str:
    with open(name, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def _write(name: str, text: str) -> None:
    """Write atomically: what is read later must not depend on when we were killed."""
    with open(f"{name}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    os.replace(f"{name}.new", name)  # noqa: PTH105


# -- the program ---------------------------------------------------------------------------------


def _hold(folder: str, name: str) -> int:
    """Take a lock; it is held as long as this process or its child has it open."""
    lock = os.open(f"{folder}/lock.{name}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(folder, f"overlap:{name}")
    return lock


def main(folder: str, member: str, milliseconds: float) -> None:
    """Take a turn."""
    prompt = sys.stdin.read()
    found = re.search(r"\bticket (T\d+)", prompt, re.IGNORECASE)
    ticket = found[1] if found else ""
    place = ticket if member in WORKERS else "manager"
    locks = [_hold(folder, member), _hold(folder, place)]
    note(folder, f"begin:{member}:{place}")
    below = grandchild()
    time.sleep(milliseconds / 1000)
    reply = answer(ticket, prompt, milliseconds)
    os.kill(below, signal.SIGKILL)
    os.waitpid(below, 0)
    note(folder, f"end:{member}:{place}")
    for lock in locks:
        os.close(lock)
    text = f"Here it is.\n```json\n{json.dumps(reply)}\n```"
    print(json.dumps({"type": "result", "result": text}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 20)
