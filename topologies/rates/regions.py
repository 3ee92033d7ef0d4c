"""Where cloud regions are (`data/regions.csv`), for maps."""

from __future__ import annotations

import csv
import functools
import re
from importlib import resources

Degrees = tuple[float, float]
"""(latitude, longitude)."""


def find_region(region: str) -> Degrees | None:
    """The coordinates of a region or zone such as `gcp:us-east1-b`; None if they are unknown."""
    found = _read()
    return found.get(region) or found.get(re.sub("-[a-z]$", "", region))


@functools.cache
def _read() -> dict[str, Degrees]:
    file = resources.files("trunkline.topologies") / "data" / "regions.csv"
    return {
        row["region"]: (float(row["latitude"]), float(row["longitude"]))
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    }
