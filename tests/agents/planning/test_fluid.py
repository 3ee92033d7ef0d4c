"""The fluid model of early contributions, whole blocks and paths: worked out by hand, and laws."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.agents.planning.auxiliary_paths import Bounds
from trunkline.agents.planning.fluid.agenda import Agenda
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.fluid.fluid_links import FluidLinks
from trunkline.agents.planning.fluid.fluid_overlay import FluidOverlay
from trunkline.agents.planning.fluid.fluid_tasks import FluidTask
from trunkline.agents.planning.plan import Block, Plan, PlanRequest, star
from trunkline.agents.planning.rearrange import keep_split
from trunkline.agents.planning.routes import routes
from trunkline.agents.plans import crew

MB = 10**6
ONE_PER_S = {(a, b): 8.0 for a in "abc" for b in "abc" if a != b}
"""Links between three sites that take one second for each chunk of 1 MB."""


def stars(group, **chunks):
    """A block of these chunks (start, stop) around each site that has some."""
    pairs = [pair for hub in chunks for site in group for pair in ((site, hub), (hub, site))]
    ways = routes([pair for pair in pairs if pair[0] != pair[1]], ONE_PER_S)
    blocks = [Block((span,), hub, *star(hub, group, ways)) for hub, span in chunks.items()]
    return Plan(tuple(group), tuple(group), max(stop for _, stop in chunks.values()), tuple(blocks))


def carried_out(default, plan, start_s, rates=ONE_PER_S, chunk_bytes=MB, discipline="fcfs"):
    """Everybody offers at once, the task starts later: when it is done, and what was in vain."""
    agenda = Agenda()
    overlay = FluidOverlay(FluidLinks(agenda, rates, {}, discipline))
    model_bytes = plan.chunk_count * chunk_bytes
    job = FluidTask(default, model_bytes, chunk_bytes)
    offers = [overlay.offer(job, site) for site in plan.contributors]
    agenda.run(start_s)
    missing = set(plan.receivers)
    done_s = []

    def received(site):
        missing.remove(site)
        done_s.append(agenda.now_s)

    overlay.start(FluidTask(plan, model_bytes, chunk_bytes), received, offers)
    agenda.run()
    assert not missing
    return max(done_s), overlay.bytes_in_vain


SPREAD = stars("abc", a=(0, 1), b=(1, 2), c=(2, 4))


@pytest.mark.parametrize(
    ("split", "start_s", "done_s", "in_vain"),
    [
        # Where a split is the default one, only what the links did before is saved: c has two
        # chunks of both at 2 s, its second result is with both at 4 s.
        ({"a": (0, 1), "b": (1, 2), "c": (2, 4)}, 0.0, 3.0, 0),
        ({"a": (0, 1), "b": (1, 2), "c": (2, 4)}, 0.5, 3.0, 0),
        ({"a": (0, 1), "b": (1, 2), "c": (2, 4)}, 1.5, 3.5, 0),
        ({"a": (0, 1), "b": (1, 2), "c": (2, 4)}, 5.0, 7.0, 0),
        # c has no part. Chunk 2 is on its way there from both and in vain; chunk 3 is not sent.
        # From a to b go 1, 2, 3 and the result 0: four seconds.
        ({"a": (0, 1), "b": (1, 4)}, 0.5, 4.0, 2 * MB),
        # Chunk 3 has set out as well. From the start a sends b the result 0, whose originals are
        # there, then 2 and 3; result 3 is back a second later.
        ({"a": (0, 1), "b": (1, 4)}, 1.5, 5.5, 4 * MB),
        ({"a": (0, 1), "b": (1, 4)}, 5.0, 9.0, 4 * MB),
    ],
)
def test_what_sets_out_early_is_kept_moved_or_in_vain(split, start_s, done_s, in_vain):
    assert carried_out(SPREAD, stars("ab", **split), start_s) == (done_s, in_vain)


def test_an_offer_that_is_taken_back_leaves_the_link_to_others():
    agenda = Agenda()
    overlay = FluidOverlay(FluidLinks(agenda, ONE_PER_S, {}))
    job = FluidTask(SPREAD, 4 * MB, MB)
    offer = overlay.offer(job, "a")
    agenda.run(0.5)
    overlay.take_back(offer)
    done_s = []
    overlay.start(FluidTask(stars("ac", c=(0, 1)), MB, MB), lambda _: done_s.append(agenda.now_s))
    agenda.run()
    # To c, the chunk in transmission ends at 1 s; then the other task's only one has the link.
    assert done_s == [2.0, 3.0]
    assert overlay.bytes_in_vain == 2 * MB


@pytest.mark.parametrize(
    ("site", "joins_s", "done_s"),
    [
        # On the way a -> b -> c the result is at c a second after the last contribution, and back
        # at a two seconds later. Chunks take a second per link.
        ("a", 5.0, {"c": 7.0, "b": 8.0, "a": 9.0}),  # a leaf of the in-tree
        ("b", 5.0, {"c": 6.0, "b": 7.0, "a": 8.0}),  # an inner node, which has a's chunk already
        ("c", 5.0, {"c": 5.0, "b": 6.0, "a": 7.0}),  # the aggregator, which has the sum of both
    ],
)
def test_a_contributor_that_is_not_ready_holds_up_what_needs_it(site, joins_s, done_s):
    line = Block(((0, 1),), "c", (("a", "b"), ("b", "c")), (("c", "b"), ("b", "a")))
    agenda = Agenda()
    overlay = FluidOverlay(FluidLinks(agenda, ONE_PER_S, {}))
    found = {}
    job = FluidTask(Plan(tuple("abc"), tuple("abc"), 1, (line,)), MB, MB)
    task = overlay.start(job, lambda each: found.update({each: agenda.now_s}), unready=site)
    agenda.run(joins_s)
    overlay.join(task, site)
    agenda.run()
    assert found == done_s


@st.composite
def splits(draw, gaps=3):
    """A mesh with links missing, the default split there, and a group's split of the same size."""
    sites = tuple("abcdef"[: draw(st.integers(3, 6))])
    pairs = [(a, b) for a in sites for b in sites if a != b]
    gone = draw(st.sets(st.sampled_from(pairs), max_size=gaps))
    ring = {*zip(sites, sites[1:] + sites[:1], strict=True)}
    rates = {p: float(draw(st.integers(1, 50))) for p in pairs if p not in gone or p in ring}
    group = tuple(sorted(draw(st.sets(st.sampled_from(sites), min_size=2))))
    count = draw(st.integers(1, 30))
    request = PlanRequest(group, sites, rates, dict.fromkeys(rates, 0.0), count, random.Random(0))
    return rates, crew.default(request), crew.build(request)


