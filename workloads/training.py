"""A small network on Fashion-MNIST: local SGD at every site, models averaged between them.

As in P-Reduce (Algorithm 2), a site takes SGD steps on its own shard and contributes the updated
model. The result of the synchronization replaces that model. Momentum stays local.

The steps are taken on a copy of the model. So a site can also contribute the change that they make,
and the model may change while they are taken: then the change is added to it, as in AD-PSGD (Lian
et al., "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018, Algorithm 1).

The work is real, but its duration is modelled (`compute_time`), so that runs repeat exactly.
Batches are drawn from (seed, rank, iteration), the initial model from the seed, and torch uses one
thread.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from trunkline.workloads import compute_time, datasets, models
from trunkline.workloads import shards as shard_rules
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation, Vector, allocate
from trunkline.workloads.compute_time import Compute, ComputeTime, Delay, Slowdown
from trunkline.workloads.datasets import Bytes, Dataset
from trunkline.workloads.models import Network
from trunkline.workloads.option_rules import (
    OptionError,
    Rule,
    Sites,
    find_broken,
    number,
    one_of,
    positive,
    reject,
    whole,
)
from trunkline.workloads.shards import Indexes, Kind, Outliers, deal

if TYPE_CHECKING:
    import torch

EVALUATES = True
GIVES_CHANGES = True
compute_times = compute_time.of_options

PIXEL_MEAN = 72.94
PIXEL_DEVIATION = 90.02
"""Mean and standard deviation of the training set's pixels (0 .. 255)."""

EVALUATION_BATCH = 500
SHARDS, BATCHES = 0, 1
"""The first words of the seeds of two independent streams of random numbers."""

RULES: Mapping[str, Rule] = {
    "network": one_of(*get_args(Network)),
    "channels": whole(1, 256),
    "hidden": whole(1, 65_536),
    "batch": whole(1, 4096),
    "local_steps": whole(1, 10_000),
    "learning_rate": positive(100),
    "momentum": number(0, 1),
    "weight_decay": number(0, 1),
    "shards": one_of(*get_args(Kind)),
    "alpha": positive(1e6),
    "outlier_alpha": positive(1e6),
}


@dataclass(frozen=True, slots=True)
class Sgd:
    """The hyperparameters of one iteration: `local_steps` steps, each on `batch` samples."""

    batch: int
    local_steps: int
    learning_rate: float
    momentum: float
    weight_decay: float


