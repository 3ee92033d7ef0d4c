"""SGD on Fashion-MNIST in PyTorch, whose layers wait for their parameters.

The network is that of `training`. Its forward computation begins while its parameters arrive:
layers and branches wait for them (`layered/hooked_forward.py`), and the branches of an Inception
block are computed as they arrive. An iteration is one step of SGD. The work is real, and its
duration is modelled: a third of it is forward, and layers share it in proportion to their
multiplications.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trunkline.workloads import compute_time, training
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation, Vector, allocate
from trunkline.workloads.compute_time import Compute, ComputeTime, Slowdown
from trunkline.workloads.layered.hooked_forward import HookedForward
from trunkline.workloads.layered.model import Base, Branch, LayeredModel
from trunkline.workloads.learning import datasets, models
from trunkline.workloads.learning.datasets import Dataset
from trunkline.workloads.learning.models import Network
from trunkline.workloads.learning.shards import Indexes, iid
from trunkline.workloads.option_rules import OptionError, Rule, Sites, find_broken, reject

if TYPE_CHECKING:
    import torch

EVALUATES = True
GIVES_CHANGES = True
preload = training.preload

FORWARD_SHARE = 1 / 3
"""Backward computes gradients by inputs and by weights: twice as much as forward."""

OPTIONS = ("channels", "hidden", "batch", "learning_rate", "momentum")
RULES: Mapping[str, Rule] = {name: training.RULES[name] for name in OPTIONS}


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """The layers of one site's iterations; those of `unit` take one second together."""

    unit: LayeredModel
    times: ComputeTime

    def layers(self, iteration: int, batch: int | None = None) -> LayeredModel:
        """The layers of an iteration, also with another number of samples."""
        return self.unit.scaled(self.times.time_s(iteration, batch))

    def time_s(self, iteration: int, batch: int | None = None) -> float:
        """The time of an iteration in seconds, forward and backward."""
        return self.times.time_s(iteration, batch)


