"""Twenty machines on a virtual clock: what the real rules for leases and offers guarantee."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.simulation import Outcome, Scenario, simulate
from bench.simulation.worker import Rules
from coterie.model.lease_clock import LeaseTimes

TIMES = LeaseTimes()
# Seats are free, so that a released task is taken at once; agents run long enough to be hit.
MANY_FAULTS = Scenario(
    20,
    25,
    turns=8,
    fault_every=150.0,
    outages=((100.0, 0.3), (300.0, 10.0)),
    rules=Rules(turn=100.0),
)


def check_all_done(scenario: Scenario, outcome: Outcome) -> None:
    assert (outcome.ended, outcome.ended_twice) == (scenario.tasks, 0)
    assert outcome.turns == scenario.tasks * scenario.turns
    assert outcome.too_late == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("drift", "extremes"), [(0.05, False), (0.05, True), (0.08, True)])
def test_within_the_margin_no_task_has_two_agents_and_each_ends_once(
    drift: float, extremes: bool, seed: int
) -> None:
    scenario = replace(MANY_FAULTS, drift=drift, extremes=extremes, seed=seed)
    outcome = simulate(scenario)
    check_all_done(scenario, outcome)
    assert outcome.overlaps == []
    assert outcome.agents > outcome.turns + 10
    assert sum(outcome.faults.values()) > 20
    assert min(outcome.silent) >= (TIMES.ttl + TIMES.margin) / (1 + drift) ** 0.5 - 0.01


def test_clocks_that_differ_by_far_more_than_the_margin_do_give_two_agents() -> None:
    scenario = replace(MANY_FAULTS, drift=0.6, extremes=True, faults=("cut",), fault_length=120.0)
    outcome = simulate(scenario)
    check_all_done(scenario, outcome)  # tokens protect the journal, and need no clock
    assert max(outcome.overlaps) > 1.0


def test_a_paused_machine_goes_on_for_a_beat_or_if_cut_off_too_for_a_lease() -> None:
    scenario = replace(MANY_FAULTS, fault_length=120.0, outages=())
    paused = simulate(replace(scenario, faults=("pause",)))
    check_all_done(scenario, paused)
    assert 0 < max(paused.overlaps) <= TIMES.beat * 1.05
    cut_off = simulate(replace(scenario, faults=("pause, then cut",)))
    check_all_done(scenario, cut_off)
    assert TIMES.beat < max(cut_off.overlaps) <= TIMES.ttl * 1.05


def test_the_same_seed_is_the_same_story() -> None:
    assert simulate(MANY_FAULTS) == simulate(MANY_FAULTS)
