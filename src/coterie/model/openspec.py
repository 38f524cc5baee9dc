"""A plan as an OpenSpec change: proposal, design, tasks, and what it adds to a capability's spec.

The files follow the layout of OpenSpec 1.13, so that `openspec validate --strict` accepts them
whatever the plan says.  `change_problems` is a built-in check of their form, for when that tool is
not installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from zlib import crc32

from coterie.model.artifact_table import artifact_file
from coterie.model.markdown import bullets, document, inline, paragraph, section
from coterie.model.planning import Requirement, Scenario, StructuredPlan

_LONGEST_ID, _LONGEST_NAME = 48, 120
_NORMATIVE = re.compile(r"\b(?:SHALL|MUST)\b")
_CLOSING = re.compile(r"(?:\s+#+)+$")
"""Closing marks of a heading, which are not part of its name."""
OPENSPEC_FILES = ("openspec.change", "openspec.design", "openspec.tasks", "openspec.spec")


def change_id(title: str, task: str) -> str:
    """The id of a change: a slug of its title, and the task id to make it unique."""
    return f"{_slug(title)}-{_slug(task)}"


def capability_of(plan: StructuredPlan) -> str:
    """The folder of the capability that a plan changes."""
    return _slug(plan.capability or plan.title)


def _slug(text: str) -> str:
    words = re.findall(r"[a-z0-9]+", text.lower())
    short = "-".join(words)[:_LONGEST_ID].strip("-")
    if not short:
        return f"change-{crc32(text.encode(errors='replace')):08x}"
    return short if short[0].isalpha() else f"change-{short}"


def change_files(plan: StructuredPlan) -> Mapping[str, str]:
    """The contents of a change's files, by artifact name."""
    return {
        "openspec.change": _proposal(plan),
        "openspec.design": _design(plan),
        "openspec.tasks": _tasks(plan),
        "openspec.spec": _spec(plan),
    }


def change_paths(plan: StructuredPlan, change: str) -> Mapping[str, str]:
    """The paths of these files, relative to the folder that contains `openspec`."""
    capability = capability_of(plan)
    return {name: artifact_file(name, change, capability) for name in OPENSPEC_FILES}


def _proposal(plan: StructuredPlan) -> str:
    capability = f"- `{capability_of(plan)}`: {inline(plan.title)}"
    what = "\n\n".join(part for part in (paragraph(plan.what), bullets(plan.scope)) if part)
    impact = (f"`{one.path}` ({one.type}) {one.purpose}" for one in plan.file_impacts)
    return document(
        f"Proposal: {plan.title}",
        section("Why", paragraph(plan.why) or inline(plan.title)),
        section("What Changes", what or inline(plan.title)),
        section("Capabilities", section("New Capabilities", capability, 3).rstrip()),
        section("Impact", bullets(impact, "- No file is named yet.")),
    )


def _design(plan: StructuredPlan) -> str:
    goals = f"**Goals:**\n{bullets(plan.scope, '- as the proposal says')}"
    non_goals = f"**Non-Goals:**\n{bullets(plan.non_goals, '- none named')}"
    risks = (
        f"{one.description}" + (f" → {one.mitigation}" if one.mitigation else "")
        for one in plan.risks
    )
    return document(
        f"Design: {plan.title}",
        section("Context", bullets(plan.assumptions, "No assumptions.")),
        section("Goals / Non-Goals", f"{goals}\n\n{non_goals}"),
        section("Decisions", paragraph(plan.design) or "None beyond the proposal."),
        section("Risks / Trade-offs", bullets(risks, "- none named")),
        section("Open Questions", bullets(plan.open_questions)),
    )


def _tasks(plan: StructuredPlan) -> str:
    groups: list[tuple[str, tuple[str, ...]]] = [
        (one.title, tuple(line for line in one.details if line.strip()) or (one.title,))
        for one in plan.tasks
    ] or [("Implementation", tuple(_impact_tasks(plan)) or (plan.what,))]
    cases = tuple(one.name for one in plan.test_plan.key_cases)
    if cases:
        groups.append(("Tests", cases))
    return document(
        f"Tasks: {plan.title}",
        *(_group(number, *group) for number, group in enumerate(groups, 1)),
    )


def _impact_tasks(plan: StructuredPlan) -> Iterator[str]:
    for one in plan.file_impacts:
        yield f"{one.type} `{one.path}`" + (f": {one.purpose}" if one.purpose else "")


def _group(number: int, title: str, lines: tuple[str, ...]) -> str:
    tasks = (f"- [ ] {number}.{place} {inline(line)}" for place, line in enumerate(lines, 1))
    return section(f"{number}. {inline(title, _LONGEST_NAME) or 'Work'}", "\n".join(tasks))


