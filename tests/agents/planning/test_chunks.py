"""Models cut into chunks, along their tensors, and chunks of all sizes shared fairly."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.agents.planning.chunks import cut_model, name_chunks
from trunkline.agents.planning.fluid.completion_times import estimate
from trunkline.agents.planning.plan import Block, Plan, PlanRequest, split, star
from trunkline.agents.plans import fapt
from trunkline.harness.commands import overview
from trunkline.harness.scenario.loading import parse
from trunkline.workloads import synthetic, tensors

PARAMETERS = {
    "alexnet": 61_100_840,
    "mobilenet": 3_504_872,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
}
"""As torchvision publishes them."""


@pytest.mark.parametrize(("model", "parameters"), PARAMETERS.items())
def test_the_tensors_of_a_model_have_as_many_parameters_as_are_published(model, parameters):
    assert sum(tensors.sizes(model)) == parameters


def test_the_largest_tensors_are_these():
    assert tensors.shapes("alexnet")[10] == (4096, 9216)
    assert tensors.shapes("alexnet")[0] == (64, 3, 11, 11)
    assert max(tensors.sizes("resnet50")) == 512 * 512 * 3 * 3
    assert tensors.shapes("mobilenet")[-2:] == ((1000, 1280), (1000,))
    counts = {model: len(tensors.shapes(model)) for model in PARAMETERS}
    assert counts == {
        "alexnet": 16, "mobilenet": 158, "resnet18": 62, "resnet50": 161, "resnet152": 467,
    }  # fmt: skip


def test_a_workload_has_the_size_and_the_tensors_of_the_model_that_it_names():
    assert synthetic.model_bytes(model_bytes="alexnet") == 4 * PARAMETERS["alexnet"]
    assert sum(synthetic.tensor_bytes(model_bytes="alexnet")) == 4 * PARAMETERS["alexnet"]
    assert synthetic.tensor_bytes(model_bytes=8_000_000) == ()
    workload = synthetic.build(0, ["a", "b"], 1, model_bytes="mobilenet")
    assert len(workload.contribution()) == PARAMETERS["mobilenet"]


def test_large_tensors_are_cut_and_small_ones_stay_whole():
    found = cut_model(25, 10, (3, 22))
    assert [found.span(chunk) for chunk in range(found.count)] == [
        slice(0, 3), slice(3, 13), slice(13, 23), slice(23, 25),
    ]  # fmt: skip
    assert found.sizes == (3, 10, 10, 2)
    assert found.size_of(((0, 1), (2, 4))) == 3 + 12


def test_one_array_is_cut_into_equal_chunks_but_for_the_last():
    found = cut_model(25, 10)
    assert [found.size(chunk) for chunk in range(found.count)] == [10, 10, 5]
    assert found.sizes is None


def test_tensors_that_are_not_all_of_the_model_are_refused():
    with pytest.raises(ValueError, match="tensors: 24 in all: expected the model's size, 25"):
        cut_model(25, 10, (3, 21))


@given(sizes=st.lists(st.integers(1, 50), min_size=1).map(tuple), largest=st.integers(1, 60))
def test_chunks_are_all_of_the_model_and_none_is_of_two_tensors(sizes, largest):
    found = cut_model(sum(sizes), largest, sizes)
    ends = {sum(sizes[:number]) for number in range(len(sizes) + 1)}
    spans = [found.span(chunk) for chunk in range(found.count)]
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == sum(sizes)
    assert ends <= {0, *(span.stop for span in spans)}
    assert all(0 < size <= largest for size in found.sizes)


def test_chunks_of_all_sizes_are_shared_by_size():
    assert split({"a": 1, "b": 1}, 4, (6, 1, 1, 4)) == {"a": ((0, 1),), "b": ((1, 4),)}
    assert split({"a": 1, "b": 8, "c": 1}, 3, (1, 8, 1)) == {
        "a": ((0, 1),), "b": ((1, 2),), "c": ((2, 3),),
    }  # fmt: skip


def test_roots_may_be_left_without_chunks_where_tensors_are_cut_coarsely():
    assert split(dict.fromkeys("abcd", 1), 2, (90, 10)) == {"b": ((0, 1),), "d": ((1, 2),)}


@given(
    shares=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 1), min_size=1),
    sizes=st.lists(st.integers(1, 9), min_size=1),
)
def test_equal_sizes_are_shared_as_without_sizes_and_every_chunk_lands_once(shares, sizes):
    count = len(sizes)
    assert split(shares, count, [1] * count) == split(shares, count)
    blocks = split(shares, count, sizes)
    assert sorted(k for ((a, b),) in blocks.values() for k in range(a, b)) == list(range(count))


def test_the_fluid_model_takes_every_chunk_for_as_large_as_it_is():
    rates = {("a", "b"): 8.0, ("b", "a"): 8.0}
    to_b = star("b", "ab", {link: link for link in rates})
    plan = Plan(("a", "b"), ("a", "b"), 3, (Block(((0, 3),), "b", *to_b),))
    # a sends 1, 3 and 1 MB; each comes back as soon as it is there.
    tensor_bytes = (10**6, 3 * 10**6, 10**6)
    found = estimate(plan, rates, 3 * 10**6, 5 * 10**6, tensor_bytes=tensor_bytes)
    assert found == pytest.approx(1 + 3 + 3 + 1)


def test_the_roots_of_a_tree_plan_get_bytes_by_their_quality():
    sites = ("a", "b", "c")
    rates = {(x, y): 10.0 for x in sites for y in sites if x != y}
    model = cut_model(
        4 * PARAMETERS["alexnet"], 4_000_000, synthetic.tensor_bytes(model_bytes="alexnet")
    )
    request = PlanRequest(
        sites, sites, rates, dict.fromkeys(rates, 0.0), model.count, random.Random(0),
        chunk_sizes=model.sizes,
    )  # fmt: skip
    shares = [model.size_of(block.chunks) / model.total for block in fapt.build(request).blocks]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.01)


def test_a_scenario_that_names_a_model_says_how_it_is_cut():
    scenario = parse(
        "topology: {builder: full_mesh, sites: 3}\n"
        "workload: {kind: synthetic, model: resnet18}\n"
        "scheme: {policy: bsp, plan: fapt, chunk: 4 MB}\n"
        "stop: {rounds: 1}\n",
        "resnet.yaml",
    )
    shown = overview.describe_scenario(scenario).columns[1]
    assert "46.76 MB in 69 chunks of up to 4 MB, 62 tensors" in list(shown.cells)


def test_chunks_in_words_are_runs_of_numbers():
    assert name_chunks([3]) == "3"
    assert name_chunks({0, 1, 2, 7, 5, 6, 10}) == "0 to 2, 5 to 7, 10"
    assert name_chunks(range(0, 20, 2)) == "0, 2, 4, 6, 8 and 5 more"