@given(splits=splits(), start_s=st.floats(0, 3), discipline=st.sampled_from(["fcfs", "fair", "C1"]))
@settings(max_examples=50)
def test_only_what_went_elsewhere_is_in_vain_and_the_task_ends(splits, start_s, discipline):
    rates, default, fresh = splits
    plan = keep_split(default, fresh)
    _, in_vain = carried_out(default, plan, start_s, rates, 1000, discipline)
    before, after = (
        {(c, e) for b in each.blocks for e in b.in_edges for c in b.indexes()}
        for each in (default, plan)
    )
    elsewhere = {(c, e) for c, e in before - after if e[0] in plan.contributors}
    assert in_vain <= 1000 * len(elsewhere)


@given(splits=splits(), start_s=st.floats(0, 3))
@settings(max_examples=50)
def test_with_the_default_split_nothing_is_in_vain(splits, start_s):
    rates, default, _ = splits
    assert carried_out(default, default, start_s, rates, 1000)[1] == 0


@given(splits=splits(gaps=0))
@settings(max_examples=50)
def test_offers_of_a_task_that_starts_at_once_are_like_a_blocking_scatter(splits):
    rates, default, _ = splits
    done_s, _ = carried_out(default, default, 0.0, rates, 1000)
    assert done_s == estimate(default, rates, 1000, 1000 * default.chunk_count)


LINE = dict.fromkeys([("a", "b"), ("b", "c"), ("c", "b"), ("b", "a")], 8.0)
IN = (("a", "b"), ("b", "c"))
OUT = (("c", "b"), ("b", "a"))
TEN = ((0, 10),)


@pytest.mark.parametrize(
    ("blocks", "pipelined_s", "whole_s"),
    [
        # A chunk takes a second per link. Two hops of ten chunks, by a relay or a sum at b:
        ([Block(TEN, "c", (("a", "b", "c"), ("b", "c")), ())], 20.0, 20.0),  # b's own go first
        ([Block(TEN, "c", IN, ())], 11.0, 20.0),
        ([Block(TEN, "c", IN, OUT)], 13.0, 40.0),
        # The first half is whole at b after 5 s, and at c 5 s later; the second is at b by then.
        ([Block(((0, 5),), "c", IN, ()), Block(((5, 10),), "c", IN, ())], 11.0, 15.0),
        # A block of one chunk is whole when the chunk is there.
        ([Block(((n, n + 1),), "c", IN, OUT) for n in range(10)], 13.0, 13.0),
    ],
)
def test_a_block_that_is_not_pipelined_is_sent_on_when_it_is_whole(blocks, pipelined_s, whole_s):
    receivers = tuple("abc") if blocks[0].out_edges else ("c",)
    for pipelined, seconds in ((True, pipelined_s), (False, whole_s)):
        sent = tuple(replace(block, pipelined=pipelined) for block in blocks)
        plan = Plan(tuple("abc"), receivers, 10, sent)
        assert estimate(plan, LINE, MB, 10 * MB) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("auxiliary", "pipelined_s", "whole_s"),
    [
        (None, 11.0, 20.0),
        (Bounds(100, 1), 11.0, 11.0),  # chunks that choose their paths are not awaited
    ],
)
def test_a_relay_sends_a_whole_block_on_unless_chunks_choose_paths(auxiliary, pipelined_s, whole_s):
    for pipelined, seconds in ((True, pipelined_s), (False, whole_s)):
        block = Block(TEN, "a", (), (("a", "b", "c"),), pipelined=pipelined)
        plan = Plan(("a",), ("c",), 10, (block,))
        found = estimate(plan, LINE, MB, 10 * MB, auxiliary=auxiliary)
        assert found == pytest.approx(seconds)