class TrainingInLayers:
    """One site's model, momentum and shard; `receive` gives it the model of the next iteration."""

    def __init__(
        self,
        module: torch.nn.Module,
        data: Dataset,
        shard: Indexes,
        sgd: training.Sgd,
        times: LayerTimes,
    ) -> None:
        self._module = module
        self._model: Vector = models.flatten(module).numpy()
        self._next_module = copy.deepcopy(module)
        self._next: Vector = models.flatten(self._next_module).numpy()
        self._change: Vector = allocate(self._model.size)
        self._forward = HookedForward(models.find_bases(self._next_module))
        self._parameters = list(self._next_module.parameters())
        self._velocities = [parameter.detach() * 0 for parameter in self._parameters]
        self._data, self._shard, self._sgd, self._times = data, shard, sgd, times
        self._is_alike = False

    def layers(self, iteration: int, batch: int | None = None) -> LayeredModel:
        """The layers of an iteration at this site."""
        return self._times.layers(iteration, batch)

    def begin(self, iteration: int, batch: int | None) -> None:
        """Begin the forward computation of an iteration, and forget an earlier one."""
        times = self._times.times
        rng = np.random.default_rng((training.BATCHES, times.seed, times.rank, iteration))
        samples = self._shard[rng.integers(self._shard.size, size=batch or self._sgd.batch)]
        self._forward.start(lambda: self._compute_loss(samples))

    def receive(self, place: slice, parameters: Vector) -> None:
        """Take in parameters of the iteration that has begun."""
        self._next[place] = parameters

    def compute_branch(self, branch: int) -> None:
        """Compute the forward pass of a layer, all of whose parameters are here."""
        self._forward.advance(branch)

    def compute(self, iteration: int, batch: int | None = None) -> float:
        """Compute backward and take the step; returns the time of the whole iteration."""
        import torch

        gradients = torch.autograd.grad(self._forward.take_result(), self._parameters)
        np.copyto(self._change, self._next)
        self._is_alike = np.array_equal(self._model, self._next)
        with torch.no_grad():
            for parameter, velocity, gradient in zip(
                self._parameters, self._velocities, gradients, strict=True
            ):
                velocity.mul_(self._sgd.momentum).add_(gradient)
                parameter.sub_(velocity, alpha=self._sgd.learning_rate)
        np.subtract(self._next, self._change, out=self._change)
        return self._times.time_s(iteration, batch)

    def commit(self) -> None:
        """Take over the parameters after the step; add the step to a model that has changed."""
        if self._is_alike:
            np.copyto(self._model, self._next)
        else:
            self._model += self._change

    def change(self) -> Vector:
        """Return the parameters after the step minus those before it."""
        return self._change

    def contribution(self) -> Vector:
        """Return the parameters, not a copy."""
        return self._model

    def install(self, result: Vector) -> None:
        """Overwrite the parameters; momentum stays as it is."""
        np.copyto(self._model, result)
        self._is_alike = False

    def evaluate(self) -> Evaluation:
        """Return accuracy and loss on the whole test set."""
        return training.evaluate(self._module, self._data.test_images, self._data.test_labels)

    def _compute_loss(self, samples: Indexes) -> torch.Tensor:
        from torch.nn.functional import cross_entropy

        data = self._data
        images, labels = training.to_tensors(data.train_images[samples], data.train_labels[samples])
        return cross_entropy(self._next_module(images), labels)


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    model: Network = "cnn",
    channels: int = 8,
    hidden: int = 640,
    batch: int = 32,
    learning_rate: float = 0.05,
    momentum: float = 0.9,
    compute_s: Compute = 0.1,
    compute_factor: float = 1.0,
    slowdown: Slowdown | None = None,
    data: str = datasets.FASHION_MNIST,
) -> TrainingInLayers:
    """Return the workload of the site `rank`. Raises OptionError, DatasetError.

    Options:
        model: as in `training`; the four branches of an `inception` block are computed in the
            order in which they arrive.
        channels: output channels of each convolution.
        hidden: units of the first fully connected layer.
        batch: samples in one step of SGD.
        learning_rate: the learning rate of SGD.
        momentum: the momentum of SGD.
        compute_s: the time of an iteration: one time, [low, high] (uniform), t1, t2, {lognormal:
            {mean: 0.1 s, deviation: 0.05 s, low: 0 s, high: 1 s}}, measured times ({csv: FILE} or
            {measured: [0.11 s, 0.12 s]}), or one of these for each site, and for `others`.
        compute_factor: multiplies the times of all sites.
        slowdown: multiplies the times of some sites: site -> factor.
        data: the folder of the data set.
    """
    given = {
        name: value for name, value in locals().items() if name not in ("rank", "sites", "seed")
    }
    reject(problems(sites, **given))
    preload(data=data)
    loaded = datasets.load_grey(data)
    count = sites if isinstance(sites, int) else len(sites)
    shards = iid(loaded.train_labels.size, count, np.random.default_rng((training.SHARDS, seed)))
    return TrainingInLayers(
        models.make(model, channels, hidden, seed),
        loaded,
        shards[rank],
        training.Sgd(batch, 1, learning_rate, momentum, 0.0),
        compute_times(rank, sites, seed, **given),
    )


def compute_times(rank: int, sites: Sites, seed: int, **options: Any) -> LayerTimes:
    """Return the layers of all iterations of the site `rank`. Raises OptionError."""
    return LayerTimes(_make_unit(**options), compute_time.of_options(rank, sites, seed, **options))


def layers(
    *, compute_s: Compute = 0.1, compute_factor: float = 1.0, **options: Any
) -> LayeredModel:
    """Return the layers of an iteration of median length."""
    return _make_unit(**options).scaled(compute_factor * compute_time.median_s(compute_s))


def model_bytes(*, model: Network = "cnn", channels: int = 8, hidden: int = 640, **_: Any) -> int:
    """Return the bytes of the flat float32 parameter vector, without torch."""
    return ELEMENT_BYTES * models.parameter_count(channels, hidden, model)


def tensor_bytes(**options: Any) -> tuple[int, ...]:
    """Return the bytes of the parameters of each layer."""
    return tuple(branch.parameter_bytes for branch in _make_unit(**options).branches)


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    return find_broken(RULES, options) + compute_time.problems(sites, options)


def _make_unit(
    *, model: Network = "cnn", channels: int = 8, hidden: int = 640, **_: Any
) -> LayeredModel:
    """The layers of the network; an iteration takes one second."""
    costs = models.list_costs(model, channels, hidden)
    total = sum(each.multiplications for branches in costs.values() for each in branches)
    return LayeredModel(
        tuple(
            Base(
                name,
                tuple(
                    Branch(
                        each.name,
                        ELEMENT_BYTES * each.parameters,
                        FORWARD_SHARE * each.multiplications / total,
                        (1 - FORWARD_SHARE) * each.multiplications / total,
                    )
                    for each in branches
                ),
            )
            for name, branches in costs.items()
        )
    )
