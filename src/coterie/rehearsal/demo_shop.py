"""The model of `coterie demo`: a manager and workers that add coupons to a small shop.

It is stateless: the JSON object that the prompt requests tells what is asked for, and the tools
called since the prompt tell how far the work has come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.rehearsal import model_api as api
from coterie.rehearsal.model_api import Answer, CompletionRequest, reply
from coterie.rehearsal.simulation import Simulation, newest_message
from coterie.rehearsal.tool_steps import ToolStep, call_for, since_prompt

GOAL = "Add coupons to the shop, with a receipt; make the failing test pass."
TESTS = "python3 -m unittest -q"
"""Run for the last ticket, and thus on everything that was merged: all tests pass by then."""

_FOLDER = Path(__file__).with_name("demo") / "shop"
_INIT = "shop/__init__.py"
_CART = "from shop.cart import total as total\n"
_COUPONS = "from shop.coupons import percent_off as percent_off\n"
_RECEIPT = "from shop.receipt import receipt as receipt\n"
_WORDS = '"""A small shop.  Money is in cents."""\n\n'


def initial_files() -> Mapping[str, str]:
    """Return the files of the repository that the team starts with, by path.  Blocks."""
    begin = _FOLDER / "begin"
    paths = sorted(path for path in begin.rglob("*.txt"))
    return {str(path.relative_to(begin))[: -len(".txt")]: path.read_text() for path in paths}


def _solution(name: str) -> str:
    return (_FOLDER / "made" / f"{name}.txt").read_text()


@dataclass(frozen=True)
class DemoTicket:
    """One task of the plan and its worker's steps."""

    id: str
    description: str
    files: tuple[str, ...]
    check: str
    steps: tuple[ToolStep, ...]
    rework: tuple[ToolStep, ...] = ()
    """The steps after the manager has requested changes."""
    after: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    wanted: str = ""
    """Text that the manager looks for in the diff; if it is missing, `ask` is requested."""
    ask: str = ""

    @property
    def outputs(self) -> list[str]:
        """The changed files, including those that the plan did not name."""
        steps = (*self.steps, *self.rework)
        changed = (step.target for step in steps if step.kind not in ("read", "run"))
        return list(dict.fromkeys(changed))


RESOLVED = (
    ToolStep("read", _INIT),
    ToolStep("overwrite", _INIT, new=_WORDS + _CART + _COUPONS + _RECEIPT),
)
"""The steps of a worker whose change conflicts with another one: both changes are kept.

As in the tickets that may conflict, the first step shows whether there is a conflict."""


def _rewritten(path: str, solution: str) -> tuple[ToolStep, ...]:
    return ToolStep("read", path), ToolStep("overwrite", path, new=_solution(solution))


def _module(name: str, description: str, export: str) -> DemoTicket:
    """Build the ticket for a new module with a test, exported by the package."""
    files = (f"shop/{name}.py", f"tests/test_{name}.py")
    created = (ToolStep("create", path, new=_solution(Path(path).name)) for path in files)
    exported = ToolStep("replace", _INIT, _CART, _CART + export)
    steps = (ToolStep("read", _INIT), *created, exported)
    return DemoTicket(name, description, files, f"{TESTS} tests.test_{name}", steps)


TICKETS = (
    _module("coupons", "Support the coupons TEN and HALF; refuse every other code", _COUPONS),
    _module(
        "receipt", "Print a receipt with every price, the savings and the amount due", _RECEIPT
    ),
    DemoTicket(
        id="cart",
        description="Deduct a coupon from the total of the cart",
        files=("shop/cart.py",),
        check=f"{TESTS} tests.test_cart",
        steps=(*_rewritten("shop/cart.py", "cart.py"), ToolStep("run", f"{TESTS} tests.test_cart")),
        after=("coupons",),
        risks=("rounding each price by itself would lose cents",),
    ),
    DemoTicket(
        id="checkout",
        description="Add a command that prints the receipt: python3 -m shop",
        files=("shop/__main__.py", "tests/test_checkout.py"),
        check=TESTS,
        steps=(ToolStep("create", "shop/__main__.py", new=_solution("checkout_at_first.py")),),
        rework=(
            *_rewritten("shop/__main__.py", "checkout.py"),
            ToolStep("create", "tests/test_checkout.py", new=_solution("test_checkout.py")),
            ToolStep("run", TESTS),
        ),
        after=("cart", "receipt"),
        wanted="except UnknownCoupon",
        ask="An unknown coupon ends in a traceback: report it in one line, exit with 2, test that.",
    ),
)

