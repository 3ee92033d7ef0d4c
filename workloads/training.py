"""A small network on Fashion-MNIST, or a model of one's own: local SGD at every site.

As in P-Reduce (Algorithm 2), a site takes SGD steps on its own shard and contributes the updated
model. The result of the synchronization replaces that model. Momentum stays local.

The steps are taken on a copy of the model. So a site can also contribute the change that they make,
and the model may change while they are taken: then the change is added to it, as in AD-PSGD (Lian
et al., "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018, Algorithm 1).

The work is real, but its duration is modelled (`compute_time`), so that runs repeat exactly.
Batches, and what a model itself draws, are drawn from (seed, rank, iteration), the initial model
from the seed, and torch uses one thread.

`own_models` makes this workload of a user's file with a model.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, cast, get_args

import numpy as np

from trunkline.workloads import compute_time
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation, Vector, allocate
from trunkline.workloads.compute_time import Compute, ComputeTime, Delay, Slowdown
from trunkline.workloads.learning import datasets, models, schedules
from trunkline.workloads.learning import shards as shard_rules
from trunkline.workloads.learning.datasets import Bytes, Dataset
from trunkline.workloads.learning.models import Network
from trunkline.workloads.learning.schedules import Schedule
from trunkline.workloads.learning.shards import Indexes, Kind, Outliers, deal
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

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

EVALUATES = True
GIVES_CHANGES = True
compute_times = compute_time.of_options

PIXEL_MEAN = 72.94
PIXEL_DEVIATION = 90.02
"""Mean and standard deviation of the training set's pixels (0 .. 255)."""

COLOUR_MEANS = (125.31, 122.95, 113.87)
COLOUR_DEVIATIONS = (62.99, 62.09, 66.70)
"""The same of CIFAR-10's red, green and blue."""

EVALUATION_BATCH = 500
SHARDS, BATCHES, DRAWS = 0, 1, 3
"""The first words of the seeds of independent streams of random numbers; `shards` has another."""

Model: TypeAlias = Network | Annotated[str, "*.py"]
"""The model that sites train: a network that is built in, or that of a file beside the scenario."""

