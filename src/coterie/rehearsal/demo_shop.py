"""The model of `coterie demo`: a manager and workers that add coupons to a small shop.

It remembers nothing.  What is asked, of which ticket and for which time, is read from the prompt;
how far the work is, from the tools that were called since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from coterie.rehearsal.demo_plan import PARTS, SETTLED, Act, DemoTicket, call_for
from coterie.rehearsal.model_api import Answer, CompletionRequest, TextMessage, ToolCall, reply
from coterie.rehearsal.simulation import Simulation, newest_message

_SENT_BACK = "It was sent back:"
_CONFLICT = ("Both versions stand between conflict marks", "Both sides of a conflict are still in")

Saying = Callable[[CompletionRequest, str], Answer]


class DemoShop:
    """A responder for every agent of the demo's team, whatever program it is."""

    async def answer(self, asked: CompletionRequest) -> Answer:
        """What the manager or the worker says next, or the tool that it calls."""
        prompt = newest_message(asked)
        for words, say in _SAYINGS.items():
            if words in prompt:
                return say(asked, prompt)
        return await Simulation().answer(asked)


# -- the manager -------------------------------------------------------------------------------


def _clear(_asked: CompletionRequest, _prompt: str) -> Answer:
    wanted = "Coupons that take a part off the total, and a receipt that shows it."
    return _block("All of it is clear.", {"status": "clear", "intent_summary": wanted})


def _plan(_asked: CompletionRequest, _prompt: str) -> Answer:
    tasks = [
        {
            "task_id": part.id,
            "description": part.description,
            "dependencies": part.after,
            "expected_outputs": part.files,
            "risks": part.risks,
        }
        for part in PARTS
    ]
    return _block("Two parts can be done side by side.", {"tasks": tasks})


def _propose(_asked: CompletionRequest, prompt: str) -> Answer:
    part = _part(prompt)
    proposal = {
        "summary": part.description,
        "open_questions": ["Where is it rounded?"],
        "risks": part.risks,
        "draft_steps": [f"Change {name}." for name in part.files],
    }
    return _block("This is how I would do it.", proposal)


def _instruct(_asked: CompletionRequest, prompt: str) -> Answer:
    part = _part(prompt)
    instruction = {
        "summary": part.description,
        "steps": [f"Write {name}." for name in part.files],
        "acceptance_criteria": [{"text": "Its tests pass.", "command": part.check}],
    }
    return _block("Please do it.", instruction)


def _review(_asked: CompletionRequest, prompt: str) -> Answer:
    part = _part(prompt)
    if part.wanted in prompt:
        return _block(
            "I read it all.", {"decision": "approved", "notes": "It does what it should."}
        )
    return _block(
        "Something is missing.",
        {"decision": "changes_requested", "requested_changes": [part.ask]},
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
    part = _part(prompt)
    acts = _acts(part, prompt)
    done = _calls_since(asked)
    failed = [result.text for result in asked.results if result.failed]
    if failed:
        return _block("I cannot go on.", {"status": "blocked", "issues": failed})
    if done < len(acts):
        return reply("", [call_for(acts[done], asked)])
    report = {
        "status": "completed",
        "outputs": part.outputs,
        "evidence": [f"{part.check} passes."],
    }
    return _block("It is done.", report)


def _acts(part: DemoTicket, prompt: str) -> tuple[Act, ...]:
    if any(words in prompt for words in _CONFLICT):
        return SETTLED
    return part.again if _SENT_BACK in prompt and part.again else part.acts


def _calls_since(asked: CompletionRequest) -> int:
    """How many tools were called since the prompt."""
    count = 0
    for item in reversed(asked.conversation):
        if isinstance(item, ToolCall):
            count += 1
        elif isinstance(item, TextMessage) and item.role == "user" and asked.newest in item.text:
            break
    return count


# -- parts -------------------------------------------------------------------------------------


def _part(prompt: str) -> DemoTicket:
    """The task that a prompt is about."""
    return next((part for part in PARTS if part.description in prompt), PARTS[0])


def _block(words: str, payload: Mapping[str, object]) -> Answer:
    return reply(f"{words}\n```json\n{json.dumps(payload, indent=1)}\n```")


_SAYINGS: Mapping[str, Saying] = {
    "Is anything unclear": _clear,
    "Split the goal into tasks": _plan,
    "Give the whole plan as it should be": _plan,
    "say how you would have it done": _propose,
    "Write the instruction for ticket": _instruct,
    "an instruction that gets around it": _instruct,
    "wants your opinion before you begin": _discuss,
    "Is it done? Approve only": _review,
    "Do the work now": _work,
}
"""By words of the prompts that Coterie sends."""
