"""What the rules and the mode say of an action: deny first, then allow, then the mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from coterie.model.action import Action, Ruling, Verdict
from coterie.model.team import Mode, Permissions
from coterie.tools.permission.allow import ActionPart, AllowRules, PartKind, parts_of
from coterie.tools.permission.deny import denying_rule
from coterie.tools.permission.paths import PRIVATE, PathPattern, resolve
from coterie.tools.permission.rules import Rule, RuleError

UNASKED: Mapping[Mode, Mapping[PartKind, Verdict]] = {
    "read": {"look": "allow", "peek": "ask", "edit": "deny", "act": "deny"},
    "ask": {"look": "allow", "peek": "ask", "edit": "ask", "act": "ask"},
    "accept-edits": {"look": "allow", "peek": "ask", "edit": "allow", "act": "ask"},
    "full": {"look": "allow", "peek": "allow", "edit": "allow", "act": "allow"},
}
"""What each mode says of what no rule speaks of."""

_HEAVIEST_FIRST: Sequence[Verdict] = ("deny", "ask", "allow")


def decide(
    action: Action,
    permissions: Permissions,
    team: Permissions | None,
    root: Path,
    granted: Sequence[str] = (),
) -> Ruling:
    """Whether a member may do something unasked.

    `team` holds rules for everybody, `root` is the member's work folder, `granted` are rules that
    the user agreed to in this task.  Looks at the file system, so it is not for the event loop.
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
    allowance = AllowRules(
        top,
        cwd.real,
        [(f"{word} {rule}", rule) for word, rule in allowed],
        [
            rule.about
            for rule in deny
            if rule.kind == "read" and isinstance(rule.about, PathPattern)
        ],
        by_link=cwd.named != cwd.real,
    )
    ruling = _combined(parts_of(action, allowance), permissions.mode)
    if broken and ruling.verdict == "allow":
        return Ruling("ask", f"deny {broken[0]} (which is no rule)")
    return ruling


def decide_at_once(
    action: Action, permissions: Permissions, team: Permissions | None
) -> Ruling | None:
    """The same, where nothing has to be looked up: a tool that cannot leave the work folder looks
    at something in it, and nothing is forbidden.  None where `decide` has to tell."""
    both = (permissions, team) if team else (permissions,)
    if not (action.confined and action.effect == "read") or any(one.deny for one in both):
        return None
    if any(name in path.casefold() for path in action.paths for name in PRIVATE):
        return None
    return Ruling(UNASKED[permissions.mode]["look"], f"mode {permissions.mode}")


def _read(texts: Iterable[str]) -> tuple[list[Rule], list[str]]:
    """The rules among texts, and what is none: a task may be older than the rules of today."""
    rules: list[Rule] = []
    broken: list[str] = []
    for text in texts:
        try:
            rules.append(Rule.parse(text))
        except RuleError:
            broken.append(text)
    return rules, broken


def _combined(parts: Sequence[ActionPart], mode: Mode) -> Ruling:
    """An action is allowed if all of it is; what is heaviest against it counts."""
    rulings = [_of_part(part, mode) for part in parts]
    heaviest = min(rulings, key=lambda one: _HEAVIEST_FIRST.index(one.verdict)).verdict
    return Ruling(heaviest, ", ".join(_reasons(rulings, heaviest)))


def _of_part(part: ActionPart, mode: Mode) -> Ruling:
    if part.rule:
        return Ruling("allow", part.rule)
    return Ruling(UNASKED[mode][part.kind], f"mode {mode}")


def _reasons(rulings: Sequence[Ruling], verdict: Verdict) -> Iterator[str]:
    """Each once; the rules before the mode."""
    reasons = dict.fromkeys(one.because for one in rulings if one.verdict == verdict)
    yield from sorted(reasons, key=lambda reason: reason.startswith("mode "))
