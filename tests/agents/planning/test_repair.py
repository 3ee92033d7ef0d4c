"""What counts as hit by a loss, and what can still be used."""

import pytest
from overlays import mesh

from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.plan import Block, Plan, star
from trunkline.agents.planning.plan_rates import PlanRates
from trunkline.agents.planning.repair import (
    UsableOverlay,
    choose_aggregator,
    crosses,
    is_star,
    move_hits,
    sum_loads,
    uses_link,
    uses_site,
)

CHUNKS = ((0, 4),)
STAR = Block(CHUNKS, "a", (("b", "a"), ("c", "a")), (("a", "b"), ("a", "c")))
RELAYED = Block(CHUNKS, "a", (("b", "d", "a"), ("c", "a")), (("a", "d", "b"), ("a", "c")))
TREE = Block(CHUNKS, "a", (("c", "b"), ("b", "a")), (("a", "b"), ("b", "c")))


def test_a_path_uses_a_link_in_either_direction_but_not_a_leap_over_a_relay():
    assert crosses(("b", "d", "a"), "d", "b")
    assert crosses(("b", "d", "a"), "b", "d")
    assert not crosses(("b", "d", "a"), "a", "b")
    assert uses_link(RELAYED, "a", "d")
    assert uses_link(STAR, "d", "b", [("b", "d", "c")])
    assert not uses_link(STAR, "b", "d")


def test_a_block_uses_its_aggregator_its_relays_and_its_detours():
    assert [site for site in "abcde" if uses_site(RELAYED, site)] == list("abcd")
    assert [site for site in "abcde" if uses_site(STAR, site)] == list("abc")
    assert uses_site(STAR, "e", [("b", "e", "a")])


def test_only_direct_stars_can_move():
    assert [is_star(block) for block in (STAR, RELAYED, TREE)] == [True, False, False]
    assert not is_star(Block(CHUNKS, "a", STAR.in_edges, RELAYED.out_edges))
    assert not is_star(Block(CHUNKS, "a", RELAYED.in_edges, STAR.out_edges))


@pytest.mark.parametrize("loser", ["a", "b"])
def test_a_link_that_either_of_its_sites_has_lost_cannot_be_used(loser):
    overlay = UsableOverlay(PlanRates(mesh()), set("abcd"))
    assert overlay.whole
    overlay.lost[loser] = frozenset({"b" if loser == "a" else "a"})
    assert not overlay.usable("a", "b")
    assert not overlay.usable("b", "a")
    assert overlay.usable("a", "c")
    assert overlay.usable_mbps().keys() == mesh().keys() - {("a", "b"), ("b", "a")}
    assert choose_aggregator(("a", "b", "c"), 1, {}, "abcd", overlay) == "c"


@pytest.mark.parametrize(("rate_mbps", "hubs"), [(8.0, ["c", "d"]), (4.0, ["c", "c"])])
def test_blocks_that_one_loss_hits_go_to_one_site_only_if_that_is_faster(rate_mbps, hubs):
    """The second one takes (10 + 20) / 8 at c, and max(20 / 8, 20 / rate of c - d) at d."""
    rates = mesh() | dict.fromkeys(mesh(), 8.0) | {("c", "d"): rate_mbps, ("d", "c"): rate_mbps}
    overlay = UsableOverlay(PlanRates(rates), set("abcd"), {"a": frozenset("b")})
    direct = {link: link for link in rates}
    blocks = [Block(((n, n + 1),), hub, *star(hub, "abc", direct)) for n, hub in enumerate("ab")]
    plan = Plan(tuple("abc"), tuple("abc"), 2, tuple(blocks))
    cut = cut_model(20, 10)
    loads = sum_loads([dict(enumerate(blocks))], cut)
    assert loads == {"a": 10, "b": 10}
    moved = move_hits(plan, blocks, loads, overlay, cut)
    assert [block and block.aggregator for block in moved] == hubs
    assert loads == {"a": 10, "b": 10}
