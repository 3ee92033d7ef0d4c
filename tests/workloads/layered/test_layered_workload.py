"""The workload of branches: sizes and times of a table, values of `synthetic`."""

import numpy as np
import pytest

from trunkline.workloads import layered, synthetic
from trunkline.workloads.base import gives_changes, takes_batch
from trunkline.workloads.layered.model import WorkloadInLayers, load
from trunkline.workloads.option_rules import OptionError

DFN = {"table": "dfn", "size_factor": 0.001}


def test_the_tensors_are_the_branches_of_the_table_in_whole_numbers_of_float32():
    sizes = layered.tensor_bytes(**DFN)
    assert len(sizes) == len(load("dfn").branches)
    assert sizes[:2] == (40, 232)  # a thousandth of 38,144 B and 232,448 B
    assert layered.model_bytes(**DFN) == sum(sizes)
    assert layered.model_bytes(table="dfn") == load("dfn").parameter_bytes


def test_times_are_those_of_the_table_for_the_samples_and_the_site():
    found = layered.build(1, ("a", "b"), 0, **DFN, batch=10, slowdown={"b": 2.0})
    one = load("dfn")
    assert found.layers(0).forward_s == pytest.approx(20 * one.forward_s)
    assert found.layers(0, 5).backward_s == pytest.approx(10 * one.backward_s)
    assert found.compute(0) == pytest.approx(20 * (one.forward_s + one.backward_s))
    assert found.compute(0, 5) == pytest.approx(10 * (one.forward_s + one.backward_s))
    assert layered.layers(**DFN, batch=10).forward_s == pytest.approx(10 * one.forward_s)


def test_a_range_of_factors_is_drawn_for_each_iteration_and_known_before_the_run():
    options = {**DFN, "compute_factor": (0.5, 1.5)}
    found = layered.build(0, 2, 7, **options)
    times = [found.compute(iteration) for iteration in range(20)]
    whole = layered.build(0, 2, 7, **DFN).compute(0)
    assert len(set(times)) == 20 and all(0.5 * whole < each < 1.5 * whole for each in times)
    known = layered.compute_times(0, 2, 7, **options)
    assert [known.time_s(iteration) for iteration in range(20)] == times


def test_values_are_those_of_synthetic():
    found = layered.build(1, 2, 7, **DFN)
    assert isinstance(found, WorkloadInLayers) and takes_batch(found)
    assert gives_changes(found) and gives_changes(layered)
    found.compute(3)
    found.commit()
    wanted = synthetic.contribution(7, 1, 3, layered.model_bytes(**DFN) // 4)
    assert np.array_equal(found.contribution(), wanted)
    assert np.array_equal(found.change(), wanted)
    found.install(2 * wanted)
    assert np.array_equal(found.contribution(), 2 * wanted)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"size_factor": 0}, "size_factor"),
        ({"batch": 0}, "batch"),
        ({"compute_factor": -1.0}, "compute_factor"),
        ({"compute_factor": (2.0, 1.0)}, "compute_factor"),
        ({"slowdown": {"z": 2.0}}, "slowdown"),
    ],
)
def test_wrong_options_are_refused(options, key):
    with pytest.raises(OptionError, match=rf"workload\.{key}.*: expected"):
        layered.build(0, ("a", "b"), 0, **options)
