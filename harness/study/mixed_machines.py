"""What a comparison says about the machines that its trials ran on (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

MACHINE = ("host", "processor", "versions", "processor_matters", "tries")
"""What says where a trial ran, why its result depends on that, and how often it was started."""


def list_mixed(trials: pd.DataFrame, keys: Sequence[str]) -> Iterator[str]:
    """A line if trials ran on several processors although their results depend on them."""
    if "processor_matters" not in trials:
        return
    ran = trials[trials["processor"].fillna("") != ""]
    reasons = sorted({why for why in ran["processor_matters"].dropna() if why})
    names = ran["processor"].unique()
    if len(names) > 1 and reasons:
        counts = ", ".join(f"{n} on {name}" for name, n in ran["processor"].value_counts().items())
        yield f"results of several processors are mixed: {counts}; they matter: {reasons[0]}"
