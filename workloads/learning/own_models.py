"""The workload `training` with a model of a user's own, from a file beside the scenario.

The file defines `model(*, ...) -> torch.nn.Module`. It may define `loss(outputs, targets)`,
`correct(outputs, targets)` and `data(*, ...)`; by default these are those of images with labels.
`make_kind` makes of it what `training` is: a module whose `build` has the options of both.

Sites exchange and average all that `models.list_tensors` lists: the parameters, and also the
running means and variances of batch normalization, so that the averaged model is whole. Each site
goes on from the averaged ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from trunkline.workloads import training
from trunkline.workloads.base import ELEMENT_BYTES, Evaluation
from trunkline.workloads.learning import datasets, models
from trunkline.workloads.learning.shards import Indexes
from trunkline.workloads.option_rules import OptionError, Sites
from trunkline.workloads.training import EVALUATION_BATCH, Training

if TYPE_CHECKING:
    import torch

REPLACED = ("channels", "hidden")
"""The options of the CNN, which a model of one's own does not have."""

TRIED = 32
"""The most samples of the batch with which a model is tried before a run."""

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

_sizes: dict[tuple[str, str], int] = {}
"""The bytes of models, by the names of their modules and their options."""

_tasks: dict[tuple[str, str], OwnTask] = {}
"""The last samples of a user's own, likewise: forked processes share them."""


