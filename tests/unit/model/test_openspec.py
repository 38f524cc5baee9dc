"""A plan as an OpenSpec change; tests/live shows that the real tool accepts it."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from coterie.model.openspec import (
    capability_of,
    change_files,
    change_id,
    change_paths,
    change_problems,
)
from coterie.model.planning import StructuredPlan


def plan(**more: object) -> StructuredPlan:
    return StructuredPlan.model_validate(
        {"title": "Coupons", "why": "They are wanted.", "what": "A coupon lowers it.", **more}
    )


def test_the_files_of_a_change() -> None:
    given = plan(
        capability="Check out",
        requirements=[
            {
                "title": "A coupon lowers the total",
                "text": "The total MUST be lower.",
                "scenarios": [{"name": "ten", "when": "SAVE10 is given", "then": "it is 90"}],
            }
        ],
        scope=["the cart"],
        file_impacts=[{"path": "shop/cart.py", "purpose": "the total"}],
        tasks=[{"title": "Write it", "details": ["the function", "its call"]}],
        test_plan={"key_cases": ["ten percent"]},
    )
    assert change_paths(given, "coupons-k3f9") == {
        "openspec.change": "openspec/changes/coupons-k3f9/proposal.md",
        "openspec.design": "openspec/changes/coupons-k3f9/design.md",
        "openspec.tasks": "openspec/changes/coupons-k3f9/tasks.md",
        "openspec.spec": "openspec/changes/coupons-k3f9/specs/check-out/spec.md",
    }
    files = change_files(given)
    assert files["openspec.spec"] == snapshot("""\
# Spec Delta

## Purpose

Coupons: A coupon lowers it.

## ADDED Requirements

### Requirement: A coupon lowers the total
The total MUST be lower.

#### Scenario: ten
- **WHEN** SAVE10 is given
- **THEN** it is 90
""")
    assert files["openspec.tasks"] == snapshot("""\
# Tasks: Coupons

## 1. Write it

- [ ] 1.1 the function
- [ ] 1.2 its call

## 2. Tests

- [ ] 2.1 ten percent
""")
    assert files["openspec.change"] == snapshot("""\
# Proposal: Coupons

## Why

They are wanted.

## What Changes

A coupon lowers it.

- the cart

## Capabilities

### New Capabilities

- `check-out`: Coupons

## Impact

- `shop/cart.py` (modify) the total
""")


@pytest.mark.parametrize(
    ("title", "made"),
    [
        ("Add coupons!", "add-coupons-k3f9"),
        ("2 factor", "change-2-factor-k3f9"),
        ("../../etc", "etc-k3f9"),
        ("優惠券", "change-"),
        ("x" * 300, f"{'x' * 48}-k3f9"),
    ],
)
def test_a_change_has_an_id_that_is_a_name_of_a_folder(title: str, made: str) -> None:
    assert change_id(title, "k3f9").startswith(made)
    assert capability_of(plan(capability=title))


def test_the_form_of_a_change_is_looked_at() -> None:
    good = change_files(plan())
    assert change_problems(good) == []
    assert change_problems({}) == snapshot(
        [
            'proposal.md has no text under "## Why"',
            'proposal.md has no text under "## What Changes"',
            "tasks.md has no checklist item",
            "spec.md adds, changes or removes no requirement",
        ]
    )
    spec = "## ADDED Requirements\n### Requirement: One\nIt may.\n### Requirement: One\nMUST\n"
    assert change_problems({**good, "openspec.spec": spec}) == snapshot(
        [
            'spec.md: the requirement "One" contains neither SHALL nor MUST',
            'spec.md has no scenario for "One"',
            'spec.md has the requirement "One" twice',
            'spec.md has no scenario for "One"',
        ]
    )
