"""The responder without a script: it answers what it is asked, and says that it is a stand-in.

Like a model, it learns its role from the system texts and its task from the newest message.  If
that shows a JSON object as the shape of the answer, it returns one, whatever the workflow; if it
asks for work, the simulation writes files with the tools that it is offered.  The same request
always gets the same answer.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from coterie.rehearsal import model_api as api
from coterie.rehearsal.filling import Filling
from coterie.rehearsal.lenient_json import compact, items, mapping, text
from coterie.rehearsal.model_api import CompletionRequest, reply
from coterie.rehearsal.prompt_facts import PromptFacts, any_case, files_in
from coterie.rehearsal.shape import shape_in
from coterie.rehearsal.tool_steps import (
    ToolStep,
    call_for,
    can_edit,
    next_step,
    since_prompt,
)

_STAND_IN = "stand-in for a model in this rehearsal"
_ROLE = re.compile(r"\bYou are (?P<who>(?:an? |the |[A-Z])[^.\n]*)\.(?=(?P<duty>[^.\n]*\.)?)")
# The CLIs' own system prompts say "You are …" too.
_NOT_A_ROLE = re.compile(
    r"\b(?:CLI|Claude|Codex|Gemini|Qwen|opencode|agent working|epistemically|powered by)\b"
)
_SYSTEM = re.compile(r"\s*\[SYSTEM\].*?(?=\[CONTEXT\]|\[MESSAGE\]|\Z)", re.DOTALL)
_READ = any_case(
    r"\b(?:read|open|look at|review|see|check)\b[^.\n]{0,40}?[\s`'\"]"
    r"(?P<file>[\w./-]*\w\.\w{1,8})\b",
)
_CHANGES = any_case(
    r"\b(?:add|append|change|create|edit|fix|implement|make|mend|refactor|rename|rewrite|update"
    r"|write)\b",
)
_UNTOUCHED = any_case(r"\b(?:do not|don't|without|never) (?:chang|edit|touch|writ)")
"""How a prompt says that it wants work described rather than done."""
_FOLDER = re.compile(
    r"(?:<cwd>|[Ww]orking directory: |working in the directory: |Directories:\*\*\n\s*- )"
    r"(?P<folder>/[^\n<]*)"
)
_READ_NOTHING: tuple[api.Client, ...] = ("stand-in", "other")
"""Clients that are not made to read a file merely because a message names it."""


class Simulation:
    """A responder that knows nothing, says so, and still does what it is asked."""

    def __init__(self, question: str = "") -> None:
        self._question = question
        """What it asks the user before planning, if a prompt leaves room for questions."""

    async def answer(self, request: CompletionRequest) -> api.Answer:
        """Return the requested JSON object, a step of the work, or two sentences in the role."""
        message = newest_message(request)
        if request.schema:
            return _filled(request, Filling(request.schema, self._facts(message)), message)
        shape, prompt = shape_in(message)
        if shape is not None:
            return _filled(request, Filling(shape, self._facts(prompt)), prompt)
        if is_job(request, message):
            return _do(request, PromptFacts.of(message))
        if request.results:
            return reply(_about_results(request))
        if call := _reading(request, message):
            return reply(f"I'll look at {_named(message)} first.", [call])
        return reply(_as_role(request, message))

    def _facts(self, prompt: str) -> PromptFacts:
        facts = PromptFacts.of(prompt)
        return facts.asking(self._question, prompt) if self._question else facts


def _filled(request: CompletionRequest, filling: Filling, prompt: str) -> api.Answer:
    """Return an object of the requested shape, once the work that it reports is done."""
    words = f"As a {_STAND_IN}, I answer:"
    if filling.reports_work and not _UNTOUCHED.search(prompt):
        step = next_step(request, filling.facts.outputs, _folder(request))
        if isinstance(step, ToolStep):
            return reply("", [call_for(step, request)])
        facts = replace(filling.facts, files=filling.facts.outputs, trouble=step)
        filling = replace(filling, facts=facts)
        words = _outcome(step, facts.outputs)
    value = filling.value()
    if request.schema:
        return reply(compact(value))
    return reply(f"{words}\n```json\n{json.dumps(value, ensure_ascii=False, indent=1)}\n```")


def _do(request: CompletionRequest, facts: PromptFacts) -> api.Answer:
    """Do a job step by step, then describe its outcome."""
    step = next_step(request, facts.outputs, _folder(request))
    if isinstance(step, ToolStep):
        return reply("", [call_for(step, request)])
    who, _ = role(request)
    return reply(f"{_opening(who)} {_outcome(step, facts.outputs)}")


def _outcome(problem: str, files: tuple[str, ...]) -> str:
    return f"I could not do this: {problem}" if problem else f"I wrote to {', '.join(files)}."


def is_job(request: CompletionRequest, message: str) -> bool:
    """Whether files should be written: for any first message in `solo`, elsewhere for a message
    that names a file to change; never for a question."""
    if not can_edit(request) or message.rstrip().endswith("?"):
        return False
    is_all = request.workflow == "solo" and not _has_past(request)
    return is_all or bool(_CHANGES.search(message) and files_in(message))


def _has_past(request: CompletionRequest) -> bool:
    """Whether something was said before the newest message."""
    earlier = [item for item in request.conversation if item not in since_prompt(request)]
    answered = any(isinstance(item, api.TextMessage) and item.role != "user" for item in earlier)
    return answered or "[CONTEXT]" in request.newest


def newest_message(request: CompletionRequest) -> str:
    """Return the newest message without the context that Coterie sends along."""
    return request.newest.rpartition("[MESSAGE]")[2].strip()


def role(request: CompletionRequest) -> tuple[str, str]:
    """Return who the member is and what its duty is, as far as its role text says."""
    before = _SYSTEM.match(request.newest)  # for an agent without a flag for system texts
    roles = [*_ROLE.finditer(request.instructions), *_ROLE.finditer(before[0] if before else "")]
    own = [match for match in roles if not _NOT_A_ROLE.search(match["who"])]
    if not own:
        return "", ""
    return own[-1]["who"].strip(), (own[-1]["duty"] or "").strip()


def _as_role(request: CompletionRequest, message: str) -> str:
    who, duty = role(request)
    in_role = f", in this role: “{duty}”" if duty else "."
    return f"{_opening(who)} A model would now reply to “{_short(message)}”{in_role}"


def _opening(who: str) -> str:
    return f"{_capital(who)} here, a {_STAND_IN}." if who else f"This is a {_STAND_IN}."


def _about_results(request: CompletionRequest) -> str:
    who, _ = role(request)
    newest = request.results[-1]
    lines = len(newest.text.splitlines())
    got = f"{lines} {'line' if lines == 1 else 'lines'}"
    outcome = f"The tool failed: “{_short(newest.text)}”." if newest.failed else f"I got {got}."
    who = _capital(who) or "Note"
    return f"{outcome} {who}: I am a {_STAND_IN}, so I have nothing to say about it."


def _reading(request: CompletionRequest, message: str) -> api.ToolCall | None:
    name = _named(message)
    if not name or request.client in _READ_NOTHING:
        return None
    path = str(PurePosixPath(_folder(request), name))  # most clients accept no relative path
    target = f"-- {shlex.quote(path)}" if request.client == "codex" else path
    call = call_for(ToolStep("read", target), request)
    return call if call.name in request.tools else None


def _named(message: str) -> str:
    match = _READ.search(message)
    return match["file"] if match else ""


def _folder(request: CompletionRequest) -> str:
    messages = [item.text for item in request.conversation if isinstance(item, api.TextMessage)]
    match = _FOLDER.search("\n".join([*request.system, *messages]))
    return match["folder"].strip() if match else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _short(text: str, longest: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


_DEEPEST = 8
_PLAINEST: Mapping[str, object] = {"boolean": False, "null": None}


def side_call(request: CompletionRequest) -> tuple[str, api.ModelReply] | None:
    """Return the name of a side call and its answer; None for a turn."""
    match request.client:
        case "opencode" if request.instructions.startswith("You are a title generator"):
            return "title", reply(_title(request))
        # A turn of Gemini CLI is streamed and has tools; its router, next-speaker check, loop
        # detector, edit corrector and session summary have neither.
        case "gemini" if not request.stream and not request.tools:
            if request.schema:
                return "choice", reply(compact(minimal_value(request.schema)))
            return "summary", reply(_title(request))
        case "qwen" if request.tools == ("respond_in_schema",):
            return "choice", reply("")
        case "qwen" if "memory extraction subagent" in request.instructions[:200]:
            return "memory", reply("There is nothing to remember.")
        case _:
            return None


def _title(request: CompletionRequest) -> str:
    words = request.newest.strip('"').split()[:6]
    return " ".join(["Rehearsal:", *words])[:48]


def minimal_value(schema: Mapping[str, object], depth: int = 0) -> object:
    """Return the simplest value that satisfies a schema, as far as the CLIs' schemas go."""
    if choices := items(schema.get("enum")):
        return choices[0]
    kind = schema.get("type")
    kind = text((items(kind) or [kind])[0]).lower()
    match kind:
        case "object":
            return _object(schema, depth)
        case "array":
            least = _least(schema, "minItems", 0)
            return [minimal_value(mapping(schema.get("items")), depth + 1)] * least
        case "integer":
            return _least(schema, "minimum", 1)  # scores start at 1, even if the schema omits it
        case "number":
            return _least(schema, "minimum", 0)
        case _:
            return schema.get("const", _PLAINEST.get(kind, ""))


def _object(schema: Mapping[str, object], depth: int) -> object:
    if depth > _DEEPEST:
        return {}
    parts = mapping(schema.get("properties"))
    wanted = {text(name) for name in items(schema.get("required"))}
    return {
        name: minimal_value(mapping(part), depth + 1)
        for name, part in parts.items()
        if name in wanted
    }


def _least(schema: Mapping[str, object], key: str, otherwise: int) -> int:
    least = schema.get(key)
    return int(least) if isinstance(least, int | float) else otherwise
