"""Hand-outs become plans: the same trees in every rack, one block for each message."""

import random
from dataclasses import replace
from functools import partial

import pytest

from trunkline.agents.distribution.chunked_step import AskedHandOut, compute_steps
from trunkline.agents.distribution.handout import Cluster
from trunkline.agents.distribution.handout_plan import measure_cluster
from trunkline.agents.planning.chunks import cut_model
from trunkline.agents.planning.plan import Plan, PlanRequest, check
from trunkline.agents.planning.two_sided import restrict
from trunkline.agents.plans import ipart, naive, overlap, owl
from trunkline.topologies import racks
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

MODEL = LayeredModel(
    (
        Base("stem", (Branch("only", 8, 0.1, 0.2),)),
        Base("mixed", (Branch("left", 4, 0.1, 0.2), Branch("right", 12, 0.1, 0.2))),
    )
)
CHUNKS = (4, 4, 4, 4, 4, 4)
"""Two chunks of the stem, one of the left branch, three of the right one."""


def make_request(layers=MODEL, shards=True, **options):
    topology = racks.build(random.Random(0), racks=2, server=True, switches=True, **options)
    overlay = topology.overlay
    return PlanRequest(
        topology.site_names,
        topology.site_names,
        overlay.rates_mbps(),
        overlay.delays_ms(),
        sum(CHUNKS) // 4,
        random.Random(1),
        chunk_sizes=CHUNKS,
        shards={"server": ((0, 6),)} if shards else {},
        paths=topology.overlay_paths(),
        link_mbps=topology.rates_mbps(),
        racks={site.name: site.rack for site in topology.sites if site.rack},
        layers=layers,
    )


def hand_out(request, plan):
    workers = tuple(site for site in request.group if site != "server")
    found = restrict(plan, ("server",), workers, request.shards)
    check(found, request.rates_mbps.keys())
    return found


def test_two_groups_take_two_ways_through_each_rack():
    request = make_request(sites_per_rack=2)
    stem, left, right = sorted(
        hand_out(request, owl.build(request, groups=2)).blocks, key=lambda block: block.chunks
    )
    assert (stem.chunks, left.chunks, right.chunks) == (((0, 2),), ((2, 3),), ((3, 6),))
    of_rack = {edge for edge in left.out_edges if "r1" in edge[-1]}
    assert of_rack == {("server", "r1n2"), ("r1n2", "r1n1")}
    assert {edge for edge in right.out_edges if "r2" in edge[-1]} == {
        ("server", "r2n1"),
        ("r2n1", "r2n2"),
    }
    assert not stem.in_edges and not stem.whole


def test_pushes_go_directly_to_the_server():
    request = make_request(sites_per_rack=2)
    workers = ("r1n1", "r1n2", "r2n1", "r2n2")
    for build in (owl.build, naive.build, overlap.build, ipart.build):
        plan = restrict(build(request), workers, ("server",), request.shards)
        check(plan, request.rates_mbps.keys())
        for block in plan.blocks:
            assert set(block.in_edges) == {(site, "server") for site in workers}


