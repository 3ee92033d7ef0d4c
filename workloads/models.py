"""The network that sites train, and its parameters as one flat vector.

Functions import torch when they run, because only scenarios that train need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

KERNEL = 5
SIDE = 14
"""Height and width of a 28 x 28 image after the convolution's stride of 2."""

CLASSES = 10


def parameter_count(channels: int, hidden: int) -> int:
    """Return the number of parameters of `cnn(channels, hidden, seed)`."""
    convolution = channels * (KERNEL * KERNEL + 1)
    first = hidden * (channels * SIDE * SIDE + 1)
    return convolution + first + CLASSES * (hidden + 1)


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
