"""A member of a pipeline that answers what it is asked: a separate program that proves its work.

    pipeline_agent.py FOLDER MEMBER [MILLISECONDS]

It is run by path without `site`, one process per prompt.  What it says and does follows from the
prompt alone, so it does the same when asked again.  While it works it holds a lock, as does a
grandchild in a session of its own; an agent that finds the lock taken writes `overlap` to
FOLDER/executions, where every execution also leaves a line.
"""

import fcntl
import json
import os
import signal
import sys
import time

from bench.chaos.locked_agent import grandchild, note

CODE, TESTS = "cart.py", "tests/test_cart.py"
PLAN: dict[str, object] = {
    "title": "Coupons",
    "why": "They are wanted.",
    "what": "A cart takes coupons.",
    "requirements": [{"title": "Cheaper", "text": "The cart SHALL be cheaper with a coupon."}],
    "scope": [CODE],
    "file_impacts": [{"path": CODE, "purpose": "coupons"}],
    "risks": ["rounding"],
    "test_plan": {"strategy": "unit", "key_cases": ["one coupon"]},
}
FINDING = {"file": CODE, "line": 2, "message": "mend it", "must_fix": True}
ANSWERS: dict[str, object] = {
    "You take part in a planning workshop": {"summary": "fine"},
    "Write the plan.": PLAN,
    "Give the whole plan as it should be": PLAN,
    "Is anything missing in scope": {"verdict": "approve", "summary": "good"},
    "about a plan and its review": {"minutes": {"consensus": ["do it"]}},
    "First say what you intend": {
        "summary": "A function",
        "files": [{"path": CODE, "intent": "takes coupons"}],
    },
    "about the reviews of a change": {"consensus": ["good"]},
}


def answer(prompt: str, milliseconds: float) -> object:
    """Return what is asked for; files are really changed, and are half changed for a while."""
    if "Make the change now" in prompt:
        return _write(CODE, "mended" if "mend it" in prompt else "coupons", milliseconds)
    if "Write the tests now" in prompt:
        return _write(TESTS, "def test(): pass", milliseconds)
    if "What do you find?" in prompt:
        findings = [] if "+mended" in prompt else [FINDING]
        return {"summary": "looked at", "findings": findings}
    return next(reply for words, reply in ANSWERS.items() if words in prompt)


def _write(name: str, line: str, milliseconds: float) -> object:
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)  # noqa: PTH103, PTH120
    for text in ("half", f"total = 0\n{line}\n"):
        with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        time.sleep(milliseconds / 1000)
    return {"status": "completed", "outputs": [name]}


def main(folder: str, member: str, milliseconds: float) -> None:
    """Take a turn."""
    prompt = sys.stdin.read()
    lock = os.open(f"{folder}/lock.{member}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(folder, f"overlap:{member}")
    note(folder, f"begin:{member}")
    below = grandchild()
    time.sleep(milliseconds / 1000)
    reply = answer(prompt, milliseconds)
    os.kill(below, signal.SIGKILL)
    os.waitpid(below, 0)
    note(folder, f"end:{member}")
    os.close(lock)
    text = f"Here it is.\n```json\n{json.dumps(reply)}\n```"
    print(json.dumps({"type": "result", "result": text}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 20)
