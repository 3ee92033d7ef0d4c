"""Published networks, layer by layer: what the tables of this room are computed from (pure).

Layers have the published shapes, for images of the published size and 1000 classes. Parameters are
weights, biases and the two vectors of batch normalization. Operations are those of convolutions and
fully connected layers, a multiplication and an addition being two; all other layers are left out,
because they have few of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """The parameters of layers, and the operations of their forward computation of one sample."""

    parameters: int
    operations: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.parameters + other.parameters, self.operations + other.operations)


Convolution: TypeAlias = tuple[tuple[int, int], int, int]
"""Kernel, output channels, and the width of its square output."""

Shapes: TypeAlias = Iterator[tuple[str, Mapping[str, Cost]]]
"""Each base with the costs of its branches."""


def convolve(inputs: int, layer: Convolution, *, bias: bool = False, norm: bool = True) -> Cost:
    """The cost of a convolution, with its batch normalization."""
    (height, width), outputs, size = layer
    weights = inputs * outputs * height * width
    parameters = weights + bias * outputs + norm * 2 * outputs
    return Cost(parameters, 2 * weights * size * size)


def connect(inputs: int, outputs: int) -> Cost:
    """The cost of a fully connected layer."""
    return Cost(inputs * outputs + outputs, 2 * inputs * outputs)


def chain(inputs: int, *layers: Convolution) -> Cost:
    """The cost of convolutions, one after the other."""
    total = Cost(0, 0)
    for layer in layers:
        total += convolve(inputs, layer)
        inputs = layer[1]
    return total


def square(kernel: int, outputs: int, size: int) -> Convolution:
    """A convolution with a square kernel."""
    return (kernel, kernel), outputs, size


def number(costs: Iterable[Cost]) -> dict[str, Cost]:
    """Branches named b1, b2, ..."""
    return {f"b{index}": cost for index, cost in enumerate(costs, 1)}


def vgg_19() -> Shapes:
    """VGG-19 (Simonyan and Zisserman, ICLR 2015, table 1, E): every base is linear; 224 x 224."""
    inputs = 3
    stages = ((2, 64, 224), (2, 128, 112), (4, 256, 56), (4, 512, 28), (4, 512, 14))
    for stage, (count, outputs, size) in enumerate(stages, 1):
        for index in range(1, count + 1):
            cost = convolve(inputs, square(3, outputs, size), bias=True, norm=False)
            yield f"conv{stage}_{index}", number([cost])
            inputs = outputs
    widths = (512 * 7 * 7, 4096, 4096, CLASSES)
    for index in range(3):
        yield f"fc{index + 6}", number([connect(widths[index], widths[index + 1])])


def densenet_121() -> Shapes:
    """DenseNet-121 (Huang et al., CVPR 2017, table 1); 224 x 224.

    A layer needs the outputs of all layers before it in its block. So every base is linear. Batch
    normalization comes before its convolution.
    """
    yield "conv0", number([convolve(3, square(7, 64, 112))])
    width, size = 64, 56
    for block, layers in enumerate((6, 12, 24, 16), 1):
        for layer in range(1, layers + 1):
            cost = chain(width, square(1, 128, size)) + Cost(2 * width, 0)
            cost += convolve(128, square(3, 32, size), norm=False)
            yield f"block{block}_{layer}", number([cost])
            width += 32
        if block < 4:
            cost = convolve(width, square(1, width // 2, size), norm=False)
            yield f"transition{block}", number([cost + Cost(2 * width, 0)])
            width, size = width // 2, size // 2
    yield "fc", number([connect(width, CLASSES) + Cost(2 * width, 0)])


def dfn() -> Shapes:
    """The deeply fused net DFN-MR with (2, 2, 4, 1) blocks; 224 x 224.

    Zhao et al., "On the Connection of Deep Fusion to Ensembling" (arXiv 1611.07718), merge-and-run
    blocks of two bottlenecks. OWL gives 25.41 M parameters for its DFN and no shapes. This member
    of the family has 25.41 M weights, and 25.48 M parameters with batch normalization.
    """
    yield "conv1", number([convolve(3, square(7, 64, 112))])
    inputs = 64
    for stage, (blocks, outputs, size) in enumerate(
        ((2, 256, 56), (2, 512, 28), (4, 1024, 14), (1, 2048, 7)), 1
    ):
        for block in range(1, blocks + 1):
            inner = outputs // 4
            widest = size if stage == 1 or block > 1 else 2 * size
            deep = chain(
                inputs, square(1, inner, widest), square(3, inner, size), square(1, outputs, size)
            )
            found = {"deep1": deep, "deep2": deep}
            if inputs != outputs:
                line = chain(inputs, square(1, outputs, size))
                found |= {"line1": line, "line2": line}
            yield f"fusion{stage}_{block}", found
            inputs = outputs
    yield "fc", number([connect(inputs, CLASSES)])


def inception_v4() -> Shapes:
    """Inception-V4 (Szegedy et al., AAAI 2017, figures 3 to 9); 299 x 299.

    A branch that forks into two convolutions (figure 6) is one branch. Pooling alone is none.
    """
    yield from _inception_stem()
    for block in range(1, 5):
        yield f"inception_a{block}", number(_inception_a())
    yield "reduction_a", number(_reduction_a())
    for block in range(1, 8):
        yield f"inception_b{block}", number(_inception_b())
    yield "reduction_b", number(_reduction_b())
    for block in range(1, 4):
        yield f"inception_c{block}", number(_inception_c())
    yield "fc", number([connect(1536, CLASSES)])


def _inception_stem() -> Shapes:
    yield "stem1", number([chain(3, square(3, 32, 149))])
    yield "stem2", number([chain(32, square(3, 32, 147))])
    yield "stem3", number([chain(32, square(3, 64, 147))])
    yield "stem4", number([chain(64, square(3, 96, 73))])
    short = chain(160, square(1, 64, 73), square(3, 96, 71))
    long = ((1, 7), 64, 73), ((7, 1), 64, 73), square(3, 96, 71)
    yield "stem5", number([short, chain(160, square(1, 64, 73), *long)])
    yield "stem6", number([chain(192, square(3, 192, 35))])


def _inception_a() -> Iterator[Cost]:
    first, second = square(1, 64, 35), square(3, 96, 35)
    yield chain(384, square(1, 96, 35))
    yield chain(384, first, second)
    yield chain(384, first, second, second)
    yield chain(384, square(1, 96, 35))


def _reduction_a() -> Iterator[Cost]:
    yield chain(384, square(3, 384, 17))
    yield chain(384, square(1, 192, 35), square(3, 224, 35), square(3, 256, 17))


def _inception_b() -> Iterator[Cost]:
    def wide(outputs: int) -> Convolution:
        return (1, 7), outputs, 17

    def tall(outputs: int) -> Convolution:
        return (7, 1), outputs, 17

    first = square(1, 192, 17)
    yield chain(1024, square(1, 384, 17))
    yield chain(1024, first, wide(224), tall(256))
    yield chain(1024, first, tall(192), wide(224), tall(224), wide(256))
    yield chain(1024, square(1, 128, 17))


def _reduction_b() -> Iterator[Cost]:
    yield chain(1024, square(1, 192, 17), square(3, 192, 8))
    yield chain(1024, square(1, 256, 17), ((1, 7), 256, 17), ((7, 1), 320, 17), square(3, 320, 8))


def _inception_c() -> Iterator[Cost]:
    fork = ((1, 3), 256, 8), ((3, 1), 256, 8)
    yield chain(1536, square(1, 256, 8))
    yield chain(1536, square(1, 384, 8)) + chain(384, fork[0]) + chain(384, fork[1])
    stem = chain(1536, square(1, 384, 8), ((3, 1), 448, 8), ((1, 3), 512, 8))
    yield stem + chain(512, fork[0]) + chain(512, fork[1])
    yield chain(1536, square(1, 256, 8))


NETWORKS: Mapping[str, Callable[[], Shapes]] = {
    "densenet-121": densenet_121,
    "dfn": dfn,
    "inception-v4": inception_v4,
    "vgg-19": vgg_19,
}
