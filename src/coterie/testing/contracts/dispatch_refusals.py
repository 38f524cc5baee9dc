"""The part of the `ports.Dispatch` contract about offers that a machine refuses."""

from __future__ import annotations

from dataclasses import replace

from coterie.ports import Dispatch
from coterie.testing.contracts.dispatch_stage import AGENTS, HOUR, OFFER, TASK, DispatchHarness


class RefusalsContract(DispatchHarness):
    """A machine that refused is not asked again, but the others are."""

    async def refused(self, dispatch: Dispatch, owner: str, machine: str, why: str = "no") -> None:
        """Have a machine take the offer and refuse it."""
        taken = await dispatch.take(TASK, owner)
        assert taken is not None
        await dispatch.refuse(taken, owner, machine, why)

    async def test_a_refused_offer_goes_to_other_machines_with_the_reason(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(OFFER)
        assert await self.handed_out(dispatch) == [TASK]
        for owner, machine, why in (("one", "gpu1", "it's \0 not trusted"), ("two", "gpu2", "")):
            await self.refused(dispatch, owner, machine, why)
            await self.later(HOUR)
            assert (await dispatch.sweep(), await self.handed_out(dispatch)) == (True, [])
            assert await dispatch.refused_offers(AGENTS, machine) == []
        offer = await dispatch.get(TASK)
        assert offer is not None
        assert {machine: why.replace("\0", "") for machine, why in offer.refused.items()} == {
            "gpu1": "it's  not trusted",
            "gpu2": "",
        }
        assert await dispatch.refused_offers(AGENTS, "gpu3") == [offer]
        assert await dispatch.refused_offers(AGENTS[1:], "gpu3") == []
        await dispatch.hold(TASK)
        assert await dispatch.refused_offers(AGENTS, "gpu3") == []

    async def test_a_refused_offer_for_one_machine_goes_to_no_other(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(replace(OFFER, machine="gpu2"))
        await self.refused(dispatch, "one", "gpu1")
        left = [
            await dispatch.refused_offers(AGENTS, machine) for machine in ("gpu1", "gpu2", "gpu3")
        ]
        assert [len(one) for one in left] == [0, 1, 0]

    async def test_cleared_refusals_make_a_machine_get_the_offer_again(
        self, dispatch: Dispatch
    ) -> None:
        await dispatch.offer(OFFER)
        assert await self.handed_out(dispatch) == [TASK]
        await self.refused(dispatch, "one", "gpu1")
        await self.refused(dispatch, "two", "gpu2")
        await dispatch.clear_refusals("gpu2")
        left = [await dispatch.refused_offers(AGENTS, machine) for machine in ("gpu1", "gpu2")]
        assert [len(one) for one in left] == [0, 1]
        assert await self.handed_out(dispatch) == []
        await dispatch.clear_refusals("gpu1")
        assert await dispatch.refused_offers(AGENTS, "gpu2") == []
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.get(TASK) == OFFER

    async def test_offering_again_clears_refusals(self, dispatch: Dispatch) -> None:
        await dispatch.offer(OFFER)
        taken = await self.taken(dispatch, "one")
        await dispatch.refuse(taken, "one", "gpu1", "no")
        await dispatch.offer(OFFER)
        assert await self.handed_out(dispatch) == [TASK]
        assert await dispatch.get(TASK) == replace(OFFER, woken=1)
