"""A manager and workers for these tests: `python ticket_agent.py`, the prompt on stdin, one JSON
line out.

The reply depends on the last line of the prompt, which shows the form of the answer.  Keywords in
the goal change its behavior; those in `WORDS` apply to the last ticket, the form.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

PLAN = (
    ("model", "Coupon model", ()),
    ("rules", "Price rules", ()),
    ("form", "Form", ("model", "rules")),
)
FORM = "T3"
DOES = ("never-works", "hangs", "dies", "odd-name", "in-submodule", "registers")
WORDS = ("with-check", "sent-back", "looked-at", *DOES)


def planned(prompt: str) -> object:
    words = [word for word in WORDS if word in prompt]
    tasks = [
        {
            "task_id": name,
            "description": " ".join([title, *(words if name == "form" else ())]),
            "dependencies": list(after),
            "expected_outputs": [f"{name}.py"],
            "risks": ["money"] if name == "rules" else [],
            **({"capability": "coding"} if "needs-coding" in prompt else {}),
        }
        for name, title, after in PLAN
        if not (name == "form" and "drop the form" in prompt)
    ]
    if "only-one" in prompt:
        tasks = [{**tasks[-1], "dependencies": []}]
    if "and a footer" in prompt:
        tasks.append({"task_id": "footer", "description": "Footer"})
    return {"tasks": tasks}


def instructed(prompt: str) -> object:
    criteria: list[dict[str, str]] = []
    if "with-check" in prompt:
        criteria.append({"text": "the form can be built", "command": "mkdir -p built"})
    if "looked-at" in prompt:
        criteria.append({"text": "looks right on a phone"})
    summary = " ".join(["Write it.", *(one for one in DOES if one in prompt)])
    return {"summary": summary, "steps": ["open an editor"], "acceptance_criteria": criteria}


def reviewed(prompt: str) -> object:
    if "sent-back" in prompt and "mended" not in prompt:
        return {"decision": "changes_requested", "requested_changes": ["missing error path"]}
    return {"decision": "approved", "notes": "fine"}


def worked(prompt: str, ticket: str) -> tuple[str, object]:
    if "never-works" in prompt:
        return "", {"status": "blocked", "issues": ["no database here"]}
    mended = "missing error path" in prompt
    name = "form.py" if ticket == FORM else f"{ticket}.py"
    Path(name).write_text(f"again = {mended}\n")
    evidence = ["mended"] if mended else ["I ran it"]
    said = f"{name} is written." if ticket == FORM else ""
    outputs = [name]
    if "in-submodule" in prompt:
        Path("lib", name).write_text("lost\n")
    if "odd-name" in prompt:  # a byte that is not text, and half of a character
        Path(os.fsdecode(b"caf\xe9.txt")).write_text("closed\n")
        outputs += ["caf\udce9.txt", "half \ud83d"]
    report = {"status": "completed", "outputs": outputs, "evidence": evidence}
    if "registers" in prompt:
        Path("sales.csv").write_text("day,sold\n")
        refs = [{"label": "sales", "uri": "sales.csv", "description": "by day"}]
        return said, {**report, "artifacts": [*refs, {"label": "keys", "uri": "../../key"}]}
    return said, report


def answered(prompt: str) -> tuple[str, object]:
    form = prompt.rstrip().rpartition("\n")[2]
    found = re.search(r"\bticket (T\d+)", prompt, re.IGNORECASE)
    if '"intent_summary"' in form:
        return "", {"status": "clear", "intent_summary": "Coupons."}
    if '"tasks"' in form:
        return "", planned(prompt)
    if '"draft_steps"' in form:
        return "", {"summary": "Carefully.", "risks": ["rounding"], "draft_steps": ["look"]}
    if '"acceptance_criteria"' in form:
        return "", instructed(prompt)
    if '"decision"' in form:
        return "", reviewed(prompt)
    if '"proposal"' in form:
        return "", {"status": "proposal", "outputs": ["I agree"], "next_actions": ["begin"]}
    return worked(prompt, found[1] if found else "")


def main() -> None:
    prompt = sys.stdin.read()
    if "Do the work now" in prompt:
        time.sleep(600 if "hangs" in prompt else 0)
        if "dies" in prompt:
            print("Segmentation fault in libcoupon", file=sys.stderr, flush=True)
            sys.exit(3)
    said, payload = answered(prompt)
    text = f"{said}\n```json\n{json.dumps(payload)}\n```"
    print(json.dumps({"type": "result", "result": text}), flush=True)


main()
