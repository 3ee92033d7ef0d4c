"""A small residual network with batch normalization (He et al., CVPR 2016), for images."""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions, whose result is added to what came in."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images):
        found = torch.relu(self.first_norm(self.first(images)))
        return torch.relu(self.second_norm(self.second(found)) + self.shortcut(images))


def model(*, width: int = 8, colours: int = 1) -> nn.Module:
    """Fashion-MNIST has one colour; CIFAR-10 has three."""
    return nn.Sequential(
        nn.Conv2d(colours, width, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 10),
    )
