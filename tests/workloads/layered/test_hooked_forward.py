"""Real PyTorch layers wait for their parameters, and compute what they would compute at once."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trunkline import workloads
from trunkline.workloads import training, training_in_layers
from trunkline.workloads.layered.hooked_forward import HookedForward
from trunkline.workloads.layered.model import WorkloadWithHooks
from trunkline.workloads.learning import models

SMALL = {"channels": 2, "hidden": 16, "batch": 16}


def test_a_layer_computes_when_it_is_told_with_the_parameters_of_that_moment():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    forward = HookedForward([[module[0]], [module[2]]])
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
    forward = HookedForward([[each] for each in module])
    forward.start(lambda: module(torch.ones(1, 2)))
    with pytest.raises(RuntimeError, match="branch 1 is to be computed, but branch 0 waits"):
        forward.advance(1)
    with pytest.raises(RuntimeError, match="no result: branch 0 waits"):
        forward.take_result()
    forward.abort()
    with pytest.raises(RuntimeError, match="but none waits"):
        forward.advance(0)


def test_an_error_of_the_computation_is_raised_where_it_is_advanced():
    module = nn.Sequential(nn.Linear(2, 2))
    forward = HookedForward([[each] for each in module])
    forward.start(lambda: module(torch.ones(1, 3)))
    with pytest.raises(RuntimeError, match="shapes"):
        forward.advance(0)


def test_the_module_computes_at_once_for_others():
    module = nn.Sequential(nn.Linear(2, 2))
    forward = HookedForward([[each] for each in module])
    forward.start(lambda: module(torch.ones(1, 2)))
    assert module(torch.ones(1, 2)).shape == (1, 2)
    forward.abort()


def find_gradients(orders, seed=3):
    """Loss and gradients of an Inception network by its whole forward, and branches in orders."""
    module = models.make("inception", 3, 16, seed)
    images = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 3, 9, 1, 1])
    loss = cross_entropy(module(images), labels)
    found = [[loss, *torch.autograd.grad(loss, list(module.parameters()))]]
    hooked = copy.deepcopy(module)
    forward = HookedForward(models.find_bases(hooked))
    for order in orders:
        forward.start(lambda: cross_entropy(hooked(images), labels))
        for branch in order:
            forward.advance(branch)
        loss = forward.take_result()
        found.append([loss, *torch.autograd.grad(loss, list(hooked.parameters()))])
    return found


def test_branches_of_an_inception_block_are_computed_as_they_arrive_to_the_bit_as_the_whole():
    """Also the gradients of the layer before the block, which are the sum of four."""
    orders = [(0, *order, 5, 6) for order in itertools.permutations((1, 2, 3, 4))]
    whole, *others = find_gradients(orders)
    assert len(others) == 24
    for found in others:
        assert all(torch.equal(a, b) for a, b in zip(whole, found, strict=True))


def test_a_branch_computes_with_the_parameters_of_its_own_turn():
    module = models.make("inception", 1, 2, 0)
    forward = HookedForward(models.find_bases(module))
    images = torch.ones(1, 1, 28, 28)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        forward.start(lambda: module(images))
        forward.advance(0)
        module.branches[3][1].bias.fill_(2.0)
        forward.advance(4)
        module.branches[3][1].bias.zero_()
        for branch in (2, 1, 3):
            forward.advance(branch)
        module.hidden.weight[0] = 1.0
        forward.advance(5)
        module.output.weight[:, 0] = 1.0
        forward.advance(6)
    # 49 pooled values of 2, of the fourth of four channels.
    assert forward.take_result().tolist() == [[98.0] * 10]


def test_a_base_waits_for_all_of_its_branches():
    module = models.make("inception", 1, 2, 0)
    forward = HookedForward(models.find_bases(module))
    forward.start(lambda: module(torch.ones(1, 1, 28, 28)))
    with pytest.raises(RuntimeError, match="branch 3 is to be computed, but branch 0 waits"):
        forward.advance(3)
    forward.advance(0)
    forward.advance(3)
    with pytest.raises(RuntimeError, match="branch 3 is to be computed, but branch 1, 2, 4 waits"):
        forward.advance(3)
    with pytest.raises(RuntimeError, match="branch 5 is to be computed, but branch 1, 2, 4 waits"):
        forward.advance(5)
    forward.abort()
    forward.start(lambda: module(torch.ones(1, 1, 28, 28)))
    for branch in (0, 4, 3, 2, 1, 5, 6):
        forward.advance(branch)
    assert forward.take_result().shape == (1, 10)


def test_branches_of_a_base_have_the_same_input():
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, given):
            return self.a(given) + self.b(2 * given)

    module = Apart()
    forward = HookedForward([[module.a, module.b]])
    forward.start(lambda: module(torch.ones(1, 2)))
    forward.advance(1)
    with pytest.raises(RuntimeError, match="branch 1 has another input than the others"):
        forward.advance(0)


@pytest.mark.parametrize("network", ["cnn", "inception"])
def test_a_step_in_layers_is_the_step_of_training(network):
    options = {**SMALL, "model": network}
    whole = training.build(1, 3, 5, **options, local_steps=1)
    layers = training_in_layers.build(1, 3, 5, **options)
    places, start = [], 0
    for size in training_in_layers.tensor_bytes(**options):
        places.append(slice(start, start := start + size // 4))
    assert isinstance(layers, WorkloadWithHooks)
    assert np.array_equal(whole.contribution(), layers.contribution())
    for iteration in range(3):
        taken = whole.compute(iteration)
        layers.begin(iteration, None)
        for numbers in layers.layers(iteration).numbers:
            for branch in reversed(numbers):  # not in the order of the module
                layers.receive(places[branch], layers.contribution()[places[branch]])
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


@pytest.mark.parametrize("network", ["cnn", "inception"])
def test_branches_are_those_of_the_module_in_the_order_of_its_parameters(network):
    options = {**SMALL, "model": network}
    module = models.make(network, 2, 16, 0)
    bases = models.find_bases(module)
    unit = training_in_layers.layers(**options)
    assert [len(base.branches) for base in unit.bases] == list(map(len, bases))
    of_branches = [list(branch.parameters()) for base in bases for branch in base]
    sizes = [4 * sum(each.numel() for each in found) for found in of_branches]
    assert sizes == list(training_in_layers.tensor_bytes(**options))
    assert sum(sizes) == training.model_bytes(**options)
    flat = [each for found in of_branches for each in found]
    assert all(a is b for a, b in zip(flat, module.parameters(), strict=True))
    assert module(torch.zeros(3, 1, 28, 28)).shape == (3, 10)