def test_a_late_contributor_sends_its_part_of_a_block_over_relays_as_well():
    block = Block(TEN, "c", (("a", "b", "c"),), (), pipelined=False)
    agenda = Agenda()
    overlay = FluidOverlay(FluidLinks(agenda, LINE, {}))
    job = FluidTask(Plan(("a", "c"), ("c",), 10, (block,)), 10 * MB, MB)
    task = overlay.start(job, lambda _: None, unready="a")
    agenda.run(5.0)
    overlay.join(task, "a")
    agenda.run()
    assert agenda.now_s == 25.0


@pytest.mark.parametrize(
    ("bounds", "seconds"),
    [
        (None, 1.2),
        # A chunk takes 0.1 s per hop: one at a time goes around while two go straight.
        (Bounds(0, 1), 0.8),
        # Two go around at a time, one behind the other; the last of six arrives after 0.7 s.
        (Bounds(0, 2), 0.7),
        # Eleven more wait for the direct link before anything goes around.
        (Bounds(11, 1), 1.2),
    ],
)
def test_auxiliary_paths_carry_what_finds_the_primary_one_busy(bounds, seconds):
    rates = dict.fromkeys([("s", "t"), ("s", "m"), ("m", "t")], 8.0)
    block = Block(((0, 12),), "s", (), (("s", "t"),))
    plan = Plan(("s",), ("t",), 12, (block,))
    found = estimate(plan, rates, 100_000, 1_200_000, auxiliary=bounds)
    assert found == pytest.approx(seconds)


def test_better_known_rates_open_other_auxiliary_paths():
    rates = dict.fromkeys([("s", "t"), ("s", "m"), ("m", "t"), ("s", "k"), ("k", "t")], 8.0)
    plan = Plan(("s",), ("t",), 9, (Block(((0, 9),), "s", (), (("s", "t"),)),))
    agenda = Agenda()
    links = FluidLinks(agenda, rates, {}, auxiliary=Bounds(0, 1))
    overlay = FluidOverlay(links)
    links.set_known_rates({link: rate for link, rate in rates.items() if "k" not in link})
    overlay.start(FluidTask(plan, 900_000, 100_000), lambda site: None)
    agenda.run(0.35)
    links.set_known_rates(rates)
    agenda.run()
    # Four and two are sent by then; of the last three one goes by k and one by m.
    assert agenda.now_s == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("contributors", "told_s", "done_s"),
    [
        ("abc", {}, 2.0),
        ("abc", {"b": 0.5}, 2.5),  # b sends later
        ("abc", {"b": 0.25, "c": 0.5}, 2.25),  # c sends four times as fast as b
        ("abc", {"a": 0.75}, 2.0),  # a adds its own part before the others' parts are there
        ("abc", {"a": 1.5}, 2.5),
        ("bc", {"a": 1.5}, 2.5),  # a passes nothing on before it has heard of the task
        ("bc", {"a": 0.5, "b": 0.25, "c": 0.0}, 2.25),
    ],
)
def test_a_task_waits_for_sites_that_hear_of_it_late_only_where_it_needs_them(
    contributors, told_s, done_s
):
    plan = replace(stars("abc", a=(0, 1)), contributors=tuple(contributors))
    rates_mbps = ONE_PER_S | {("c", "a"): 32.0}
    assert estimate(plan, rates_mbps, MB, MB, told_s=told_s) == done_s


def test_a_server_of_one_block_takes_no_part_in_the_block_of_another():
    """Both servers hear late; each passes on the sums of its own block."""
    ways = routes([(x, y) for x in "abc" for y in "abc" if x != y], ONE_PER_S)
    blocks = [Block(((n, n + 1),), hub, *star(hub, "ab", ways)) for n, hub in enumerate("ca")]
    plan = Plan(("a", "b"), ("a", "b"), 2, tuple(blocks))
    assert estimate(plan, ONE_PER_S, MB, 2 * MB) == 2.0
    assert estimate(plan, ONE_PER_S, MB, 2 * MB, told_s={"c": 1.5}) == 2.5
    assert estimate(plan, ONE_PER_S, MB, 2 * MB, told_s={"a": 0.5, "c": 1.25}) == 2.5
