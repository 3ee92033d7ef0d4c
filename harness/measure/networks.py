"""The built-in networks of the fidelity benchmark: a small one, and a grid (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from trunkline.harness.config import document

RATES_MBPS = (5, 20, 100, 155, 500, 1000)
DELAYS_MS = (0, 1, 30, 150)
LOSSES_PERCENT = (0, 0.02, 1)


def write_small() -> str:
    """The text of a star: slow, asymmetric, jittery, lossy, bursty, impaired, short queue, fast."""
    away = {"rate": "100 Mbit/s", "delay": "40 ms", "jitter": "5 ms", "duplicate": "0.5 %"}
    away |= {"distribution": "paretonormal", "corrupt": "0.2 %"}
    back = {"rate": "100 Mbit/s", "delay": "40 ms", "reorder": "2 %", "correlation": "25 %"}
    fast = {"rate": "1000 Mbit/s", "delay": "0 ms"}
    links: list[dict[str, str | int]] = [
        *_link_both_ways("hub", "slow", {"rate": "5 Mbit/s", "delay": "25 ms"}),
        {"src": "hub", "dst": "asymmetric", "rate": "50 Mbit/s", "delay": "10 ms"},
        {"src": "asymmetric", "dst": "hub", "rate": "5 Mbit/s", "delay": "25 ms"},
        *_link_both_ways(
            "hub", "jittery", {"rate": "100 Mbit/s", "delay": "20 ms", "jitter": "5 ms"}
        ),
        *_link_both_ways("hub", "lossy", {"rate": "100 Mbit/s", "delay": "150 ms", "loss": "1 %"}),
        *_link_both_ways(
            "hub", "bursty", {"rate": "100 Mbit/s", "delay": "5 ms", "loss": "2 %", "burst": 5}
        ),
        {"src": "hub", "dst": "impaired", **away},
        {"src": "impaired", "dst": "hub", **back},
        *_link_both_ways("hub", "short", {"rate": "5 Mbit/s", "delay": "30 ms", "queue": "6056 B"}),
        *_link_both_ways("hub", "fast", fast),
    ]
    return _write_scenario("small", links)


def write_grid() -> str:
    """The text of a star in which each site has one combination of rate, delay and loss."""
    links: list[dict[str, str | int]] = []
    for rate, delay, loss in product(RATES_MBPS, DELAYS_MS, LOSSES_PERCENT):
        site = f"r{rate}-d{delay}-l{str(loss).replace('.', '-')}"
        cell = {"rate": f"{rate} Mbit/s", "delay": f"{delay} ms", "loss": f"{loss} %"}
        links += _link_both_ways("hub", site, cell)
    return _write_scenario("grid", links)


def _link_both_ways(
    a: str, b: str, values: Mapping[str, str | int]
) -> Iterator[dict[str, str | int]]:
    yield {"src": a, "dst": b, **values}
    yield {"src": b, "dst": a, **values}


def _write_scenario(name: str, links: Sequence[Mapping[str, str | int]]) -> str:
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
