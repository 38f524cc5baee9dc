"""The decision on an action: deny rules first, then allow rules, then the mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action, Ruling, Verdict
from coterie.tools.permission.allow import ActionPart, AllowRules, PartKind, parts_of
from coterie.tools.permission.deny import denying_rule
from coterie.tools.permission.paths import PRIVATE, PathPattern, resolve
from coterie.tools.permission.rules import Rule, RuleError

DEFAULTS: Mapping[Mode, Mapping[PartKind, Verdict]] = {
    "read": {"read": "allow", "read_elsewhere": "ask", "edit": "deny", "act": "deny"},
    "ask": {"read": "allow", "read_elsewhere": "ask", "edit": "ask", "act": "ask"},
    "accept-edits": {"read": "allow", "read_elsewhere": "ask", "edit": "allow", "act": "ask"},
    "full": {"read": "allow", "read_elsewhere": "allow", "edit": "allow", "act": "allow"},
}
"""The verdict of each mode where no rule applies."""

_STRICTEST_FIRST: Sequence[Verdict] = ("deny", "ask", "allow")


def decide(
    action: Action,
    permissions: Permissions,
    team: Permissions | None,
    root: Path,
    granted: Sequence[str] = (),
) -> Ruling:
    """Whether a member may do something unasked.

    `team` holds rules for everybody, `root` is the member's work folder, `granted` are rules that
    the user granted for this task.  Reads the file system, so it is not for the event loop.
    """
    both = (permissions, team) if team else (permissions,)
    deny, broken = _read(text for one in both for text in one.deny)
    top = resolve(str(root), "/").real
    cwd = resolve(action.cwd or ".", top)
    nobody_asks = permissions.mode == "full"
    forbidden = denying_rule(action, deny, top, cwd.real, nobody_asks=nobody_asks)
    if forbidden:
        return Ruling("deny", f"deny {forbidden}")
    allowed = [
        *(("allow", rule) for one in both for rule in _read(one.allow)[0]),
        *(("granted", rule) for rule in _read(granted)[0]),
    ]
    allow_rules = AllowRules(
        top,
        cwd.real,
        [(f"{word} {rule}", rule) for word, rule in allowed],
        [
            rule.about
            for rule in deny
            if rule.kind == "read" and isinstance(rule.about, PathPattern)
        ],
        through_link=cwd.named != cwd.real,
    )
    ruling = _combined(parts_of(action, allow_rules), permissions.mode)
    if broken and ruling.verdict == "allow":
        return Ruling("ask", f"deny {broken[0]} (which is no rule)")
    return ruling


def decide_at_once(
    action: Action, permissions: Permissions, team: Permissions | None
) -> Ruling | None:
    """The same without the file system: for a tool that is confined to the work folder and reads,
    while there are no deny rules.  None where `decide` is needed."""
    both = (permissions, team) if team else (permissions,)
    if not (action.confined and action.effect == "read") or any(one.deny for one in both):
        return None
    if any(name in path.casefold() for path in action.paths for name in PRIVATE):
        return None
    return Ruling(DEFAULTS[permissions.mode]["read"], f"mode {permissions.mode}")


def _read(texts: Iterable[str]) -> tuple[list[Rule], list[str]]:
    """The rules, and the texts that are none: a task may be older than the syntax of today."""
    rules: list[Rule] = []
    broken: list[str] = []
    for text in texts:
        try:
            rules.append(Rule.parse(text))
        except RuleError:
            broken.append(text)
    return rules, broken


def _combined(parts: Sequence[ActionPart], mode: Mode) -> Ruling:
    """The strictest verdict of all parts counts."""
    rulings = [_of_part(part, mode) for part in parts]
    strictest = min(rulings, key=lambda one: _STRICTEST_FIRST.index(one.verdict)).verdict
    return Ruling(strictest, ", ".join(_reasons(rulings, strictest)))


def _of_part(part: ActionPart, mode: Mode) -> Ruling:
    if part.rule:
        return Ruling("allow", part.rule)
    return Ruling(DEFAULTS[mode][part.kind], f"mode {mode}")


def _reasons(rulings: Sequence[Ruling], verdict: Verdict) -> Iterator[str]:
    """Each once; the rules before the mode."""
    reasons = dict.fromkeys(one.because for one in rulings if one.verdict == verdict)
    yield from sorted(reasons, key=lambda reason: reason.startswith("mode "))
