"""Fills in the shape of an answer, field by field, for a stand-in for a model.

The meaning of a field is inferred from its name and type, never from the surrounding prompt, so
that even an unknown workflow gets an answer it can use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coterie.rehearsal.lenient_json import Json, items, mapping, text
from coterie.rehearsal.prompt_facts import Part, PromptFacts, any_case, slug
from coterie.rehearsal.shape import SHOWN

_GOOD = any_case(
    r"clear|complete[d]?|approve[ds]?|accept(?:ed)?|pass(?:ed)?|done|ok|yes|success(?:ful)?|green"
    r"|finished|ready|go|valid|true",
)
_BAD = any_case(
    r"blocked|error|fail(?:ed|ure)?|reject(?:ed)?|no|open|changes?[_ -]?requested|invalid|unclear"
    r"|needs?[_ -].*|false|abort(?:ed)?|timeout",
)
_TROUBLE = any_case(
    r"issues?|risks?|(?:open_?)?questions?|requested_?changes|next_?actions?|errors?|problems?"
    r"|blockers?|concerns?|warnings?|findings?|failures?|missing",
)
_QUESTIONS = any_case(r"(?:open_?)?questions?")
_STILL_OPEN = any_case(r"open|unclear")
"""Choices that say that the answer comes with a question."""
_MAIN_TROUBLE = any_case(r"issues?|errors?|problems?|blockers?|failures?")
_FILES = any_case(r".*(?:file|output|path|artifact|resource|uri|changed)s?")
_AFTER = any_case(r"dependenc(?:y|ies)|depends_?on|after|requires|blocked_?by")
_STEPS = any_case(r".*(?:step|action|todo)s?")
_ID = re.compile(r"id|key|name|.*_id|.*Id", re.ASCII)
_ACTION_FIELDS = any_case(r"command|ask_?user|capability|cmd|script")
"""Fields that an example shows but only some answers have, because they request an action."""
_USEFUL_FIELDS = any_case(
    r"evidence|notes?|acceptance_?criteria|.*steps?|requirements?|scenarios?|scope|design|tasks?"
    r"|.*_plan|strategy|.*_?cases?|.*_?impacts?|when|then|consensus",
)
"""Optional fields without which an answer would be useless."""
_PATH = "path"
_NAMED = re.compile(rf"{_ID.pattern}|title", re.ASCII)
_DEEPEST = 8

STAND_IN = "Placeholder text from a rehearsal: no model was asked."


@dataclass(frozen=True)
class Filling:
    """Fills in one shape from the facts of a prompt."""

    shape: Mapping[str, object]
    facts: PromptFacts

    def value(self) -> object:
        """The whole answer."""
        return self._value(self.shape, "", None, 0)

    @property
    def reports_work(self) -> bool:
        """Whether the answer reports written files, which must therefore be written first."""
        fields = self._properties(self.shape)
        files = any(_FILES.fullmatch(name) and self._is_list(part) for name, part in fields.items())
        return files and any(self._states_outcome(self._resolved(part)) for part in fields.values())

    def _states_outcome(self, part: Json) -> bool:
        """Whether a field states how work ended, not just an opinion of it."""
        choices = [text(one) for one in items(part.get("enum"))]
        return any(map(_GOOD.fullmatch, choices)) and any(map(_BAD.fullmatch, choices))

    def _value(
        self, unresolved: Mapping[str, object], name: str, part: Part | None, depth: int
    ) -> object:
        shape = self._resolved(unresolved)
        if "const" in shape:
            return shape["const"]
        if choices := items(shape.get("enum")):
            return self._choice(choices, shape)
        kind = shape.get("type")
        kind = text((items(kind) or [kind])[0]).lower() or _implied(shape)
        match kind:
            case "object":
                return self._object(shape, part, depth)
            case "array":
                return self._list(shape, name, part, depth)
            case "boolean":
                return not (_TROUBLE.fullmatch(name) or _BAD.fullmatch(name))
            case "integer" | "number":
                return _number(shape, kind)
            case "null":
                return None
            case _:
                return self._text(shape, name, part)

    def _choice(self, choices: list[object], shape: Json) -> object:
        if "default" in shape and shape["default"] in choices:
            return shape["default"]
        if self.facts.question:
            for one in choices:
                if _STILL_OPEN.fullmatch(str(one)):
                    return one
        wanted, other = (_BAD, _GOOD) if self.facts.trouble else (_GOOD, _BAD)

        def rank(one: object) -> int:
            name = str(one)
            return 0 if wanted.fullmatch(name) else 2 if other.fullmatch(name) else 1

        return min(choices, key=rank)

    def _object(self, shape: Json, part: Part | None, depth: int) -> Json:
        if depth > _DEEPEST:
            return {}
        fields = self._properties(shape)
        required = {text(name) for name in items(shape.get("required"))}
        shown = {text(name) for name in items(shape.get(SHOWN))}
        filled: Json = {}
        for name, unresolved in fields.items():
            wanted = name in required or (
                not _ACTION_FIELDS.fullmatch(name) and (name in shown or self._is_of_use(name))
            )
            if wanted:
                value = self._value(unresolved, name, part, depth + 1)
                if name in required or value not in ({}, None, ""):
                    filled[name] = value
        return filled

    def _is_of_use(self, name: str) -> bool:
        """Whether an optional field is worth filling in."""
        asks = self.facts.question and _QUESTIONS.fullmatch(name)
        return bool(asks or _FILES.fullmatch(name) or _USEFUL_FIELDS.fullmatch(name))

    def _list(self, shape: Json, name: str, part: Part | None, depth: int) -> list[object]:
        each = self._resolved(mapping(shape.get("items")))
        inner = self._properties(each)
        if part is None and not _TROUBLE.fullmatch(name):
            parts = self._parts(inner)
            if parts:
                return [self._value(each, name, one, depth + 1) for one in parts]
        if inner and not _TROUBLE.fullmatch(name):
            return [self._value(each, name, part, depth + 1)]
        values = list(self._lines(name, part))
        least = shape.get("minItems")
        while isinstance(least, int) and len(values) < least:
            values.append(self._value(each, name, part, depth + 1))
        return values

    def _parts(self, fields: Mapping[str, Json]) -> tuple[Part, ...]:
        """Return what a list of objects with these fields is about: files, or parts of the goal."""
        facts = self.facts
        if _PATH in fields:
            return tuple(Part(slug(file), facts.goal, file) for file in facts.outputs)
        return facts.parts() if any(map(_NAMED.fullmatch, fields)) else ()

    def _lines(self, name: str, part: Part | None) -> list[object]:
        """Return the entries of a list of texts."""
        facts = self.facts
        if _QUESTIONS.fullmatch(name) and part is None:
            return [facts.question] if facts.question else []
        if _TROUBLE.fullmatch(name):
            return [facts.trouble] if facts.trouble and _MAIN_TROUBLE.fullmatch(name) else []
        if _AFTER.fullmatch(name):
            return list(part.after) if part else []
        files = (part.file,) if part else facts.files
        if _FILES.fullmatch(name):
            return [] if facts.trouble else list(files)
        if _STEPS.fullmatch(name):
            return [f"Write {file}." for file in files] or [_short(facts.goal)]
        return [STAND_IN]

    def _text(self, shape: Json, name: str, part: Part | None) -> str:
        longest = shape.get("maxLength")
        value = self._full_text(shape, name, part)
        return value[:longest] if isinstance(longest, int) else value

    def _full_text(self, shape: Json, name: str, part: Part | None) -> str:
        facts, examples = self.facts, [text(one) for one in items(shape.get("examples"))]
        for fits, say in self._meanings(part):
            if fits(name):
                return say()
        if examples and re.fullmatch(r"[a-z][a-z_]+", examples[0]):
            return examples[0]  # a keyword of the workflow, such as "pending"
        if shape.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        if facts.trouble:
            return facts.trouble
        return _short(part.description if part else facts.goal) or STAND_IN

    def _meanings(
        self, part: Part | None
    ) -> list[tuple[Callable[[str], object], Callable[[], str]]]:
        facts = self.facts
        ids = [one.id for one in facts.parts()] if part else []
        people = facts.people
        turn = ids.index(part.id) if part and part.id in ids else 0
        who = people[turn % len(people)] if people else ""
        return [
            (re.compile(r"(?:role|worker|member|owner|assignee)(?:_?id)?").fullmatch, lambda: who),
            (any_case(r"ticket_?id").fullmatch, lambda: facts.ticket or slug(facts.goal)),
            (_ID.fullmatch, lambda: part.id if part else slug(facts.goal)),
            (_FILES.fullmatch, lambda: part.file if part else next(iter(facts.files), "")),
            (re.compile(r"notes?|evidence|reason").fullmatch, lambda: facts.trouble or STAND_IN),
        ]

    def _resolved(self, unresolved: Mapping[str, object]) -> Json:
        """Follow a shape's references, and take the first of its alternatives that is not null."""
        shape = dict(unresolved)
        for _ in range(_DEEPEST):
            named = text(shape.get("$ref")).rpartition("/")[2]
            known = mapping(self.shape.get("$defs")) | mapping(self.shape.get("definitions"))
            choices = [mapping(one) for one in items(shape.get("anyOf") or shape.get("oneOf"))]
            all_of = [mapping(one) for one in items(shape.get("allOf"))]
            if named in known:
                rest = {key: value for key, value in shape.items() if key != "$ref"}
                shape = mapping(known[named]) | rest
            elif choices or all_of:
                real = [one for one in choices if one.get("type") != "null"] or choices or all_of
                rest = {k: v for k, v in shape.items() if k not in ("anyOf", "oneOf", "allOf")}
                shape = real[0] | rest
            else:
                break
        return shape

    def _properties(self, shape: Mapping[str, object]) -> dict[str, Json]:
        properties = mapping(self._resolved(shape).get("properties"))
        return {name: mapping(part) for name, part in properties.items()}

    def _is_list(self, part: Json) -> bool:
        return self._resolved(part).get("type") == "array"


def _implied(shape: Json) -> str:
    if "properties" in shape:
        return "object"
    return "array" if "items" in shape else ""


def _number(shape: Json, kind: str) -> float:
    for key in ("maximum", "minimum"):
        bound = shape.get(key)
        if isinstance(bound, int | float):
            return int(bound) if kind == "integer" else bound
    return 1


def _short(value: str, longest: int = 160) -> str:
    line = " ".join(value.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
