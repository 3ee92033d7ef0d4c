"""A small network with an Inception block, whose four branches can be computed in any order.

Szegedy et al., "Going deeper with convolutions", CVPR 2015, figure 2(b). To import this file
imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from trunkline.workloads.learning.models import CLASSES, KERNEL, SIDE


class InceptionNet(nn.Module):
    """A convolution, an Inception block, and two fully connected layers, for 28 x 28 grey images.

    The four branches of the block have the same input: a convolution of 1 x 1, one of 3 x 3 and one
    of 5 x 5, each after one of 1 x 1, and a pooling with one of 1 x 1. Their outputs are put
    together, and pooled to as many features as the block has inputs.
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, KERNEL, stride=2, padding=KERNEL // 2)
        self.branches = nn.ModuleList(
            [
                nn.Sequential(_convolve(channels, 1)),
                nn.Sequential(_convolve(channels, 1), nn.ReLU(), _convolve(channels, 3)),
                nn.Sequential(_convolve(channels, 1), nn.ReLU(), _convolve(channels, 5)),
                nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), _convolve(channels, 1)),
            ]
        )
        self.pool = nn.AvgPool2d(2)
        self.hidden = nn.Linear(channels * SIDE**2, hidden)
        self.output = nn.Linear(hidden, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores of each class."""
        seen = self.stem(images).relu()
        together = torch.cat([branch(seen) for branch in self.branches], dim=1).relu()
        features = self.pool(together).flatten(1)
        scores: torch.Tensor = self.output(self.hidden(features).relu())
        return scores

    def bases(self) -> Sequence[Sequence[nn.Module]]:
        """The branches of each base, in the order of the forward computation."""
        return [[self.stem], list(self.branches), [self.hidden], [self.output]]


def _convolve(channels: int, kernel: int) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
