"""The parameter tensors of well-known networks, as a framework would synchronize them (pure).

They range from a few large tensors to many small ones: AlexNet (Krizhevsky 2014, 16 tensors),
MobileNetV2 (Sandler et al. 2018, 158) and ResNet (He et al. 2016; 62 to 467). Each network has
ImageNet's 1000 classes, and its tensors are in the order of torchvision. Batch normalization has a
scale and a shift per channel; running means and variances are not parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Literal

Shape = tuple[int, ...]

CLASSES = 1000

Model = Literal["alexnet", "mobilenet", "resnet18", "resnet50", "resnet152"]


@cache
def shapes(model: Model) -> tuple[Shape, ...]:
    """The shapes of a model's tensors, in order."""
    match model:
        case "alexnet":
            return tuple(_alexnet())
        case "mobilenet":
            return tuple(_mobilenet_v2())
        case "resnet18":
            return tuple(_resnet((2, 2, 2, 2), bottleneck=False))
        case "resnet50":
            return tuple(_resnet((3, 4, 6, 3), bottleneck=True))
        case "resnet152":
            return tuple(_resnet((3, 8, 36, 3), bottleneck=True))


@cache
def sizes(model: Model) -> tuple[int, ...]:
    """The number of elements of each tensor of a model, in order."""
    return tuple(map(math.prod, shapes(model)))


def _alexnet() -> Iterator[Shape]:
    channels = 3
    for outputs, kernel in ((64, 11), (192, 5), (384, 3), (256, 3), (256, 3)):
        yield from ((outputs, channels, kernel, kernel), (outputs,))
        channels = outputs
    for inputs, outputs in ((256 * 6 * 6, 4096), (4096, 4096), (4096, CLASSES)):
        yield from ((outputs, inputs), (outputs,))


def _mobilenet_v2() -> Iterator[Shape]:
    yield from _normalized(32, 3, 3)
    channels = 32
    for expansion, outputs, repeats in _INVERTED_RESIDUALS:
        for _ in range(repeats):
            hidden = expansion * channels
            if expansion > 1:
                yield from _normalized(hidden, channels, 1)
            yield from _normalized(hidden, 1, 3)
            yield from _normalized(outputs, hidden, 1)
            channels = outputs
    yield from _normalized(1280, channels, 1)
    yield from ((CLASSES, 1280), (CLASSES,))


_INVERTED_RESIDUALS = (
    (1, 16, 1),
    (6, 24, 2),
    (6, 32, 3),
    (6, 64, 4),
    (6, 96, 3),
    (6, 160, 3),
    (6, 320, 1),
)
"""Expansion, channels, repeats."""


def _resnet(blocks: tuple[int, ...], *, bottleneck: bool) -> Iterator[Shape]:
    yield from _normalized(64, 3, 7)
    channels = 64
    for stage, repeats in enumerate(blocks):
        width = 64 << stage
        outputs = 4 * width if bottleneck else width
        for block in range(repeats):
            if bottleneck:
                yield from _normalized(width, channels, 1)
                yield from _normalized(width, width, 3)
                yield from _normalized(outputs, width, 1)
            else:
                yield from _normalized(width, channels, 3)
                yield from _normalized(width, width, 3)
            if block == 0 and (stage > 0 or channels != outputs):
                yield from _normalized(outputs, channels, 1)
            channels = outputs
    yield from ((CLASSES, channels), (CLASSES,))


def _normalized(outputs: int, inputs: int, kernel: int) -> Iterator[Shape]:
    """A convolution without bias, and its batch normalization."""
    yield from ((outputs, inputs, kernel, kernel), (outputs,), (outputs,))