class ModelError(ValueError):
    """The file of a model is not as it must be; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A user's file with a model, and the options of its functions.

    Attributes:
        name: the file's name.
        made: the module that running the file has made.
        options: the options of each function, `model` and perhaps `data`, by their names.
    """

    name: str
    made: ModuleType
    options: Mapping[str, Mapping[str, inspect.Parameter]]

    @property
    def has_data(self) -> bool:
        """Whether the file has samples of its own."""
        return has_data(self.made)

    def call(self, function: str, options: Mapping[str, Any]) -> Any:
        """Call `model` or `data` with its own options, of those of the workload."""
        return getattr(self.made, function)(**self.choose(function, options))

    def choose(self, function: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `model` or `data`, of those of the workload."""
        return {name: options[name] for name in self.options[function] if name in options}

    def identify(self, function: str, options: Mapping[str, Any]) -> tuple[str, str]:
        """What the result of `model` or `data` depends on, but for the seed."""
        return self.made.__name__, repr(sorted(self.choose(function, options).items()))

    def build_module(self, seed: int, options: Mapping[str, Any]) -> torch.nn.Module:
        """A new model; equal seeds give equal parameters. Raises OptionError."""
        import torch

        with training.seeded(seed):
            module = self.call("model", options)
        if not isinstance(module, torch.nn.Module):
            allowed = f"model() to return a torch.nn.Module, not a {type(module).__name__}"
            raise OptionError("model", self.name, allowed)
        for name, tensor in models.list_tensors(module):
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
                found = f"{tensor.dtype} on {tensor.device}"
                allowed = f"parameters and buffers of torch.float32 on cpu; {name} is {found}"
                raise OptionError("model", self.name, allowed)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise OptionError("model", self.name, "a model with a parameter that is trained")
        return module

    def load(self, options: Mapping[str, Any]) -> OwnTask | ImageTask:
        """The samples, and what the model learns of them. Raises OptionError, DatasetError."""
        if not self.has_data:
            return ImageTask(self.made, datasets.load(options["data"]))
        place = self.identify("data", options)
        if place not in _tasks:
            _tasks.clear()
            _tasks[place] = OwnTask(self.made, self._check_data(self.call("data", options)))
        return _tasks[place]

    def _check_data(self, given: Any) -> Arrays:
        names = ("train inputs", "train targets", "test inputs", "test targets")
        form = f"data() to return ({', '.join(names)})"
        if not isinstance(given, tuple | list) or len(given) != len(names):
            raise OptionError("model", self.name, f"{form}; it gave a {type(given).__name__}")
        arrays = tuple(map(_to_array, given))
        for name, array in zip(names, arrays, strict=True):
            if array.dtype not in (np.float32, np.int64) or not array.ndim or not len(array):
                found = f"{array.dtype} of shape {array.shape}"
                allowed = f"{form}, arrays of numbers with a row per sample; {name}: {found}"
                raise OptionError("model", self.name, allowed)
            if bad := int(np.count_nonzero(~np.isfinite(array))):
                allowed = f"{form}, finite numbers; {name}: {bad} of {array.size} are nan or inf"
                raise OptionError("model", self.name, allowed)
        train, targets, test, test_targets = arrays
        if len(train) != len(targets) or len(test) != len(test_targets):
            counts = ", ".join(f"{len(a)} {n}" for n, a in zip(names, arrays, strict=True))
            raise OptionError("model", self.name, f"{form}, inputs with a target each; {counts}")
        if not _are_classes(targets) and not hasattr(self.made, "correct"):
            allowed = "a function correct(outputs, targets) too: its targets are no classes"
            raise OptionError("model", self.name, allowed)
        return train, targets, test, test_targets


def has_data(made: ModuleType) -> bool:
    """Whether a file has a function `data`; it may have imported `torch.utils.data`."""
    return inspect.isfunction(getattr(made, "data", None))


def _to_array(given: Any) -> NDArray[Any]:
    array = np.asarray(given)
    if np.issubdtype(array.dtype, np.floating):
        return np.ascontiguousarray(array, np.float32)
    if np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_:
        return np.ascontiguousarray(array, np.int64)
    return array


def _are_classes(targets: NDArray[Any]) -> bool:
    return targets.ndim == 1 and targets.dtype == np.int64 and targets.min() >= 0


# -- what is learned ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnTask:
    """Samples of a user's own: arrays with a row per sample."""

    made: ModuleType
    data: Arrays

    @property
    def classes(self) -> NDArray[Any] | None:
        """The class of each training sample; None if targets are no classes."""
        return self.data[1] if _are_classes(self.data[1]) else None

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of samples to train with and to test with."""
        return len(self.data[0]), len(self.data[2])

    def train(self, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """These training samples: inputs and targets."""
        return _to_tensors(self.data[0][samples], self.data[1][samples])

    def test(self, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """These held-out samples: inputs and targets."""
        return _to_tensors(self.data[2][samples], self.data[3][samples])

    def loss(self, module: torch.nn.Module, samples: Indexes) -> torch.Tensor:
        """Return the mean loss of a module on these training samples."""
        return _compute_loss(self, module, samples)

    def evaluate(self, module: torch.nn.Module) -> Evaluation:
        """Return accuracy and loss on all held-out samples."""
        return _evaluate(self, module, self.sizes[1])


@dataclass(frozen=True, slots=True)
class ImageTask:
    """The images of `datasets`, for a user's own model."""

    made: ModuleType
    data: datasets.Dataset

    @property
    def classes(self) -> NDArray[Any]:
        """The class of each training sample."""
        return self.data.train_labels

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of samples to train with and to test with."""
        return len(self.data.train_labels), len(self.data.test_labels)

    def train(self, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """These training samples: normalized images, and labels."""
        data = self.data
        return training.to_tensors(data.train_images[samples], data.train_labels[samples])

    def test(self, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """These held-out samples: normalized images, and labels."""
        data = self.data
        return training.to_tensors(data.test_images[samples], data.test_labels[samples])

    def loss(self, module: torch.nn.Module, samples: Indexes) -> torch.Tensor:
        """Return the mean loss of a module on these training samples."""
        return _compute_loss(self, module, samples)

    def evaluate(self, module: torch.nn.Module) -> Evaluation:
        """Return accuracy and loss on all held-out samples."""
        return _evaluate(self, module, self.sizes[1])


def _to_tensors(inputs: NDArray[Any], targets: NDArray[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    return torch.from_numpy(inputs), torch.from_numpy(targets)


def _compute_loss(
    task: OwnTask | ImageTask, module: torch.nn.Module, samples: Indexes
) -> torch.Tensor:
    inputs, targets = task.train(samples)
    return _find_loss(task.made)(module(inputs), targets)


def _find_loss(made: ModuleType) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    from torch.nn.functional import cross_entropy

    found: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    found = getattr(made, "loss", cross_entropy)
    return found


def _evaluate(task: OwnTask | ImageTask, module: torch.nn.Module, count: int) -> Evaluation:
    """Accuracy and loss of a model on the first `count` held-out samples."""
    import torch

    loss, right = 0.0, 0.0
    compute_loss, is_right = _find_loss(task.made), getattr(task.made, "correct", _has_most)
    with torch.inference_mode():
        _lift_variances(module)
        for start in range(0, count, EVALUATION_BATCH):
            part = slice(start, min(start + EVALUATION_BATCH, count))
            inputs, targets = task.test(part)
            outputs = module(inputs)
            loss += float(compute_loss(outputs, targets)) * len(targets)
            right += float(is_right(outputs, targets).float().mean()) * len(targets)
    return Evaluation(100 * right / count, loss / count, count)


def _has_most(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Whether the right class has the highest output."""
    return outputs.argmax(dim=1) == targets


def _lift_variances(module: torch.nn.Module) -> None:
    """Lift running variances to 0: a sum of changes, as servers make it, may be below it."""
    for each in module.modules():
        variance = getattr(each, "running_var", None)
        if variance is not None:
            variance.clamp_(min=0.0)


# -- the kind of workload -------------------------------------------------------------------------


def make_kind(made: ModuleType, name: str) -> ModuleType:
    """Make a workload kind of a user's file `name`, which running it has made a module.

    Raises ModelError if its functions do not have the form that they must have.
    """
    functions = ["model", *(["data"] if has_data(made) else [])]
    file = ModelFile(name, made, {each: _read_parameters(made, each) for each in functions})
    for each in ("loss", "correct"):
        found = getattr(made, each, None)
        if found is not None and not _takes_outputs(found):
            raise ModelError(f"expected {each} in the form {each}(outputs, targets)")
    kind = ModuleType(made.__name__, made.__doc__)
    kind.__dict__.update(
        EVALUATES=True,
        GIVES_CHANGES=True,
        compute_times=training.compute_times,
        build=_make_build(file),
        model_bytes=functools.partial(_measure, file),
        problems=functools.partial(_list_problems, file),
        preload=functools.partial(_preload, file),
        try_out=functools.partial(_try_out, file),
    )
    for each in ("model_bytes", "problems", "preload", "try_out"):
        kind.__dict__[each].__name__ = each
    return kind


def _takes_outputs(function: Any) -> bool:
    """Whether something can be called with outputs and targets."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def _read_parameters(made: ModuleType, function: str) -> dict[str, inspect.Parameter]:
    """The options of `model` or `data`, with their types. Raises ModelError."""
    found = getattr(made, function)
    hints = get_type_hints(found, include_extras=True)
    options = {}
    for parameter in inspect.signature(found).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            allowed = f"expected {function} in the form {function}(*, ...), options after the *"
            raise ModelError(allowed)
        if parameter.name in hints:
            parameter = parameter.replace(annotation=hints[parameter.name])
        options[parameter.name] = parameter
    return options


def _make_build(file: ModelFile) -> Callable[..., Training]:
    """The function `build` of a kind: its options are those of training and of the file."""
    plain = inspect.signature(training.build).parameters
    hints = get_type_hints(training.build, include_extras=True)
    left = [*REPLACED, *(["data"] if file.has_data else [])]
    known = {
        name: parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in plain.items()
        if name not in left
    }
    for function, options in file.options.items():
        for name, parameter in options.items():
            if known.setdefault(name, parameter) != parameter:
                owner = "training" if name in plain else "model()"
                allowed = f"expected other names of the options of {function}: {owner} has {name}"
                raise ModelError(allowed)

    defaults = {
        name: each.default for name, each in known.items() if each.kind is each.KEYWORD_ONLY
    }

    def build(rank: int, sites: Sites, seed: int, **given: Any) -> Training:
        options = defaults | given
        training.use_one_thread()
        task = file.load(options)
        labels = task.classes
        if labels is None and options["shards"] != "iid":
            allowed = "iid: the targets are no classes"
            raise OptionError("shards", options["shards"], allowed)
        if labels is None:
            labels = np.zeros(task.sizes[0], np.uint8)
        module = file.build_module(seed, options)
        return training.assemble(rank, sites, seed, module, task, labels, **options)

    parameters = list(known.values())
    build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    build.__annotations__ = {name: each.annotation for name, each in known.items()}
    build.__doc__ = training.build.__doc__
    return build


def _measure(file: ModelFile, **options: Any) -> int:
    """The bytes of the model: of all that sites exchange."""
    place = file.identify("model", options)
    if place not in _sizes:
        found = models.list_tensors(file.build_module(0, options))
        _sizes[place] = ELEMENT_BYTES * sum(tensor.numel() for _, tensor in found)
    return _sizes[place]


def _list_problems(file: ModelFile, sites: Sites, **options: Any) -> list[OptionError]:
    """Everything that is wrong with the options, and with the model that they make."""
    found = training.problems(sites, **options)
    try:
        _measure(file, **options)
    except OptionError as error:
        found.append(error)
    return found


def _preload(file: ModelFile, **options: Any) -> None:
    """Import torch, with one thread, and load the samples, so that forked workers share both."""
    training.use_one_thread()
    file.load(options)


def _try_out(file: ModelFile, **options: Any) -> list[OptionError]:
    """Take a step with a few samples, and evaluate a few: what goes wrong, before a run."""
    try:
        training.use_one_thread()
        task = file.load(options)
        if task.classes is None and options["shards"] != "iid":
            return [OptionError("shards", options["shards"], "iid: the targets are no classes")]
        _try_step(file, task, file.build_module(0, options), options["batch"])
    except OptionError as error:
        return [error]
    except datasets.DatasetError as error:
        return [OptionError("data", options["data"], f"a data set: {error}")]
    return []


def _try_step(
    file: ModelFile, task: OwnTask | ImageTask, module: torch.nn.Module, batch: int
) -> None:
    """Raises OptionError if a step cannot be taken, or its result cannot be evaluated."""
    import torch

    trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
    with training.seeded(0):
        loss = task.loss(module.train(), np.arange(min(batch, TRIED, task.sizes[0])))
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            found = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise OptionError("model", file.name, f"a loss that is one number; it is {found}")
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    unused = [name for name, each in zip(trained, gradients, strict=True) if each is None]
    if unused:
        allowed = f"a loss that depends on all trained parameters, not without {unused[0]}"
        raise OptionError("model", file.name, allowed)
    _evaluate(task, module.eval(), min(TRIED, task.sizes[1]))
