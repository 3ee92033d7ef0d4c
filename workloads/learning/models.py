"""The networks that sites train, and their parameters as one flat vector.

Functions import torch when they run, because only scenarios that train need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Network = Literal["cnn", "inception"]

KERNEL = 5
SIDE = 14
"""Height and width of a 28 x 28 image after the convolution's stride of 2."""

CLASSES = 10


@dataclass(frozen=True, slots=True)
class BranchCost:
    """A branch of a base: its parameters, and its multiplications for one sample."""

    name: str
    parameters: int
    multiplications: int


def list_costs(network: Network, channels: int, hidden: int) -> dict[str, list[BranchCost]]:
    """The branches of each base of a network, in the order of its parameters."""
    stem = _count_convolutions("all", (1, channels, KERNEL))
    middle = {"convolution": [stem]}
    if network == "inception":
        pairs = (channels, channels)
        middle["inception"] = [
            _count_convolutions("one", (*pairs, 1)),
            _count_convolutions("three", (*pairs, 1), (*pairs, 3)),
            _count_convolutions("five", (*pairs, 1), (*pairs, 5)),
            _count_convolutions("pool", (*pairs, 1)),
        ]
    features = channels * SIDE**2
    return middle | {
        "hidden": [BranchCost("all", hidden * (features + 1), hidden * features)],
        "output": [BranchCost("all", CLASSES * (hidden + 1), CLASSES * hidden)],
    }


def _count_convolutions(name: str, *layers: tuple[int, int, int]) -> BranchCost:
    """A chain of convolutions, each with its channels in and out and its kernel."""
    taps = [(out, into * kernel**2) for into, out, kernel in layers]
    parameters = sum(out * (each + 1) for out, each in taps)
    return BranchCost(name, parameters, sum(out * each for out, each in taps) * SIDE**2)


def parameter_count(channels: int, hidden: int, network: Network = "cnn") -> int:
    """Return the number of parameters of `make(network, channels, hidden, seed)`."""
    costs = list_costs(network, channels, hidden)
    return sum(branch.parameters for branches in costs.values() for branch in branches)


def make(network: Network, channels: int, hidden: int, seed: int) -> torch.nn.Module:
    """Return a network for 28 x 28 grey images; equal seeds give equal parameters."""
    if network == "cnn":
        return cnn(channels, hidden, seed)
    import torch

    from trunkline.workloads.layered.inception import InceptionNet

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return InceptionNet(channels, hidden)


def find_bases(module: torch.nn.Module) -> Sequence[Sequence[torch.nn.Module]]:
    """The modules of the branches of each base, in the order of `list_costs`."""
    from torch import nn

    from trunkline.workloads.layered.inception import InceptionNet

    if isinstance(module, InceptionNet):
        return module.bases()
    return [[each] for each in module.modules() if isinstance(each, nn.Conv2d | nn.Linear)]


def cnn(channels: int, hidden: int, seed: int) -> torch.nn.Module:
    """Return a small CNN for 28 x 28 grey images; equal seeds give equal parameters.

    One convolution of stride 2 keeps it cheap. Nearly all parameters are in the fully connected
    layer, where a byte of model costs the least arithmetic.
    """
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, channels, KERNEL, stride=2, padding=KERNEL // 2),
            nn.ReLU(),
            nn.Flatten(),
            make_linear(channels * SIDE * SIDE, hidden),
            nn.ReLU(),
            make_linear(hidden, CLASSES),
        )


def make_linear(inputs: int, outputs: int) -> torch.nn.Linear:
    """Make a fully connected layer that evaluates three times as fast as torch's own one.

    Without gradients, it is computed by oneDNN, which uses the same fast routines on every
    processor. Of MKL's routines only slow ones round alike everywhere (`harness.processes`).
    """
    import torch

    class Linear(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if torch.is_grad_enabled() or not torch.backends.mkldnn.is_available():
                return super().forward(inputs)
            found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
                inputs, self.weight, self.bias, "none", [], ""
            )
            return found

    return Linear(inputs, outputs)


def list_tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """All that sites exchange of a module, by name: its parameters, then its floating-point state.

    The state is what `state_dict` has besides parameters, such as the running means and variances
    of batch normalization. Counters, which are whole numbers, stay with their site.
    """
    kept = module.state_dict().keys()
    state = ((name, each) for name, each in module.named_buffers() if name in kept)
    floats = [(name, each) for name, each in state if each.is_floating_point()]
    return [*module.named_parameters(), *floats]


def flatten(module: torch.nn.Module) -> torch.Tensor:
    """Move `list_tensors` into one flat float32 tensor and return it; they become its views."""
    import torch

    tensors = [tensor for _, tensor in list_tensors(module)]
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    start = 0
    for tensor in tensors:
        tensor.data = flat[start : start + tensor.numel()].view_as(tensor)
        start += tensor.numel()
    return flat