_CONFLICT = "<<<<<<< "
"""The start of git's conflict marker before the first of the two versions."""
_FIELD = re.compile(r'"(\w+)":')


_Block = tuple[str, Mapping[str, object]]
"""The text of a reply and the JSON object after it."""


class DemoShop:
    """The responder for every agent of the demo's team, whichever program it is."""

    async def answer(self, request: CompletionRequest) -> Answer:
        """Return what the manager or worker says next, or its next tool call."""
        prompt = newest_message(request)
        ticket, wanted = _ticket(prompt), _wanted_fields(prompt)
        if "evidence" in wanted:
            return _work(request, ticket, prompt)
        for field, answer in _ANSWERS.items():
            if field in wanted:
                return _block(*answer(ticket, prompt))
        return await Simulation().answer(request)


def _wanted_fields(prompt: str) -> frozenset[str]:
    """Return the fields of the JSON object that the prompt requests as its answer."""
    objects = [line for line in prompt.splitlines() if line.startswith('{"')]
    return frozenset(_FIELD.findall(objects[-1])) if objects else frozenset()


def _propose(ticket: DemoTicket, _prompt: str) -> _Block:
    proposal = {
        "summary": ticket.description,
        "open_questions": ["Where should the total be rounded?"],
        "risks": ticket.risks,
        "draft_steps": [f"Change {name}." for name in ticket.files],
    }
    return "This is how I would do it.", proposal


def _instruct(ticket: DemoTicket, _prompt: str) -> _Block:
    instruction = {
        "summary": ticket.description,
        "steps": [f"Write {name}." for name in ticket.files],
        "acceptance_criteria": [{"text": "Its tests pass.", "command": ticket.check}],
    }
    return "Please do it.", instruction


def _review(ticket: DemoTicket, prompt: str) -> _Block:
    if ticket.wanted in prompt:
        return "I read it all.", {"decision": "approved", "notes": "It does what it should."}
    refusal = {"decision": "changes_requested", "requested_changes": [ticket.ask]}
    return "Something is missing.", refusal


def _work(request: CompletionRequest, ticket: DemoTicket, prompt: str) -> Answer:
    since = since_prompt(request)
    done = sum(isinstance(item, api.ToolCall) for item in since)
    steps = ticket.rework if ticket.ask and ticket.ask in prompt else ticket.steps
    if any(isinstance(item, api.ToolResult) and _CONFLICT in item.text for item in since):
        steps = RESOLVED
    failed = [result.text for result in request.results if result.failed]
    if failed:
        return _block("I am blocked.", {"status": "blocked", "issues": failed})
    if done < len(steps):
        return reply("", [call_for(steps[done], request)])
    report = {
        "status": "completed",
        "outputs": ticket.outputs,
        "evidence": [f"{ticket.check} passes."],
    }
    return _block("It is done.", report)


def _ticket(prompt: str) -> DemoTicket:
    """Find the ticket that a prompt is about, by its description in the plan."""
    return next((ticket for ticket in TICKETS if ticket.description in prompt), TICKETS[0])


def _block(words: str, payload: Mapping[str, object]) -> Answer:
    return reply(f"{words}\n```json\n{json.dumps(payload, indent=1)}\n```")


_CLEAR = {
    "status": "clear",
    "intent_summary": "Coupons that reduce the total, and a receipt that shows the discount.",
}
_PLAN = [
    {
        "task_id": ticket.id,
        "description": ticket.description,
        "dependencies": ticket.after,
        "expected_outputs": ticket.files,
        "risks": ticket.risks,
    }
    for ticket in TICKETS
]
_OPINION = {
    "status": "proposal",
    "outputs": ["I agree, and would round once, on the sum."],
    "next_actions": ["Make the failing test pass."],
}
_ANSWERS: Mapping[str, Callable[[DemoTicket, str], _Block]] = {
    "intent_summary": lambda _ticket, _prompt: ("Everything is clear.", _CLEAR),
    "tasks": lambda _ticket, _prompt: ("Two parts can be done side by side.", {"tasks": _PLAN}),
    "draft_steps": _propose,
    "acceptance_criteria": _instruct,
    "decision": _review,
    "next_actions": lambda _ticket, _prompt: ("One thing first.", _OPINION),
}
"""Answers by a field that no other answer has, except a worker's report, which is checked first."""
