"""The parts that a feature adds to a report (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.harness.record.history import History
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.run_data import RunData
from trunkline.harness.report.tables.row import Row
from trunkline.harness.scenario.settings import Scenario

if TYPE_CHECKING:  # matplotlib takes a second to load
    from matplotlib.figure import Figure

Width = Mapping[str, Any]
"""The width of figures, as `width_in` in inches, if it is not theirs."""


Tables = Mapping[type[Row], Iterable[Row]]
"""The rows of tables by their class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One feature of a report.

    Attributes:
        applies: whether a run has the feature; without it, the other functions are not called.
        tables: the tables of the feature, from the run's events.
        sections: the sections on the page; none if there is nothing to show.
        figures: the figures for print, by name.
    """

    applies: Callable[[Scenario, History], bool] = lambda scenario, history: True
    tables: Callable[[Scenario, History], Tables] = lambda scenario, history: {}
    sections: Callable[[RunData], Iterable[Section]] = lambda data: ()
    figures: Callable[[RunData, Width], Iterable[tuple[str, Figure]]] = lambda data, width: ()
