"""The figures of papers that can be reproduced: a module per paper, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as a comparison: what to vary in which scenario, and what the paper says of it.

    `scenario` is a path below the folder `scenarios`; `metric` a column of `tables/run.csv`.
    """

    claim: str
    scenario: str
    vary: tuple[str, ...]
    metric: str


def find_figures() -> dict[str, Figure]:
    """`paper/figure` -> the figure, for every module here that has FIGURES."""
    found: dict[str, Figure] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found |= {f"{info.name}/{name}": figure for name, figure in module.FIGURES.items()}
    return found