RULES: Mapping[str, Rule] = {
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
    schedule: Schedule | None = None

    def rate(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        share = 1.0 if self.schedule is None else self.schedule.share(iteration)
        return share * self.learning_rate


class Task(Protocol):
    """What a model learns: the samples, and how good its outputs are."""

    def loss(self, module: torch.nn.Module, samples: Indexes) -> torch.Tensor:
        """Return the mean loss of a module on these training samples."""

    def evaluate(self, module: torch.nn.Module) -> Evaluation:
        """Return accuracy and loss on all held-out samples."""


@dataclass(frozen=True, slots=True)
class Images:
    """Images with labels: the task of the CNN."""

    data: Dataset

    def loss(self, module: torch.nn.Module, samples: Indexes) -> torch.Tensor:
        """Return the mean cross entropy of a module on these training samples."""
        from torch.nn.functional import cross_entropy

        data = self.data
        images, labels = to_tensors(data.train_images[samples], data.train_labels[samples])
        return cross_entropy(module(images), labels)

    def evaluate(self, module: torch.nn.Module) -> Evaluation:
        """Return accuracy and loss on the whole test set."""
        return evaluate(module, self.data.test_images, self.data.test_labels)


class Training:
    """One site's model, momentum and shard.

    The model has all of `models.list_tensors`. Only parameters are stepped; the module itself
    changes the state of batch normalization, beside the model like everything else of a step.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        task: Task,
        shard: Indexes,
        sgd: Sgd,
        times: ComputeTime,
    ) -> None:
        self._module = module.eval()
        self._model: Vector = models.flatten(module).numpy()
        self._stepped_module = copy.deepcopy(module).train()
        self._stepped: Vector = models.flatten(self._stepped_module).numpy()
        self._change: Vector = allocate(self._model.size)
        # An `install` while the model is copied in another thread would mix two models.
        self._copying = threading.Lock()
        self._is_installed_since = False
        self._parameters = [
            each for each in self._stepped_module.parameters() if each.requires_grad
        ]
        self._velocities = [parameter.detach() * 0 for parameter in self._parameters]
        self._task = task
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
        place = (self._times.seed, self._times.rank, iteration)
        rng = np.random.default_rng((BATCHES, *place))
        size = (self._sgd.local_steps, batch or self._sgd.batch)
        rate = self._sgd.rate(iteration)
        (drawn,) = np.random.SeedSequence((DRAWS, *place)).generate_state(1, np.uint64)
        with seeded(int(drawn)):
            for samples in self._shard[rng.integers(self._shard.size, size=size)]:
                self._step(samples, rate)
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
        """Overwrite the model; momentum stays as it is."""
        with self._copying:
            np.copyto(self._model, result)
            self._is_installed_since = True

    def evaluate(self) -> Evaluation:
        """Return accuracy and loss on all held-out samples."""
        return self._task.evaluate(self._module)

    def _step(self, samples: Indexes, rate: float) -> None:
        import torch

        loss = self._task.loss(self._stepped_module, samples)
        gradients = torch.autograd.grad(loss, self._parameters)
        with torch.no_grad():
            for parameter, velocity, gradient in zip(
                self._parameters, self._velocities, gradients, strict=True
            ):
                velocity.mul_(self._sgd.momentum).add_(gradient)
                if self._sgd.weight_decay:
                    velocity.add_(parameter, alpha=self._sgd.weight_decay)
                parameter.sub_(velocity, alpha=rate)


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    model: Model = "cnn",
    channels: int = 8,
    hidden: int = 640,
    batch: int = 32,
    local_steps: int = 10,
    learning_rate: float = 0.05,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    schedule: Schedule | None = None,
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
        model: the network: `cnn`, `inception` (it also has a block of four branches), or a file of
            your own, NAME.py, relative to the scenario (docs/own_model.md). Then the options of
            its model take the place of the next two.
        channels: output channels of each convolution.
        hidden: units of the first fully connected layer.
        batch: samples in one step of SGD.
        local_steps: steps of SGD in one iteration.
        learning_rate: the learning rate of SGD.
        momentum: the momentum of SGD.
        weight_decay: the weight decay of SGD.
        schedule: how the learning rate changes by iteration: `{step: {every: 100, factor: 0.1}}`,
            `milestones`, `exponential`, `cosine` or `linear`, and `warm_up`; by default it stays.
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
    if model not in get_args(Network):
        allowed = f"{', '.join(get_args(Network))}, or a file that the scenario is read with"
        raise OptionError("model", model, allowed)
    preload(data=data)
    loaded = datasets.load_grey(data)
    module = models.make(cast(Network, model), channels, hidden, seed)
    return assemble(rank, sites, seed, module, Images(loaded), loaded.train_labels, **given)


def assemble(
    rank: int,
    sites: Sites,
    seed: int,
    module: torch.nn.Module,
    task: Task,
    labels: NDArray[Any],
    **options: Any,
) -> Training:
    """Return the workload of the site `rank` with this model and task, by the options of `build`.

    `labels` are the classes of the training samples, by which they are shared among the sites.
    """
    alphas = np.full(sites if isinstance(sites, int) else len(sites), options["alpha"])
    outliers = shard_rules.find_outliers(options["outliers"], sites, seed)
    alphas[list(outliers)] = options["outlier_alpha"]
    dealt = deal(options["shards"], labels, alphas, np.random.default_rng((SHARDS, seed)))
    names = ("batch", "local_steps", "learning_rate", "momentum", "weight_decay", "schedule")
    sgd = Sgd(**{name: options[name] for name in names})
    return Training(module, task, dealt[rank], sgd, compute_times(rank, sites, seed, **options))


def model_bytes(*, model: Network = "cnn", channels: int = 8, hidden: int = 640, **_: Any) -> int:
    """Return the bytes of the flat float32 parameter vector, without torch."""
    return ELEMENT_BYTES * models.parameter_count(channels, hidden, model)


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    found = find_broken(RULES, options) + compute_time.problems(sites, options)
    found += schedules.problems(options.get("schedule"))
    return found + shard_rules.problems(sites, options)


def preload(*, data: str = datasets.FASHION_MNIST, **_: Any) -> None:
    """Import torch, with one thread, and read the data set, so that forked workers share both."""
    use_one_thread()
    datasets.load(data)


def use_one_thread() -> None:
    """Import torch, with one thread: the order of a sum must not depend on how many share it."""
    import torch

    torch.set_num_threads(1)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed what torch draws in this block; afterwards its state is as before.

    `torch.manual_seed` would note the call for devices that are not there, which reads files and
    the clock, and keeps it forever.
    """
    import torch

    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


def evaluate(module: torch.nn.Module, images: Bytes, labels: Bytes) -> Evaluation:
    """Return the model's accuracy and mean loss on uint8 images, grey or in colours."""
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
    """Return normalized images, and labels as whole numbers.

    Grey images become (samples, 1, 28, 28), colour images (samples, 3, 32, 32).
    """
    import torch

    if images.ndim == 3:
        pixels = (images[:, None].astype(np.float32) - PIXEL_MEAN) / PIXEL_DEVIATION
    else:
        means, deviations = np.array((COLOUR_MEANS, COLOUR_DEVIATIONS), np.float32)
        pixels = (images.astype(np.float32) - means[:, None, None]) / deviations[:, None, None]
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))
