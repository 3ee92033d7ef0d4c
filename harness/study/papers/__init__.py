"""Figures to reproduce: one module per paper or library; p_reduce.py is the paper `p-reduce`.

`paper/name-panel` is a panel of the figure `paper/name`, as is `paper/19a` of `paper/19`. A name
that is a figure itself, such as `r2sp/8` beside `r2sp/8b`, means this figure only.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.harness.scenario.settings import Scenario


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as a comparison.

    Attributes:
        claim: the paper's result, or the question that the figure answers.
        scenario: a path below the folder `scenarios`.
        vary: the values of `--vary`.
        metric: the column of `tables/run.csv` that the figure shows, or `expectations`: a map of
            the trials that met them.
        predict: the values of a trial by an analytic model, by the names of columns; by default
            the fluid model predicts it.
    """

    claim: str
    scenario: str
    vary: tuple[str, ...]
    metric: str
    predict: Callable[[Scenario], Mapping[str, float]] | None = None


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
