"""The model of `coterie demo`: a manager and workers that add coupons to a small shop.

It remembers nothing.  What is asked for is read from the JSON object that the prompt wants as its
answer; how far the work is, from the tools that were called since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from coterie.rehearsal.demo_plan import RESOLVED, TICKETS, DemoStep, DemoTicket, call_for
from coterie.rehearsal.model_api import Answer, CompletionRequest, TextMessage, ToolCall, reply
from coterie.rehearsal.simulation import Simulation, newest_message

_CONFLICT = ("Both versions stand between conflict marks", "Both sides of a conflict are still in")
_FIELD = re.compile(r'"(\w+)":')


class DemoShop:
    """A responder for every agent of the demo's team, whatever program it is."""

    async def answer(self, asked: CompletionRequest) -> Answer:
        """What the manager or the worker says next, or the tool that it calls."""
        prompt = newest_message(asked)
        wanted = _wanted_fields(prompt)
        for field, answer in _ANSWERS.items():
            if field in wanted:
                return answer(asked, prompt)
        return await Simulation().answer(asked)


def _wanted_fields(prompt: str) -> frozenset[str]:
    """The fields of the JSON object that the prompt wants as its answer."""
    objects = [line for line in prompt.splitlines() if line.startswith('{"')]
    return frozenset(_FIELD.findall(objects[-1])) if objects else frozenset()


# -- the manager -------------------------------------------------------------------------------


def _clear(_asked: CompletionRequest, _prompt: str) -> Answer:
    wanted = "Coupons that take a part off the total, and a receipt that shows it."
    return _block("All of it is clear.", {"status": "clear", "intent_summary": wanted})


def _plan(_asked: CompletionRequest, _prompt: str) -> Answer:
    tasks = [
        {
            "task_id": ticket.id,
            "description": ticket.description,
            "dependencies": ticket.after,
            "expected_outputs": ticket.files,
            "risks": ticket.risks,
        }
        for ticket in TICKETS
    ]
    return _block("Two parts can be done side by side.", {"tasks": tasks})


def _propose(_asked: CompletionRequest, prompt: str) -> Answer:
    ticket = _ticket(prompt)
    proposal = {
        "summary": ticket.description,
        "open_questions": ["Where is it rounded?"],
        "risks": ticket.risks,
        "draft_steps": [f"Change {name}." for name in ticket.files],
    }
    return _block("This is how I would do it.", proposal)


def _instruct(_asked: CompletionRequest, prompt: str) -> Answer:
    ticket = _ticket(prompt)
    instruction = {
        "summary": ticket.description,
        "steps": [f"Write {name}." for name in ticket.files],
        "acceptance_criteria": [{"text": "Its tests pass.", "command": ticket.check}],
    }
    return _block("Please do it.", instruction)


def _review(_asked: CompletionRequest, prompt: str) -> Answer:
    ticket = _ticket(prompt)
    if ticket.wanted in prompt:
        return _block(
            "I read it all.", {"decision": "approved", "notes": "It does what it should."}
        )
    return _block(
        "Something is missing.",
        {"decision": "changes_requested", "requested_changes": [ticket.ask]},
    )


# -- a worker ----------------------------------------------------------------------------------


def _discuss(_asked: CompletionRequest, _prompt: str) -> Answer:
    opinion = {
        "status": "proposal",
        "outputs": ["I agree, and would round once, on the sum."],
        "next_actions": ["Make the failing test pass."],
    }
    return _block("One thing first.", opinion)


def _work(asked: CompletionRequest, prompt: str) -> Answer:
    ticket = _ticket(prompt)
    steps = _steps(ticket, prompt)
    done = _calls_since(asked)
    failed = [result.text for result in asked.results if result.failed]
    if failed:
        return _block("I cannot go on.", {"status": "blocked", "issues": failed})
    if done < len(steps):
        return reply("", [call_for(steps[done], asked)])
    report = {
        "status": "completed",
        "outputs": ticket.outputs,
        "evidence": [f"{ticket.check} passes."],
    }
    return _block("It is done.", report)


def _steps(ticket: DemoTicket, prompt: str) -> tuple[DemoStep, ...]:
    if any(words in prompt for words in _CONFLICT):
        return RESOLVED
    return ticket.rework if ticket.ask and ticket.ask in prompt else ticket.steps


def _calls_since(asked: CompletionRequest) -> int:
    """How many tools were called since the prompt."""
    count = 0
    for item in reversed(asked.conversation):
        if isinstance(item, ToolCall):
            count += 1
        elif isinstance(item, TextMessage) and item.role == "user" and asked.newest in item.text:
            break
    return count


# -- tickets -----------------------------------------------------------------------------------


def _ticket(prompt: str) -> DemoTicket:
    """The ticket that a prompt is about, by the description that the plan gave it."""
    return next((ticket for ticket in TICKETS if ticket.description in prompt), TICKETS[0])


def _block(words: str, payload: Mapping[str, object]) -> Answer:
    return reply(f"{words}\n```json\n{json.dumps(payload, indent=1)}\n```")


_ANSWERS: Mapping[str, Callable[[CompletionRequest, str], Answer]] = {
    "intent_summary": _clear,
    "tasks": _plan,
    "draft_steps": _propose,
    "acceptance_criteria": _instruct,
    "decision": _review,
    "evidence": _work,
    "next_actions": _discuss,  # a report has it too, so this comes last
}
"""By a field that only this answer has."""
