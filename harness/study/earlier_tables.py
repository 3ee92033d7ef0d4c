"""Tables that are in the folder of a comparison before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from trunkline.harness.study.comparison_runs import Comparison


def is_of_others(spec: Comparison, folder: Path) -> bool:
    """Whether the folder has tables with cells or trials that are not in this comparison."""
    try:
        found = pd.read_csv(folder / "tables" / "trials.csv", dtype=str, keep_default_na=False)
        if list(found)[: list(found).index("trial")] != list(spec.keys):
            return True
        there = {tuple(row) for row in found[[*spec.keys, "seed"]].itertuples(index=False)}
    except FileNotFoundError:
        return False
    except (KeyError, ValueError):
        return True
    wanted = {
        (*(value for _, value in trial.cell.values), str(trial.job.seed)) for trial in spec.trials
    }
    return not there <= wanted


def find_predictions(folder: Path) -> pd.DataFrame | None:
    """The trials that an earlier call predicted; None if there is no readable table of them."""
    try:
        return pd.read_csv(folder / "tables" / "fluid.csv")
    except (FileNotFoundError, ValueError):
        return None
