"""Figures of papers to reproduce: one module per paper; p_reduce.py is the paper `p-reduce`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as a comparison.

    Attributes:
        claim: the paper's result.
        scenario: a path below the folder `scenarios`.
        vary: the values of `--vary`.
        metric: the column of `tables/run.csv` that the figure shows.
    """

    claim: str
    scenario: str
    vary: tuple[str, ...]
    metric: str


@dataclass(frozen=True, slots=True)
class ModelFigure:
    """One figure that has a model of its own, which predicts it (`--fluid`).

    Attributes:
        claim: the paper's result.
        vary: the values of `--vary`.
        metric: the value that the figure shows.
        setting: a dataclass whose fields are the keys of `--set` and `--vary`.
        predict: the values of one trial, by name, from its setting and its seed.
        measured: the figure as a comparison of runs, smaller than the paper's.
    """

    claim: str
    vary: tuple[str, ...]
    metric: str
    setting: type[Any]
    predict: Callable[[Any, int], Mapping[str, float]]
    measured: Figure


def find_figures() -> dict[str, Figure | ModelFigure]:
    """`paper/figure` -> the figure, from FIGURES of every module in this folder."""
    found: dict[str, Figure | ModelFigure] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        paper = info.name.replace("_", "-")
        found |= {f"{paper}/{name}": figure for name, figure in module.FIGURES.items()}
    return found