@pytest.mark.parametrize("deploy", ["centralized", "decentralized", "uneven", "unbalanced"])
@pytest.mark.parametrize("groups", [None, 1, 2, 3, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_deployment_with_any_number_of_groups_is_right(deploy, groups, workers):
    for grouping in ("even", "random"):
        request = make_request(sites_per_rack=workers)
        plan = owl.build(request, groups=groups, deploy=deploy, grouping=grouping)
        hand_out(request, plan)
        assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("groups", [None, 1, 2, 3])
def test_across_rack_counteach_group_leaves_the_server_once(groups):
    request = make_request(sites_per_rack=3, between_racks=True)
    plan = hand_out(request, owl.build(request, groups=groups, deploy="across"))
    for block in plan.blocks:
        assert [edge[0] for edge in block.out_edges].count("server") == 1
        assert sum({a[:2], b[:2]} == {"r1", "r2"} for a, b in block.out_edges) == 1
        assert len(block.out_edges) == 6
    first = {edge[-1][:2] for block in plan.blocks for edge in block.out_edges if "server" in edge}
    assert first == {"r1", "r2"}  # in turn


def test_across_rack_countof_different_sizes_all_workers_get_all_branches():
    request = make_request(sites_per_rack=3, between_racks=True)
    group = tuple(site for site in request.group if site not in ("r2n1", "r2n2"))
    for groups in (1, 2, 3):
        smaller = replace(request, group=group)
        hand_out(smaller, owl.build(smaller, groups=groups, deploy="across"))


def test_with_a_shared_uplink_rack_countthat_help_each_other_have_the_model_sooner():
    """9.6 Mbit go over the uplink of 20 Mbit/s once, or once for each of three racks."""
    request = make_rack(
        rack_count=3, inter_rate_mbps=20.0, server_rate_mbps=20.0, between_racks=True
    )
    asked = AskedHandOut.of(request, request.shards)
    last_s = [
        max(
            step.arrived_s
            for step in compute_steps(asked, partial(owl.build, deploy=deploy, groups=1)).values()
        )
        for deploy in ("across", "centralized")
    ]
    assert last_s == [pytest.approx(0.48, rel=0.1), pytest.approx(3 * 0.48, rel=0.1)]


def test_rack_countof_different_sizes_share_the_groups():
    request = make_request(sites_per_rack=3)
    group = tuple(site for site in request.group if site not in ("r2n1", "r2n2"))
    request = replace(request, group=group)
    for groups in (1, 2, 3):
        hand_out(request, owl.build(request, groups=groups))


def test_baselines_are_stars_of_whole_messages():
    request = make_request(sites_per_rack=2)
    (one,) = hand_out(request, naive.build(request)).blocks
    assert one.whole and one.chunks == ((0, 6),) and len(one.out_edges) == 4
    each = hand_out(request, overlap.build(request)).blocks
    assert [block.chunks for block in each] == [((0, 2),), ((2, 3),), ((3, 6),)]
    assert all(block.whole for block in each)
    packed = hand_out(request, ipart.build(request, startup_s=1000.0)).blocks
    assert [block.chunks for block in packed] == [((0, 6),)]
    packed = hand_out(request, ipart.build(request, startup_s=0.0)).blocks
    assert len(packed) > 1


def test_a_model_without_layers_is_one_branch():
    request = make_request(layers=None, sites_per_rack=2)
    for build in (owl.build, naive.build, overlap.build, ipart.build):
        (block,) = hand_out(request, build(request)).blocks
        assert block.chunks == ((0, 6),)


def test_rates_of_rack_countare_those_of_the_links_that_they_share():
    options = {"intra_rate_mbps": 100.0, "alpha": 0.4, "server_rate_mbps": 60.0}
    request = make_request(sites_per_rack=3, **options)
    held = {"server": ((0, 6),)}
    assert measure_cluster(request, held) == Cluster(2, 3, 100.0, 40.0, 60.0)
    bare = replace(request, paths={}, link_mbps={})
    assert measure_cluster(bare, held) == Cluster(2, 3, 100.0, 120.0)


THREE = LayeredModel((Base("mixed", tuple(Branch(n, 400_000, 0.01, 0.02) for n in "abc")),))


def make_rack(rack_count=1, **options):
    """Three workers in a rack, or in each rack, and a server; chunks of 16 KiB."""
    cut = cut_model(THREE.parameter_bytes, 16_384, (400_000,) * 3)
    topology = racks.build(
        random.Random(0), racks=rack_count, sites_per_rack=3, server=True, switches=True, **options
    )
    overlay = topology.overlay
    return PlanRequest(
        topology.site_names,
        topology.site_names,
        overlay.rates_mbps(),
        overlay.delays_ms(),
        cut.count,
        random.Random(1),
        chunk_sizes=cut.sizes,
        shards={"server": ((0, cut.count),)},
        paths=topology.overlay_paths(),
        link_mbps=topology.rates_mbps(),
        racks={site.name: site.rack for site in topology.sites if site.rack},
        layers=THREE,
    )


def test_the_number_of_groups_is_chosen_for_chunks_that_are_passed_on_as_they_arrive():
    """Three groups share the inlet, so all branches come last; one group brings them in turn."""
    request = make_rack(intra_rate_mbps=100.0, alpha=0.2)
    assert owl.describe_choice(request).startswith("1 communication group of a rack")
    assert owl.build(request) == owl.build(request, groups=1)
    asked = AskedHandOut.of(request, request.shards)
    ends_s = [
        max(step.end_s for step in compute_steps(asked, partial(owl.build, groups=n)).values())
        for n in (1, 2, 3)
    ]
    # 9.6 Mbit at 20 Mbit/s, and a branch to compute; or all three after the last byte.
    assert ends_s[0] == pytest.approx(0.48 + 0.01, abs=0.01)
    assert ends_s[2] == pytest.approx(0.48 + 0.03, abs=0.01)


def test_a_rack_whose_links_are_the_limit_is_given_more_groups():
    request = make_rack(intra_rate_mbps=20.0, inter_rate_mbps=100.0)
    assert owl.describe_choice(request).startswith("3 communication groups")


def test_what_is_asked_for_is_the_same_for_every_task():
    first, second = make_rack(), make_rack()
    assert AskedHandOut.of(first, first.shards) == AskedHandOut.of(second, second.shards)
    assert hash(AskedHandOut.of(first, first.shards))
    assert AskedHandOut.of(replace(first, layers=None), first.shards) is None
