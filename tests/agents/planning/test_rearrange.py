"""Algorithm 2 on ranges, against the paper's own steps on single chunks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.planning.plan import PlanError, PlanRequest, check
from trunkline.agents.planning.rearrange import keep_split, rearrange
from trunkline.agents.plans import a2a, crew

SITES = tuple("abcdef")


def by_chunk(current, sizes):
    """Algorithm 2, O(k): move the largest indexes to a list, hand out its smallest."""
    blocks = {site: sorted(current.get(site, ())) for site in {**current, **sizes}}
    pool = []
    for site, chunks in blocks.items():
        for _ in range(len(chunks) - sizes.get(site, 0)):
            pool.append(chunks.pop())
    pool.sort(reverse=True)
    for site, size in sizes.items():
        while len(blocks[site]) < size:
            blocks[site].append(pool.pop())
    return {site: set(blocks[site]) for site in sizes}


def indexes(chunks):
    return {chunk for start, stop in chunks for chunk in range(start, stop)}


def ranges(chunks):
    found = []
    for chunk in sorted(chunks):
        if found and found[-1][1] == chunk:
            found[-1] = (found[-1][0], chunk + 1)
        else:
            found.append((chunk, chunk + 1))
    return tuple(found)


@given(
    owners=st.lists(st.sampled_from(SITES[:5]), max_size=60),
    bounds=st.lists(st.integers(0, 60), min_size=5, max_size=5),
)
def test_ranges_move_exactly_the_chunks_that_the_paper_moves(owners, bounds):
    current = {site: {c for c, owner in enumerate(owners) if owner == site} for site in SITES[:5]}
    cuts = sorted(min(bound, len(owners)) for bound in bounds)
    sizes = {
        site: stop - start
        for site, start, stop in zip(SITES[1:], [0, *cuts], [*cuts[:4], len(owners)], strict=False)
    }
    found = rearrange({site: ranges(chunks) for site, chunks in current.items()}, sizes)
    assert {site: indexes(chunks) for site, chunks in found.items()} == by_chunk(current, sizes)
    assert all(chunks == ranges(indexes(chunks)) for chunks in found.values())


def test_the_largest_indexes_move_and_the_smallest_of_them_go_first():
    current = {"a": ((0, 4),), "b": ((4, 8),), "c": ((8, 10),)}
    assert rearrange(current, {"a": 2, "b": 3, "c": 3, "d": 2}) == {
        "a": ((0, 2),),
        "b": ((4, 7),),
        "c": ((2, 3), (8, 10)),
        "d": ((3, 4), (7, 8)),
    }


def test_sizes_of_other_chunks_are_refused():
    with pytest.raises(ValueError, match="sizes: 3 in all: expected 4"):
        rearrange({"a": ((0, 4),)}, {"a": 3})


def request(group, rates):
    return PlanRequest(group, SITES, rates, dict.fromkeys(rates, 1.0), 500, random.Random(0))


@given(seed=st.integers(0, 10**6), group=st.sets(st.sampled_from(SITES), min_size=2))
def test_a_rearranged_plan_is_right_and_keeps_what_the_sizes_allow(seed, group):
    rng = random.Random(seed)
    rates = {(a, b): rng.uniform(10, 250) for a in SITES for b in SITES if a != b}
    asked = request(tuple(sorted(group)), rates)
    default, fresh = crew.default(asked), crew.build(asked)
    plan = keep_split(default, fresh)
    check(plan, rates.keys())
    before = {block.aggregator: block for block in default.blocks}
    for block, new in zip(fresh.blocks, plan.blocks, strict=True):
        assert (new.size, new.aggregator) == (block.size, block.aggregator)
        old = before[new.aggregator]
        assert len(indexes(old.chunks) & indexes(new.chunks)) == min(old.size, new.size)


def test_a_plan_whose_blocks_overlap_cannot_be_rearranged():
    rates = {(a, b): 1.0 for a in SITES for b in SITES if a != b}
    asked = request(SITES, rates)
    with pytest.raises(PlanError, match="one block per aggregator"):
        keep_split(crew.default(asked), a2a.build(asked))
