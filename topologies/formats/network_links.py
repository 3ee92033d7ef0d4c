"""From the values of a file to valid links (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trunkline.topologies.formats.attributes import Values
from trunkline.topologies.formats.network_file import DEFAULT, Problems
from trunkline.topologies.links import Link, check_values
from trunkline.topologies.rates.matrix import Pair

RARE = ("reorder_percent", "duplicate_percent", "corrupt_percent")
"""What few files have, and what then needs no default."""

Origins = dict[Pair, Mapping[str, str]]


def make_links(
    found: Mapping[Pair, Values], rate_factor: float
) -> tuple[tuple[Link, ...], Origins]:
    """The links with complete values, with rates multiplied, and where the values come from.

    Raises:
        TopologyError: values of the file are impossible; the message has a line for each link.
    """
    links = []
    problems = Problems()
    for (src, dst), values in found.items():
        assert values.rate_mbps is not None
        assert values.delay_ms is not None
        rest = values.jitter_ms or 0.0, values.loss_percent or 0.0, values.queue_bytes
        link = Link(src, dst, rate_factor * values.rate_mbps, values.delay_ms, *rest)
        rare = {name: getattr(values, name) for name in RARE if getattr(values, name)}
        links.append(replace(link, **rare))
        with problems.noting():
            check_values(f"link {src} -> {dst}", _keep_own(links[-1], values))
    problems.refuse()
    scaled = "" if rate_factor == 1.0 else f" x rate_factor {rate_factor:g}"
    origins: Origins = {
        pair: {**values.origins, "rate_mbps": values.origins["rate_mbps"] + scaled}
        for pair, values in found.items()
    }
    return tuple(links), origins


def _keep_own(link: Link, values: Values) -> Link:
    """The link without the values that are not from the file."""
    of_scenario: dict[str, Any] = {"jitter_ms": 0.0, "loss_percent": 0.0, "queue_bytes": None}
    other = {
        key: value
        for key, value in of_scenario.items()
        if values.origins.get(key, DEFAULT).startswith(DEFAULT)
    }
    return replace(link, **other)
