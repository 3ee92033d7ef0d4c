"""Tables and runs that are in the folder of a comparison before it begins."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import yaml

from trunkline.harness.config.document import flatten
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.runs import finished_runs
from trunkline.harness.runs.finished_runs import MARK
from trunkline.harness.scenario.loading import resolve

if TYPE_CHECKING:
    from trunkline.harness.runs.run_pool import Job
    from trunkline.harness.study.comparison_runs import Comparison

UNUSED = ("name", "description", "outputs")
"""The keys of a scenario that change no result."""

MOST_KEYS = 4
"""The most keys that are named."""

SHORT = 40
"""The most letters of both values of a key that are shown."""

OTHER_CODE = "Trunkline, its kernel, Python, a package, a file that the scenario names, or a log"
"""What may have changed if no value of the scenario did."""


def explain_outdated(spec: Comparison, folder: Path, there: Collection[str]) -> str | None:
    """How many trials have finished runs that are not used, and why; None if there are none.

    `there` are the identities of those that are used.
    """
    missing = {t.job.name: t.job for t in spec.trials if t.job.identity not in there}
    if not (found := finished_runs.find_outdated(folder / "runs", missing)):
        return None
    name, run_dir = next(iter(found.items()))
    changed = join_words(_list_changes(missing[name], run_dir)) or OTHER_CODE
    return (
        f"{len(found)} of {len(spec.trials)} trials are carried out again: {changed} changed since "
        f"their runs, which stay in {folder / 'runs'}"
    )


def _list_changes(job: Job, run_dir: Path) -> list[str]:
    """The keys of a scenario whose values are not those of a run, with short values."""
    try:
        old = dict(flatten(yaml.safe_load((run_dir / "resolved.yaml").read_text())))
        new = dict(flatten(yaml.safe_load(resolve(job.load()))))
        keys = [
            key
            for key in dict.fromkeys((*new, *old))
            if key.partition(".")[0] not in UNUSED and new.get(key) != old.get(key)
        ]
        told = [_describe_change(key, old.get(key), new.get(key)) for key in keys[:MOST_KEYS]]
        return told + [count_of(len(keys) - MOST_KEYS, "other key")] * (len(keys) > MOST_KEYS)
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return []


def _describe_change(key: str, old: str | None, new: str | None) -> str:
    """A key, with both values if they are short; a section's key may stand in one of them only."""
    values = [value or "nothing" for value in (old, new)]
    return f"{key} ({' -> '.join(values)})" if len("".join(values)) <= SHORT else key


def is_of_others(spec: Comparison, folder: Path) -> bool:
    """Whether the folder has tables with cells, trials or runs that are not in this comparison."""
    try:
        found = pd.read_csv(folder / "tables" / "trials.csv", dtype=str, keep_default_na=False)
        if list(found)[: list(found).index("trial")] != list(spec.keys):
            return True
        rows = found[[*spec.keys, "seed", "run"]].itertuples(index=False)
        there = {(*row[:-1], Path(row[-1]).parent.name[-MARK:]) for row in rows if row[-1]}
    except FileNotFoundError:
        return False
    except (KeyError, ValueError):
        return True
    wanted = {
        (*(value for _, value in trial.cell.values), str(trial.job.seed), trial.job.name[-MARK:])
        for trial in spec.trials
    }
    return not there <= wanted


def find_predictions(folder: Path) -> pd.DataFrame | None:
    """The trials that an earlier call predicted; None if there is no readable table of them."""
    try:
        return pd.read_csv(folder / "tables" / "fluid.csv")
    except (FileNotFoundError, ValueError):
        return None
