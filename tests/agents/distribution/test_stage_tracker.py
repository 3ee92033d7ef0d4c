"""A worker computes base after base, and the branches of a base in the order of their arrival."""

import random

from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.distribution.stage_tracker import Stage, StageTracker
from trunkline.agents.planning.chunks import cut_model, cut_tensors
from trunkline.workloads.layered.model import Base, Branch, LayeredModel


def branch(name, elements):
    return Branch(name, 4 * elements, 1.0, 2.0)


MODEL = LayeredModel(
    (Base("stem", (branch("only", 4),)), Base("mixed", (branch("left", 8), branch("right", 3))))
)
CHUNKS = cut_tensors(4, (4, 8, 3))


def test_the_chunks_of_tensors_are_those_of_the_cut():
    assert (range(1), range(1, 3), range(3, 4)) == CHUNKS
    assert cut_model(15, 4, (4, 8, 3)).count == 4


def test_a_branch_arrives_with_its_last_chunk():
    tracker = StageTracker(MODEL, CHUNKS)
    assert tracker.arrive(2, 1.0) is None
    assert tracker.arrive(2, 2.0) is None
    assert tracker.arrive(1, 3.0) == 1
    assert tracker.arrive(1, 4.0) is None
    assert tracker.arrived_s == {1: 3.0}


def test_a_base_waits_for_the_base_before_and_then_takes_what_came_first():
    tracker = StageTracker(MODEL, CHUNKS)
    tracker.arrive(3, 1.0)
    assert tracker.take() is None
    tracker.arrive(0, 2.0)
    assert tracker.take() == Stage(0, 2.0)
    assert tracker.take() == Stage(2, 1.0)
    assert tracker.take() is None and not tracker.is_done
    tracker.arrive(1, 3.0)
    tracker.arrive(2, 4.0)
    assert tracker.take() == Stage(1, 4.0)
    assert tracker.is_done and tracker.take() is None


def test_a_model_that_is_here_is_computed_in_the_order_of_its_table():
    tracker = StageTracker(MODEL, CHUNKS)
    tracker.arrive_all(5.0)
    assert [tracker.take() for _ in range(3)] == [Stage(n, 5.0) for n in range(3)]


@given(st.integers(0, 2**32), st.lists(st.lists(st.integers(1, 9), min_size=1), min_size=1))
def test_whatever_the_order_of_chunks_every_branch_is_taken_once_and_bases_in_order(seed, sizes):
    bases = tuple(
        Base(str(n), tuple(branch("", size) for size in of)) for n, of in enumerate(sizes)
    )
    model = LayeredModel(bases)
    chunks = cut_tensors(2, [size for of in sizes for size in of])
    order = list(range(chunks[-1].stop))
    random.Random(seed).shuffle(order)
    tracker, taken = StageTracker(model, chunks), []
    for now, chunk in enumerate(order):
        tracker.arrive(chunk, now)
        while (stage := tracker.take()) is not None:
            assert stage.arrived_s <= now
            taken.append(stage.branch)
    assert sorted(taken) == list(range(len(chunks))) and tracker.is_done
    assert [model.base_of[each] for each in taken] == sorted(model.base_of)