def _spec(plan: StructuredPlan) -> str:
    required = plan.requirements or (Requirement(title=plan.title, text=plan.what),)
    names = _unique(_heading(one.title) or f"Requirement {n}" for n, one in enumerate(required, 1))
    blocks = [_requirement(name, one) for name, one in zip(names, required, strict=True)]
    purpose = paragraph(f"{plan.title}: {plan.what}")
    added = "## ADDED Requirements\n\n" + "\n\n".join(blocks) + "\n"
    return document("Spec Delta", section("Purpose", purpose), added)


def _requirement(name: str, requirement: Requirement) -> str:
    text = inline(requirement.text or requirement.title) or name
    body = text if _NORMATIVE.search(text) else f"This MUST hold: {text}"
    shown = [one for one in requirement.scenarios if _says_something(one)] or [Scenario(then=text)]
    titles = _unique(_heading(one.name) or name for one in shown)
    scenarios = [_scenario(title, one) for title, one in zip(titles, shown, strict=True)]
    return "\n\n".join((f"### Requirement: {name}\n{body}", *scenarios))


def _says_something(scenario: Scenario) -> bool:
    return any(inline(text) for text in (scenario.given, scenario.when, scenario.then))


def _scenario(title: str, scenario: Scenario) -> str:
    steps = {
        "GIVEN": inline(scenario.given),
        "WHEN": inline(scenario.when) or "it is used",
        "THEN": inline(scenario.then) or "it holds",
    }
    lines = [f"- **{word}** {text}" for word, text in steps.items() if text]
    return "\n".join((f"#### Scenario: {title}", *lines))


def _heading(text: str) -> str:
    """A text in the form of a heading's name."""
    return _CLOSING.sub("", inline(text.strip("# \t"), _LONGEST_NAME))


def _unique(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        number, fresh = 1, name
        while fresh.casefold() in seen:
            number += 1
            fresh = f"{name} ({number})"
        seen.add(fresh.casefold())
        yield fresh


# -- built-in check of the form of a change ------------------------------------------------------

_HEADING = re.compile(r"^(?P<marks>#{1,6})[ \t]+(?P<name>.+?)[ \t]*$", re.MULTILINE)
_REQUIREMENT, _SCENARIO = "requirement:", "scenario:"
_DELTAS = ("added requirements", "modified requirements", "removed requirements")


def change_problems(files: Mapping[str, str]) -> list[str]:
    """The problems with the form of a change; none if it has everything OpenSpec requires."""
    return [
        *_proposal_problems(files.get("openspec.change", "")),
        *_task_problems(files.get("openspec.tasks", "")),
        *_spec_problems(files.get("openspec.spec", "")),
    ]


def _parts(text: str, level: int) -> list[tuple[str, str]]:
    """The sections of a level, each with the text under its heading."""
    code = [match.span() for match in re.finditer(r"^(```|~~~).*?^\1", text, re.M | re.S)]
    headings = [
        match
        for match in _HEADING.finditer(text)
        if len(match["marks"]) <= level and not any(a <= match.start() < b for a, b in code)
    ]
    ends = [*(match.start() for match in headings), len(text)]
    return [
        (match["name"], text[match.end() : ends[place + 1]].strip())
        for place, match in enumerate(headings)
        if len(match["marks"]) == level
    ]


def _proposal_problems(text: str) -> Iterator[str]:
    sections = {name.lower(): body for name, body in _parts(text, 2)}
    for name in ("Why", "What Changes"):
        if not sections.get(name.lower()):
            yield f'proposal.md has no text under "## {name}"'


def _task_problems(text: str) -> Iterator[str]:
    if not re.search(r"^- \[[ x]\] \S", text, re.MULTILINE):
        yield "tasks.md has no checklist item"


def _spec_problems(text: str) -> Iterator[str]:
    deltas = [body for name, body in _parts(text, 2) if name.lower() in _DELTAS]
    blocks = [
        (name[len(_REQUIREMENT) :].strip(), body)
        for delta in deltas
        for name, body in _parts(delta, 3)
        if name.lower().startswith(_REQUIREMENT)
    ]
    if not blocks:
        yield "spec.md adds, changes or removes no requirement"
    seen: set[str] = set()
    for name, body in blocks:
        if name in seen:
            yield f'spec.md has the requirement "{name}" twice'
        seen.add(name)
        if not _NORMATIVE.search(body.split("####")[0]):
            yield f'spec.md: the requirement "{name}" contains neither SHALL nor MUST'
        scenarios = [one for title, one in _parts(body, 4) if title.lower().startswith(_SCENARIO)]
        if not any(scenarios):
            yield f'spec.md has no scenario for "{name}"'
