"""The progress of a comparison's trials, by the names that the variants have in its results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from trunkline.harness.live.sweep_progress import SweepProgress
from trunkline.harness.study import comparison

if TYPE_CHECKING:
    from trunkline.harness.study.comparison_runs import Comparison, Trial


def make(spec: Comparison, trials: Sequence[Trial]) -> SweepProgress:
    """The progress of these trials, before any of them is done.

    A run stands for several variants if their scenarios are the same.
    """
    cells = list(dict.fromkeys(trial.cell for trial in spec.trials))
    table = pd.DataFrame([dict(cell.values) for cell in cells])
    _, shown, keys = spec.name_variants(table, table)
    names = dict(zip(cells, comparison.name_cells(shown, keys), strict=True))
    variants = defaultdict(list)
    for trial in trials:
        variants[trial.job.identity].append(names[trial.cell])
    return SweepProgress(Counter(names[trial.cell] for trial in trials), variants)
