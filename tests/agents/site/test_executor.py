"""Executors of a whole overlay in one process: every plan, every order, arbitrary weights."""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from fabric import CHUNK_BYTES, Fabric, FakeLink, exact, integers, request
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import overlays

from trunkline.agents import registry
from trunkline.agents.planning.disciplines import DISCIPLINES, Queue
from trunkline.agents.planning.plan import Block, Plan, PlanError, send_on_whole, star
from trunkline.agents.planning.repair import move_block
from trunkline.agents.planning.site_plan import BlockPart, parts_of, summation_order
from trunkline.agents.plans import crew
from trunkline.agents.site.executor import Executor
from trunkline.agents.wire.framing import ChunkHeader
from trunkline.agents.wire.messages import ProtocolError, RearrangeTask, StartTask

MESH = {(a, b): 1.0 for a in "abcde" for b in "abcde" if a != b}


def repeated(plan, cut, models, weights, scale):
    """The same float32 operations in the order that the plan gives, chunk by chunk."""

    def added(names, span):
        total = None
        for name in names:
            nested = not isinstance(name, str)
            term = added(name, span) if nested else np.float32(weights[name]) * models[name][span]
            total = term if total is None else total + term
        return total

    result = np.zeros_like(next(iter(models.values())))
    for block in plan.blocks:
        for chunk in block.indexes():
            span = cut.span(chunk)
            result[span] = added(summation_order(plan, block), span) * np.float32(scale)
    return result


@pytest.mark.parametrize("name", sorted(registry.plans()))
@given(data=st.data())
@settings(max_examples=100)
def test_any_plan_on_any_overlay_gives_the_weighted_sum(name, data):
    tensors = data.draw(st.lists(st.integers(1, 20), max_size=12).map(tuple))
    elements = sum(tensors) or data.draw(st.integers(1, 90))
    fabric = Fabric(data.draw(overlays(6, 12)), elements, data.draw(st.integers()), tensors=tensors)
    group = tuple(sorted(data.draw(st.sets(st.sampled_from(fabric.sites), min_size=2))))
    whole = data.draw(st.booleans())
    weight = st.integers(1, 9) if whole else st.floats(0.001, 10.0)
    weights = {site: float(data.draw(weight)) for site in group}
    scale = 1 / sum(weights.values())
    models = integers(group, fabric.elements, 5)
    try:
        build = registry.plans()[name].build
        if data.draw(st.booleans()):
            build = send_on_whole(build)
        plan = build(request(fabric, group))
    except PlanError:
        return
    fabric.tell(3, plan, weights, scale, models)
    fabric.deliver()
    results = [fabric.results[site, 3] for site in group]
    assert len(fabric.results) == len(group)
    assert {result.tobytes() for result in results} == {results[0].tobytes()}
    np.testing.assert_array_equal(results[0], repeated(plan, fabric.cut, models, weights, scale))
    wanted = exact(models, weights, scale)
    if whole:
        np.testing.assert_array_equal(results[0], wanted)
    else:
        # Each of p products and p - 1 additions rounds by at most 2**-24 of terms up to 50.
        np.testing.assert_allclose(results[0], wanted, rtol=0, atol=50 * 2 * len(group) * 2**-24)


def stars(hubs, count, pipelined=True):
    """The group a, b, c, with equal blocks at the hubs."""
    routes = {link: link for link in MESH}
    size = count // len(hubs)
    return Plan(
        ("a", "b", "c"),
        ("a", "b", "c"),
        count,
        tuple(
            Block(
                ((n * size, (n + 1) * size),),
                hub,
                *star(hub, ("a", "b", "c"), routes),
                pipelined=pipelined,
            )
            for n, hub in enumerate(hubs)
        ),
    )


