"""Measured rates and round trips between cloud regions, read from `topologies/data`.

The measurements have gaps. A pair without a rate or round trip is an error that names the pair,
with one exception: a missing round trip is taken from the reverse direction.
"""

from __future__ import annotations

import csv
import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal, get_args

from trunkline.topologies.links import TopologyError

MatrixName = Literal["intercloud", "skyplane"]
Pair = tuple[str, str]

_FILES: dict[MatrixName, str] = {
    "intercloud": "intercloud_singleflow_2022-02.csv",
    "skyplane": "skyplane_multiflow_2022-01.csv",
}
_GCP_ZONE = re.compile(r"(gcp:.+\d)-[a-f]")


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rate in Mbit/s and, if it was measured, the round trip in ms of directed region pairs."""

    name: str
    rates_mbps: Mapping[Pair, float]
    round_trips_ms: Mapping[Pair, float]
    regions: frozenset[str]

    def rates(self, pairs: Sequence[Pair]) -> list[float]:
        """The rate in Mbit/s of each region pair. TopologyError names pairs without a rate."""
        found = [self.rates_mbps.get(self._known(pair, "rates_mbps")) for pair in pairs]
        return self._complete(found, pairs, "rate", "rates_mbps")

    def delays(self, pairs: Sequence[Pair]) -> list[float]:
        """The one-way delay in ms of each region pair: half of the round trip.

        A round trip that is missing in one direction is taken from the other direction.
        TopologyError names pairs without a round trip.
        """
        found = []
        for pair in pairs:
            src, dst = self._known(pair, "delays_ms")
            trip = self.round_trips_ms.get((src, dst), self.round_trips_ms.get((dst, src)))
            found.append(None if trip is None else trip / 2)
        return self._complete(found, pairs, "round trip", "delays_ms")

    def _known(self, pair: Pair, key: str) -> Pair:
        src, dst = (_without_zone(region) for region in pair)
        for region in (src, dst):
            if region not in self.regions:
                known = sorted(self.regions)
                near = ", ".join(difflib.get_close_matches(region, known, n=3, cutoff=0))
                raise TopologyError(
                    f"region {region!r}: not in {self.name!r}; nearest are {near}; "
                    f"expected one of {', '.join(known)}",
                    key=key,
                )
        return src, dst

    def _complete(
        self, found: list[float | None], pairs: Sequence[Pair], what: str, key: str
    ) -> list[float]:
        missing = [
            f"{src} -> {dst}" for (src, dst), value in zip(pairs, found, strict=True) if not value
        ]
        if missing:
            more = f" and {len(missing) - 3} more pairs" if len(missing) > 3 else ""
            raise TopologyError(
                f"{self.name!r} has no {what} for {', '.join(missing[:3])}{more}: choose other "
                "regions (topologies/data/README.md lists sets without gaps), "
                f"{self._name_others(pairs)}, or give the numbers explicitly",
                key=key,
            )
        return [value for value in found if value]

    def _name_others(self, pairs: Sequence[Pair]) -> str:
        """Another matrix: by its name if it has everything about these pairs."""
        for name in _FILES:
            other = load_matrix(name)
            known = (tuple(map(_without_zone, pair)) for pair in pairs)
            if other.name != self.name and all(
                (src, dst) in other.rates_mbps
                and ((src, dst) in other.round_trips_ms or (dst, src) in other.round_trips_ms)
                for src, dst in known
            ):
                return f"the matrix {name!r}, which has all of them"
        return "another matrix"


@functools.cache
def load_matrix(name: MatrixName) -> Matrix:
    """Read a matrix that comes with Trunkline. The names of GCP regions lose their zone."""
    if name not in _FILES:
        allowed = ", ".join(get_args(MatrixName))
        raise TopologyError(f"matrix {name!r}: expected one of {allowed}")
    rates: dict[Pair, float] = {}
    trips: dict[Pair, float] = {}
    with (resources.files("trunkline.topologies") / "data" / _FILES[name]).open(
        encoding="utf-8"
    ) as file:
        for row in csv.DictReader(file):
            pair = (_without_zone(row["src"]), _without_zone(row["dst"]))
            rates[pair] = float(row["rate_mbps"])
            if row["rtt_ms"]:
                trips[pair] = float(row["rtt_ms"])
    return Matrix(name, rates, trips, frozenset(region for pair in rates for region in pair))


def _without_zone(region: str) -> str:
    match = _GCP_ZONE.fullmatch(region)
    return match.group(1) if match else region
