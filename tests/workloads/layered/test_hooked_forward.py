"""Real PyTorch layers wait for their parameters, and compute what they would compute at once."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trunkline import workloads
from trunkline.workloads import training, training_in_layers
from trunkline.workloads.layered.hooked_forward import HookedForward
from trunkline.workloads.layered.model import WorkloadWithHooks

SMALL = {"channels": 2, "hidden": 16, "batch": 16}


def test_a_layer_computes_when_it_is_told_with_the_parameters_of_that_moment():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    forward = HookedForward([module[0], module[2]])
    inputs = torch.tensor([[1.0, 2.0]])
    forward.start(lambda: module(inputs))
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    forward.advance(0)
    with torch.no_grad():
        module[0].weight[:] = 0.0
        module[2].weight[:] = torch.tensor([[10.0, 100.0]])
    forward.advance(1)
    assert forward.take_result().tolist() == [[610.0]]


def test_layers_have_their_turns():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    forward = HookedForward(list(module))
    forward.start(lambda: module(torch.ones(1, 2)))
    with pytest.raises(RuntimeError, match="layer 1 is to be computed, but 0 waits"):
        forward.advance(1)
    with pytest.raises(RuntimeError, match="layer 0 has not been computed"):
        forward.take_result()
    forward.abort()
    with pytest.raises(RuntimeError, match="but None waits"):
        forward.advance(0)


def test_an_error_of_the_computation_is_raised_where_it_is_advanced():
    module = nn.Sequential(nn.Linear(2, 2))
    forward = HookedForward(list(module))
    forward.start(lambda: module(torch.ones(1, 3)))
    with pytest.raises(RuntimeError, match="shapes"):
        forward.advance(0)


def test_the_module_computes_at_once_for_others():
    module = nn.Sequential(nn.Linear(2, 2))
    forward = HookedForward(list(module))
    forward.start(lambda: module(torch.ones(1, 2)))
    assert module(torch.ones(1, 2)).shape == (1, 2)
    forward.abort()


def test_a_step_in_layers_is_the_step_of_training():
    whole = training.build(1, 3, 5, **SMALL, local_steps=1)
    layers = training_in_layers.build(1, 3, 5, **SMALL)
    assert isinstance(layers, WorkloadWithHooks)
    assert np.array_equal(whole.contribution(), layers.contribution())
    for iteration in range(3):
        taken = whole.compute(iteration)
        layers.begin(iteration, None)
        start = 0
        for branch, size in enumerate(training_in_layers.tensor_bytes(**SMALL)):
            place = slice(start, start := start + size // 4)
            layers.receive(place, layers.contribution()[place])
            layers.compute_branch(branch)
        assert layers.compute(iteration) == taken
        whole.commit()
        layers.commit()
        assert np.array_equal(whole.change(), layers.change())
        assert np.array_equal(whole.contribution(), layers.contribution())
    assert whole.evaluate() == layers.evaluate()


def test_sizes_and_times_are_those_of_the_network():
    kind = workloads.find_kinds()["training_in_layers"]
    assert sum(kind.tensor_bytes(**SMALL)) == kind.model_bytes(**SMALL)
    found = kind.build(0, 2, 0, **SMALL, compute_s=0.9).layers(0)
    assert found.forward_s == pytest.approx(0.3) and found.backward_s == pytest.approx(0.6)
    assert kind.layers(**SMALL, compute_s=(1.0, 2.0)).forward_s == pytest.approx(0.5)
    module = copy.deepcopy(training.models.cnn(2, 16, 0))
    sizes = [sum(p.numel() for p in m.parameters()) for m in module if list(m.parameters())]
    assert [4 * size for size in sizes] == list(kind.tensor_bytes(**SMALL))
    assert cross_entropy(module(torch.zeros(1, 1, 28, 28)), torch.zeros(1, dtype=int)) > 0