@given(
    seed=st.integers(0, 10**6),
    before=st.integers(0, 60),
    withdrawn=st.integers(0, 3),
    to=st.sampled_from("abcde"),
    pipelined=st.booleans(),
)
@settings(max_examples=300)
def test_a_block_that_moves_to_another_aggregator_at_any_moment_gives_the_same_sum(
    seed, before, withdrawn, to, pipelined
):
    fabric = Fabric(MESH, 20 * CHUNK_BYTES // 4, seed)
    models = integers("abc", fabric.elements, seed)
    weights = {"a": 1.0, "b": 2.0, "c": 5.0}
    plan = stars("abde", 20, pipelined)
    fabric.tell(0, plan, weights, 0.125, models)
    fabric.deliver(before)
    fabric.rearrange(0, plan, withdrawn, move_block(plan, plan.blocks[withdrawn], to))
    fabric.deliver()
    holders = [site for site in "abc" if (site, 0) in fabric.results]
    if len(holders) < 3:  # who has finished gives nothing to new blocks, but its result
        fabric.give(0, holders[0], [site for site in "abc" if site not in holders])
    for site in "abc":
        np.testing.assert_array_equal(fabric.results[site, 0], exact(models, weights, 0.125))


LINE = dict.fromkeys([("a", "b"), ("b", "c"), ("c", "b"), ("b", "a")], 1.0)


def moves_on_a_line(block, seed):
    """The links, in order, over which the chunks of a block of four go that is not pipelined."""
    fabric = Fabric(LINE, 4 * CHUNK_BYTES // 4, seed)
    plan = Plan(tuple("abc"), tuple("abc"), 4, (replace(block, pipelined=False),))
    models, weights = integers("abc", fabric.elements, seed), dict.fromkeys("abc", 1.0)
    fabric.tell(0, plan, weights, 1.0, models)
    fabric.deliver()
    for site in "abc":
        np.testing.assert_array_equal(fabric.results[site, 0], exact(models, weights, 1.0))
    return fabric.moves


@pytest.mark.parametrize("seed", range(10))
def test_a_site_that_adds_sends_a_block_on_when_it_is_whole(seed):
    block = Block(((0, 4),), "c", (("a", "b"), ("b", "c")), (("c", "b"), ("b", "a")))
    hops = [("a", "b"), ("b", "c"), ("c", "b"), ("b", "a")]
    assert moves_on_a_line(block, seed) == [hop for hop in hops for _ in range(4)]


@pytest.mark.parametrize("seed", range(10))
def test_a_relay_sends_a_block_on_when_it_is_whole(seed):
    block = Block(((0, 4),), "c", (("a", "b", "c"), ("b", "c")), (("c", "b", "a"), ("c", "b")))
    moves = moves_on_a_line(block, seed)
    when = {hop: [n for n, each in enumerate(moves) if each == hop] for hop in LINE}
    assert when["b", "c"][4] > when["a", "b"][3]  # b's own four go first
    assert when["c", "b"][0] > when["b", "c"][7]
    assert when["b", "a"][0] > when["c", "b"][6]  # c sends each chunk to a and then to b


@pytest.mark.parametrize(("ends", "sent"), [(False, 4), (True, 0)])
def test_a_relay_sends_what_waits_with_the_last_chunk_unless_the_task_has_ended(ends, sent):
    relay = Executor("b", ("a", "b", "c"), 4 * CHUNK_BYTES // 4, CHUNK_BYTES, lambda: 0)
    link = FakeLink()
    relay.dispatch.links = {"c": link}
    for chunk in range(4):
        if ends and chunk == 3:
            relay.end_task(0)
        more = chunk < 3
        header = ChunkHeader(True, 0, 0, chunk, 0, (2,), True, CHUNK_BYTES, more=more)
        assert link.queue == []
        relay.on_chunk("a", header, relay.allocate(header))
    assert [frame.chunk.chunk for frame in link.queue] == list(range(sent))
    assert [frame.chunk.more for frame in link.queue] == [True, True, True, False][:sent]


def test_what_is_queued_for_a_withdrawn_block_is_not_sent():
    fabric = Fabric(MESH, 20 * CHUNK_BYTES // 4)
    plan = stars("de", 20)
    models = integers("abc", fabric.elements, 0)
    fabric.tell(0, plan, dict.fromkeys("abc", 1.0), 1.0, models)
    assert len(fabric.links["a", "d"].queue) > 0
    fabric.rng = random.Random(1)
    fabric.rearrange(
        0, plan, 0, Block(((0, 10),), "e", *star("e", ("a", "b", "c"), {k: k for k in MESH}))
    )
    assert all(not fabric.links[site, "d"].queue for site in "abc")


def all_but_the_last_chunk():
    """A site that has the whole result, and waits until the last chunk of its own is sent."""
    fabric = Fabric({("a", "b"): 1.0, ("b", "a"): 1.0}, 4)
    sending = []
    fabric.links["a", "b"].put = sending.append
    plan = registry.plans()["a2a"].build(request(fabric, ("a", "b")))
    fabric.tell(0, plan, {"a": 1.0, "b": 1.0}, 0.5, integers("ab", 4, 0))
    fabric.deliver()
    return fabric, sending[0]


def test_a_site_that_has_answered_a_halt_does_not_finish_when_its_last_chunk_is_sent():
    """It has the whole result. The chunk is partly sent by then, and so is sent to its end."""
    fabric, last = all_but_the_last_chunk()
    assert not fabric.executors["a"].halt(0)
    last.sent(0, 0)
    assert fabric.results == {}


def test_a_site_does_not_finish_a_task_that_is_over():
    fabric, last = all_but_the_last_chunk()
    fabric.executors["a"].end_task(0)
    last.dropped()
    assert fabric.results == {}


def test_a_site_does_not_wait_for_chunks_that_a_lost_link_cannot_take():
    """The controller has been told of the loss and plans anew."""
    fabric = Fabric({("a", "b"): 1.0, ("b", "a"): 1.0}, 4)
    a = fabric.executors["a"]
    a.dispatch.links = {}
    plan = registry.plans()["a2a"].build(request(fabric, ("a", "b")))
    fabric.tell(0, plan, {"a": 1.0, "b": 1.0}, 0.5, integers("ab", 4, 0))
    assert a.has_left(0)


def test_nothing_that_comes_for_a_task_that_is_over_is_kept_or_counted():
    fabric, last = all_but_the_last_chunk()
    b = fabric.executors["b"]
    b.end_task(0)
    b.on_chunk("a", last.chunk, last.payload)
    assert (b.find_unknown_tasks(), b.open_accounts()) == ({}, ())


def test_a_block_with_a_single_source_is_weighted_and_scaled():
    fabric = Fabric(MESH, 4)
    plan = Plan(("a",), ("a",), 1, (Block(((0, 1),), "a", (), ()),))
    models = integers("a", 4, 0)
    fabric.tell(0, plan, {"a": 3.0}, 0.5, models)
    np.testing.assert_array_equal(fabric.results["a", 0], models["a"] * np.float32(1.5))


def test_a_contribution_that_comes_twice_is_refused():
    fabric = Fabric(MESH, 4)
    plan = Plan(
        tuple("abc"), tuple("abc"), 1, (Block(((0, 1),), "a", (("b", "a"), ("c", "a")), ()),)
    )
    message = StartTask(
        task=0,
        group=plan.contributors,
        blocks=1,
        floor=0,
        left_s=60.0,
        weights=dict.fromkeys("abc", 1.0),
        scale=1.0,
        contributes=True,
        receives=True,
        offers={},
        parts=parts_of(plan, "a"),
    )
    a = fabric.executors["a"]
    a.start(message, integers("a", 4, 0)["a"], lambda result: None)
    header = ChunkHeader(True, 0, 0, 0, fabric.sites.index("b"), (), True, 16)
    a.on_chunk("b", header, a.allocate(header))
    with pytest.raises(ProtocolError, match="unexpected contribution of b"):
        a.on_chunk("b", header, a.allocate(header))


def test_a_site_with_the_whole_result_gives_to_blocks_that_move_once_more_before_it_finishes():
    """Its model may change as soon as it has finished."""
    fabric = Fabric(MESH, 2 * CHUNK_BYTES // 4)
    a, model = fabric.executors["a"], integers("a", fabric.elements, 0)["a"]
    finished = []

    def leaf(block, chunk, hub):
        return BlockPart(block, ((chunk, chunk + 1),), ("a",), ("a",), ("a", hub), (), True)

    def result(block, chunk, hub):
        header = ChunkHeader(False, 0, block, chunk, "abcde".index(hub), (), False, CHUNK_BYTES)
        a.on_chunk(hub, header, a.allocate(header))

    def sent(hub):
        frame = fabric.links["a", hub].queue.pop()
        frame.sent(0, 0)
        return bytes(frame.payload)

    start = StartTask(
        task=0,
        group=("a",),
        blocks=2,
        floor=0,
        left_s=60.0,
        weights={"a": 1.0},
        scale=1.0,
        contributes=True,
        receives=True,
        offers={},
        parts=(leaf(0, 0, "b"), leaf(1, 1, "c")),
    )
    a.start(start, model, finished.append)
    whole = sent("b"), sent("c")
    result(0, 0, "b")
    a.rearrange(RearrangeTask(0, 3, 0, (0,), (leaf(2, 0, "d"),)))
    result(1, 1, "c")
    a.rearrange(RearrangeTask(0, 4, 0, (2,), (leaf(3, 0, "e"),)))
    assert not finished
    assert sent("e") == whole[0]
    assert len(finished) == 1


@pytest.mark.parametrize("floor", [0, 2])
def test_chunks_of_a_repair_queue_behind_everything_that_is_scheduled(floor):
    """CREW, Section IV-B. Blocks of task 0 move to b, or its plan is a new one."""
    fabric = Fabric(MESH, 4 * CHUNK_BYTES // 4)
    a = fabric.executors["a"]

    def leaf(block, chunk):
        return BlockPart(block, ((chunk, chunk + 1),), ("a",), ("a",), ("a", "b"), (), True)

    members = {"group": ("a", "b"), "weights": {"a": 1.0, "b": 1.0}, "scale": 0.5}
    role = {"contributes": True, "receives": True, "offers": {}}
    for task in (0, 1):
        start = StartTask(
            task=task, blocks=2, floor=0, left_s=60.0, parts=(leaf(0, 0),), **members, **role
        )
        a.start(start, integers("a", fabric.elements, task)["a"], lambda result: None)
    a.rearrange(RearrangeTask(0, 3, floor, (1,), (leaf(2, 1),)))
    a.rearrange(RearrangeTask(1, 3, floor, (1,), (leaf(2, 1),)))
    a.rearrange(RearrangeTask(0, 4, floor, (), (leaf(3, 2),)))
    queue = Queue(DISCIPLINES["fcfs"])
    for frame in fabric.links["a", "b"].queue:
        queue.push(frame.chunk, frame.flow)
    popped = list(iter(queue.pop, None))
    kept = [] if floor else [(0, 0), (1, 0)]
    assert [(each.task, each.block) for each in popped] == [*kept, (0, 2), (1, 2), (0, 3)]


def test_a_server_that_has_finished_passes_on_chunks_that_it_does_not_hold():
    """b holds chunk 0 and has its result; a new plan carries chunk 1 over b from a to c."""
    fabric = Fabric(MESH, 8)
    b = Executor("b", fabric.sites, 8, CHUNK_BYTES, lambda: 0, held=(0,))
    link = FakeLink()
    b.dispatch.links = {"c": link}
    finished = []
    ends = BlockPart(0, ((0, 1),), ("a",), ("a",), None, (), True)
    members = {"group": ("a", "b", "c"), "weights": {"a": 1.0}, "scale": 1.0}
    role = {"contributes": False, "receives": True, "offers": {}}
    start = StartTask(task=0, blocks=1, floor=0, left_s=60.0, parts=(ends,), **members, **role)
    b.start(start, None, finished.append)

    def arrive(inward, block, chunk, value):
        header = ChunkHeader(inward, 0, block, chunk, 0, (), inward, CHUNK_BYTES)
        data = b.allocate(header)
        data[:] = np.full(CHUNK_BYTES // 4, value, np.float32).tobytes()
        b.on_chunk("a", header, data)

    arrive(True, 0, 0, 3.0)
    assert finished[0].tolist() == [3.0] * 4 + [0.0] * 4
    passes_on = BlockPart(1, ((1, 2),), (), (), None, (("b", "c"),), False)
    b.rearrange(RearrangeTask(0, 2, 1, (), (passes_on,)))
    assert link.queue == []
    arrive(False, 1, 1, 5.0)
    assert np.frombuffer(link.queue.pop().payload, np.float32).tolist() == [5.0] * 4
    gives = BlockPart(2, ((0, 1),), (), (), None, (("b", "c"),), False)
    b.rearrange(RearrangeTask(0, 3, 2, (), (gives,)))
    assert np.frombuffer(link.queue.pop().payload, np.float32).tolist() == [3.0] * 4


FRESH = Fabric(MESH, 40)
TASK = crew.build(request(FRESH, ("a", "b", "c")))
HEADERS = st.builds(
    ChunkHeader,
    inward=st.booleans(),
    task=st.integers(0, 1),
    block=st.integers(0, 6),
    chunk=st.integers(0, 12),
    source=st.integers(0, 6),
    route=st.lists(st.integers(0, 6), max_size=3).map(tuple),
    original=st.booleans(),
    size=st.sampled_from([CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 8, 0]),
    early=st.booleans(),
)


@given(
    seed=st.integers(0, 99),
    sent=st.lists(st.tuples(st.permutations("abcde"), HEADERS), min_size=1, max_size=30),
)
@settings(max_examples=60)
def test_no_chunk_that_a_peer_may_send_does_more_harm_than_ending_its_connection(seed, sent):
    """Replayed, of no task or block, to nowhere, in another's name: taken in or a ProtocolError."""
    fabric = Fabric(MESH, 40, seed)
    models = integers(fabric.sites, 40, seed)
    fabric.tell(0, TASK, dict.fromkeys("abc", 1.0), 1 / 3, models)
    for (site, peer, *_), header in sent:
        executor = fabric.executors[site]
        with contextlib.suppress(ProtocolError):
            executor.on_chunk(peer, header, executor.allocate(header))
    for executor in fabric.executors.values():
        executor.end_task(0)
        assert not executor.running()
