"""Networks to measure where nobody names one: a small one, and the grid (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from trunkline.harness.config import document

RATES_MBPS = (5, 20, 100, 155, 500, 1000)
DELAYS_MS = (0, 1, 30, 150)
LOSSES_PERCENT = (0, 0.02, 1)


def small() -> str:
    """Four sites around a hub: asymmetric, jittery, lossy, with a short queue, and fast."""
    fast = {"rate": "1000 Mbit/s", "delay": "0 ms"}
    links = [
        *_both("hub", "slow", {"rate": "5 Mbit/s", "delay": "25 ms"}),
        {"src": "hub", "dst": "asymmetric", "rate": "50 Mbit/s", "delay": "10 ms"},
        {"src": "asymmetric", "dst": "hub", "rate": "5 Mbit/s", "delay": "25 ms"},
        *_both("hub", "jittery", {"rate": "100 Mbit/s", "delay": "20 ms", "jitter": "5 ms"}),
        *_both("hub", "lossy", {"rate": "100 Mbit/s", "delay": "150 ms", "loss": "1 %"}),
        *_both("hub", "short", {"rate": "5 Mbit/s", "delay": "30 ms", "queue": "6056 B"}),
        *_both("hub", "fast", fast),
    ]
    return _scenario("small", links)


def grid() -> str:
    """A star in which each site's links to and from the hub are one cell of the grid."""
    links: list[dict[str, str]] = []
    for rate, delay, loss in product(RATES_MBPS, DELAYS_MS, LOSSES_PERCENT):
        site = f"r{rate}-d{delay}-l{str(loss).replace('.', '-')}"
        cell = {"rate": f"{rate} Mbit/s", "delay": f"{delay} ms", "loss": f"{loss} %"}
        links += _both("hub", site, cell)
    return _scenario("grid", links)


def _both(a: str, b: str, values: Mapping[str, str]) -> Iterator[dict[str, str]]:
    yield {"src": a, "dst": b, **values}
    yield {"src": b, "dst": a, **values}


def _scenario(name: str, links: list[dict[str, str]]) -> str:
    sites = list(dict.fromkeys(end for link in links for end in (link["src"], link["dst"])))
    topology: dict[str, Any] = {"builder": "explicit", "sites": sites, "links": links}
    return document.write(
        {
            "name": f"fidelity-{name}",
            "topology": topology,
            "workload": {"kind": "synthetic"},
            "stop": {"rounds": 1},
        }
    )
