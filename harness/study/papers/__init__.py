"""Figures of papers to reproduce: one module per paper; p_reduce.py is the paper `p-reduce`."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass


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


def find_figures() -> dict[str, Figure]:
    """`paper/figure` -> the figure, from FIGURES of every module in this folder."""
    found: dict[str, Figure] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        paper = info.name.replace("_", "-")
        found |= {f"{paper}/{name}": figure for name, figure in module.FIGURES.items()}
    return found
