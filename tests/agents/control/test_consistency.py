"""NetStorm's Figure 8: what happens if one site goes by an old tree, and how asking prevents it."""

import itertools

import numpy as np
import pytest
from fabric import Fabric, exact, integers

from trunkline.agents.planning.plan import Block, Plan
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.site_plan import parts_of
from trunkline.agents.policies import bsp
from trunkline.agents.policies.policy import Joined, Left, Lost, Proceed, Ready, average
from trunkline.agents.site.plan_cache import PlanCache, PlanCaches
from trunkline.agents.wire.messages import ProtocolError, StartTask

SITES = ("n1", "n2", "n3")
LINE = {link: 1.0 for a, b in (("n1", "n2"), ("n2", "n3")) for link in ((a, b), (b, a))}
CHUNKS = 1


def tree(*path):
    """Everything goes along the path to its end, and the result back."""
    hops = tuple(itertools.pairwise(path))
    back = tuple((b, a) for a, b in reversed(hops))
    return Plan(SITES, SITES, CHUNKS, (Block(((0, CHUNKS),), path[-1], hops, back),))


OLD, NEW = tree("n3", "n2", "n1"), tree("n1", "n2", "n3")


def begin(fabric, models, site, plan):
    """A site takes part in task 1 by this plan."""
    message = StartTask(
        task=1,
        group=SITES,
        blocks=1,
        floor=0,
        left_s=60.0,
        weights=dict.fromkeys(SITES, 1.0),
        scale=1.0,
        contributes=True,
        receives=True,
        offers={},
        parts=parts_of(plan, site),
    )
    keep = lambda result: fabric.results.__setitem__((site, 1), result.copy())  # noqa: E731
    fabric.executors[site].start(message, models[site].copy(), keep)


def three():
    fabric = Fabric(LINE, 4 * CHUNKS)
    return fabric, integers(SITES, 4 * CHUNKS, 3)


def test_without_asking_a_site_that_missed_an_update_loses_data_and_all_wait_for_ever():
    fabric, models = three()
    for site, plan in (("n1", NEW), ("n3", NEW), ("n2", OLD)):
        begin(fabric, models, site, plan)
    # n1 sends to n2, which knows of nothing from there: the data is refused, and so lost.
    with pytest.raises(ProtocolError, match="unexpected contribution of n1"):
        fabric.deliver()
    # n2 waits for n3, which waits for n2.
    assert fabric.deliver() == {}
    assert fabric.results == {}


@pytest.mark.parametrize("first", [("n1", "n3"), ("n1", "n2"), ("n2", "n3")])
def test_a_site_that_asks_and_hears_late_keeps_what_came_early_and_nothing_is_lost(first):
    fabric, models = three()
    for site in first:
        begin(fabric, models, site, NEW)
    fabric.deliver()
    assert fabric.results == {}
    (late,) = set(SITES) - set(first)
    begin(fabric, models, late, NEW)
    fabric.deliver()
    wanted = exact(models, dict.fromkeys(SITES, 1.0), 1.0)
    assert {site for site, _ in fabric.results} == set(SITES)
    for result in fabric.results.values():
        np.testing.assert_array_equal(result, wanted)


def test_a_worker_is_told_what_it_does_not_know_and_else_that_nothing_changed():
    knowledge = PlanRates(LINE)
    caches, own = PlanCaches(knowledge), PlanCache()
    old, new = parts_of(OLD, "n2"), parts_of(NEW, "n2")

    def answer(parts):
        caches.note_version("n2", own.version)
        unchanged = caches.record("n2", parts)
        assert own.take(knowledge.version, () if unchanged else parts, unchanged) == parts
        return unchanged

    assert [answer(old), answer(old), answer(new), answer(new)] == [False, True, False, True]
    knowledge.refresh(LINE)
    assert [answer(new), answer(new)] == [False, True]
    own = PlanCache()  # another worker at the same site
    assert [answer(new), answer(new)] == [False, True]
    caches.forget("n2")
    assert [answer(new), answer(new)] == [False, True]


def test_a_round_without_a_barrier_begins_with_its_first_site():
    policy = bsp.create(SITES, barrier=False)
    everybody = average(SITES)
    assert policy.step(policy.initial, Ready("n2", 0)) == (policy.initial, (everybody,))
    state, _ = policy.step(policy.initial, Lost("n3"))
    assert policy.step(state, Ready("n3", 0)) == (state, ())
    assert policy.step(state, Ready("n1", 0))[1] == (average(("n1", "n2")),)
    assert policy.step(state, Joined("n3"))[0] == policy.initial
    state, _ = policy.step(state, Left("n2"))
    assert policy.step(state, Ready("n1", 4))[1] == (Proceed("n1"),)