class Training:
    """One site's model, momentum and shard."""

    def __init__(
        self,
        module: torch.nn.Module,
        data: Dataset,
        shard: Indexes,
        sgd: Sgd,
        times: ComputeTime,
    ) -> None:
        self._module = module
        self._model: Vector = models.flatten(module).numpy()
        self._stepped_module = copy.deepcopy(module)
        self._stepped: Vector = models.flatten(self._stepped_module).numpy()
        self._change: Vector = allocate(self._model.size)
        # An `install` while the model is copied in another thread would mix two models.
        self._copying = threading.Lock()
        self._is_installed_since = False
        self._parameters = list(self._stepped_module.parameters())
        self._velocities = [parameter.detach() * 0 for parameter in self._parameters]
        self._data = data
        self._shard = shard
        self._sgd = sgd
        self._times = times

    def compute(self, iteration: int, batch: int | None = None) -> float:
        """Take `local_steps` steps of SGD, on batches drawn from the shard, from a copy."""
        time_s = self._times.time_s(iteration, batch)
        with self._copying:
            np.copyto(self._stepped, self._model)
            self._is_installed_since = False
        np.copyto(self._change, self._stepped)
        rng = np.random.default_rng((BATCHES, self._times.seed, self._times.rank, iteration))
        size = (self._sgd.local_steps, batch or self._sgd.batch)
        for samples in self._shard[rng.integers(self._shard.size, size=size)]:
            self._step(samples)
        np.subtract(self._stepped, self._change, out=self._change)
        return time_s

    def commit(self) -> None:
        """Take over the parameters after the steps; add the change if others were installed."""
        if self._is_installed_since:
            self._model += self._change
        else:
            np.copyto(self._model, self._stepped)

    def change(self) -> Vector:
        """Return the parameters after the steps minus those before them."""
        return self._change

    def contribution(self) -> Vector:
        """Return the parameters, not a copy."""
        return self._model

    def install(self, result: Vector) -> None:
        """Overwrite the parameters; momentum stays as it is."""
        with self._copying:
            np.copyto(self._model, result)
            self._is_installed_since = True

    def evaluate(self) -> Evaluation:
        """Return accuracy and loss on the whole test set."""
        return evaluate(self._module, self._data.test_images, self._data.test_labels)

    def _step(self, samples: Indexes) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        data = self._data
        images, labels = to_tensors(data.train_images[samples], data.train_labels[samples])
        loss = cross_entropy(self._stepped_module(images), labels)
        gradients = torch.autograd.grad(loss, self._parameters)
        with torch.no_grad():
            for parameter, velocity, gradient in zip(
                self._parameters, self._velocities, gradients, strict=True
            ):
                velocity.mul_(self._sgd.momentum).add_(gradient)
                if self._sgd.weight_decay:
                    velocity.add_(parameter, alpha=self._sgd.weight_decay)
                parameter.sub_(velocity, alpha=self._sgd.learning_rate)


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    network: Network = "cnn",
    channels: int = 8,
    hidden: int = 640,
    batch: int = 32,
    local_steps: int = 10,
    learning_rate: float = 0.05,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    shards: Kind = "iid",
    alpha: float = 1.0,
    outliers: Outliers = 0.0,
    outlier_alpha: float = 0.1,
    compute_s: Compute = 0.1,
    compute_factor: float = 1.0,
    slowdown: Slowdown | None = None,
    delay_s: Delay = 0.0,
    data: str = datasets.FASHION_MNIST,
) -> Training:
    """Return the workload of the site `rank`. Raises OptionError, DatasetError.

    Options:
        network: a small CNN, or one that also has an Inception block of four branches.
        channels: output channels of each convolution.
        hidden: units of the first fully connected layer.
        batch: samples in one step of SGD.
        local_steps: steps of SGD in one iteration.
        learning_rate: the learning rate of SGD.
        momentum: the momentum of SGD.
        weight_decay: the weight decay of SGD.
        shards: how samples are shared among the sites: `iid`, `dirichlet` (the sites' shares of
            each class are drawn; sites have different numbers of samples), `even-dirichlet` (the
            mix of classes of each site is drawn; all sites have the same number of samples, and no
            two the same sample), or `independent-dirichlet` (so is the mix, and then each site
            draws its samples on its own, so that several may have the same one).
        alpha: the parameter of the Dirichlet distribution; a smaller one makes the classes of sites
            differ more.
        outliers: with these two, the sites that have `outlier_alpha`: a share from 0 to 1 of the
            sites, chosen by the seed, or a list of sites.
        outlier_alpha: the parameter of the Dirichlet distribution of these sites.
        compute_s: the time of an iteration: one time, [low, high] (uniform), t1, t2, {lognormal:
            {mean: 0.1 s, deviation: 0.05 s, low: 0 s, high: 1 s}}, measured times ({csv: FILE} or
            {measured: [0.11 s, 0.12 s]}), or one of these for each site, and for `others`.
        compute_factor: multiplies the times of all sites.
        slowdown: multiplies the times of some sites: site -> factor.
        delay_s: a time that a site waits after computing, before its update is there; in the forms
            of `compute`, or site -> time. No factor and no batch changes it.
        data: the folder of the data set.
    """
    given = {
        name: value for name, value in locals().items() if name not in ("rank", "sites", "seed")
    }
    reject(problems(sites, **given))
    preload(data=data)
    loaded = datasets.load(data)
    alphas = np.full(sites if isinstance(sites, int) else len(sites), alpha)
    alphas[list(shard_rules.find_outliers(outliers, sites, seed))] = outlier_alpha
    dealt = deal(shards, loaded.train_labels, alphas, np.random.default_rng((SHARDS, seed)))
    return Training(
        models.make(network, channels, hidden, seed),
        loaded,
        dealt[rank],
        Sgd(batch, local_steps, learning_rate, momentum, weight_decay),
        compute_time.for_site(
            rank, sites, seed, compute_s, compute_factor, slowdown, batch, delay_s
        ),
    )


def model_bytes(*, network: Network = "cnn", channels: int = 8, hidden: int = 640, **_: Any) -> int:
    """Return the bytes of the flat float32 parameter vector, without torch."""
    return ELEMENT_BYTES * models.parameter_count(channels, hidden, network)


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    found = find_broken(RULES, options) + compute_time.problems(sites, options)
    return found + shard_rules.problems(sites, options)


def preload(*, data: str = datasets.FASHION_MNIST, **_: Any) -> None:
    """Import torch, with one thread, and read the data set, so that forked workers share both."""
    import torch

    torch.set_num_threads(1)
    datasets.load(data)


def evaluate(module: torch.nn.Module, images: Bytes, labels: Bytes) -> Evaluation:
    """Return the model's accuracy and mean loss on uint8 images of shape (samples, 28, 28)."""
    import torch
    from torch.nn.functional import cross_entropy

    correct, loss = 0, 0.0
    with torch.inference_mode():
        for start in range(0, len(labels), EVALUATION_BATCH):
            part = slice(start, start + EVALUATION_BATCH)
            pixels, classes = to_tensors(images[part], labels[part])
            scores = module(pixels)
            correct += int((scores.argmax(dim=1) == classes).sum())
            loss += float(cross_entropy(scores, classes, reduction="sum"))
    return Evaluation(100 * correct / len(labels), loss / len(labels), len(labels))


def to_tensors(images: Bytes, labels: Bytes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalized images of shape (samples, 1, 28, 28), and labels as whole numbers."""
    import torch

    pixels = (images[:, None].astype(np.float32) - PIXEL_MEAN) / PIXEL_DEVIATION
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))
