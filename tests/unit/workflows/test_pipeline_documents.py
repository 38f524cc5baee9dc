"""Human-readable artifacts, rendered from the data files next to them."""

from __future__ import annotations

from inline_snapshot import snapshot

from coterie.model.planning import StructuredPlan
from coterie.model.reviews import CodeReview, PlanningMeeting, PlanReview, ReviewMeeting
from coterie.workflows.pipeline.documents import (
    plan_document,
    plan_review_document,
    planning_meeting_document,
    review_meeting_document,
    second_opinion_document,
)
from tests.unit.model.test_artifacts import PLAN, SAMPLES


def test_a_plan_reads_as_a_page() -> None:
    assert plan_document(StructuredPlan.model_validate(PLAN)) == snapshot("""\
# Coupons

## Why

Customers ask for them.

## What

A code at the checkout lowers the total.

## Scope

- the cart

## Not in scope

- vouchers

## Requirements

- **A coupon lowers the total** The total is lower by the coupon's share.
  - ten percent: when SAVE10 is given, then it is 90

## Design

A pure function.

## Files

- `shop/cart.py` (modify): the total

## Work

1. Write it
   - the function

## Tests

unit tests

- ten percent: 90

## Risks

- rounding → cents

## Assumptions

- one coupon

## Open questions

None.
""")


def test_a_plans_text_begins_no_section_of_its_own() -> None:
    odd = {
        **PLAN,
        "title": "# Coupons\nfor all",
        "why": "## Scope\n\nnothing\n\n```\nnever closed",
        "design": "```python\n# a comment\n```\n# After it",
        "scope": ["one\n# two", "```"],
    }
    shown = plan_document(StructuredPlan.model_validate(odd))
    headings = [line for line in shown.splitlines() if line.startswith("#")]
    assert headings[0] == "# \\# Coupons for all"
    assert [line for line in headings if line == "## Scope"] == ["## Scope"]
    assert "# a comment" in headings  # inside its code block
    assert "\n\\# After it\n" in shown
    assert "\n- one # two\n- \\```\n" in shown


def test_reviews_and_minutes_read_as_pages() -> None:
    review = PlanReview.model_validate(SAMPLES["review.plan"])
    assert plan_review_document(review) == snapshot("""\
# Plan review

## Gate

Not passed.

- no tests

## Issues

- `test_plan` (major, must be fixed) no tests

## OpenSpec

The OpenSpec change was checked by `openspec validate --strict`.

## Reviewer

s
""")
    meeting = PlanningMeeting.model_validate(SAMPLES["planning.meeting"])
    assert planning_meeting_document(meeting) == snapshot("""\
# Planning meeting

## Why

w

## What

x

## Open questions

1

## Clarified

- q — asked by risk: a (user)

## Issues

- `test_plan` (major, must be fixed) no tests

## Consensus

- do it

## Disagreements

None.

## Risks

None.

## Next

- begin
""")
    about = ReviewMeeting.model_validate(SAMPLES["review.meeting"])
    assert review_meeting_document(about) == snapshot("""\
# Review meeting

## Reviews

1 review, 1 finding, 1 must be fixed, at tree b.

## Findings

- `shop/cart.py:3` (major, must be fixed) x

## Consensus

- do it

## Disagreements

None.

## Risks

None.

## Next

- begin
""")


def test_a_document_states_that_no_model_answered() -> None:
    review = PlanReview.model_validate({"gate": {"gate": "plan", "passed": True}})
    assert "No model answered; only rules were applied." in plan_review_document(review)
    assert "the `openspec` tool did not check it" in plan_review_document(review)
    nobody = CodeReview.model_validate(SAMPLES["review.code"])
    assert second_opinion_document(nobody) == snapshot("""\
# Second opinion

## Summary

There is none.
""")


def test_a_second_opinion_names_who_gave_it() -> None:
    given = {**SAMPLES["review.code"]["opinions"][0], "role": "second_opinion", "agent": "codex"}
    review = CodeReview.model_validate({**SAMPLES["review.code"], "opinions": [given]})
    assert second_opinion_document(review) == snapshot("""\
# Second opinion

## From

rex (codex)

## Summary

s

## Findings

- `shop/cart.py:3` (major, must be fixed) x
""")
