"""A scheme's section `awareness`: its defaults, its limits, and the settings of agents (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trunkline.agents.timing.site_clock import SiteClock
from trunkline.agents.wire.agent_settings import Probing
from trunkline.harness.config import units
from trunkline.harness.network.interface import payload_share
from trunkline.harness.scenario.scheme_settings import Awareness, Scheme
from trunkline.harness.scenario.settings import Scenario


def with_defaults(scheme: Scheme) -> Scheme:
    """Fill in the defaults: awareness if plans use measured rates, and the size of probes.

    By default a chunk is a probe if it is larger than half of the scheme's chunk, as in NetStorm's
    Table II (2 MB of 4 MB).
    """
    awareness = scheme.awareness
    if awareness is None and scheme.rates == "measured":
        awareness = Awareness()
    if awareness is not None and awareness.probe_chunk_bytes is None:
        awareness = replace(awareness, probe_chunk_bytes=scheme.chunk_bytes // 2)
    return replace(scheme, awareness=awareness)


def find_refusals(scheme: Scheme, sites: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The keys whose values are out of bounds, and what is allowed there.

    Args:
        scheme: with its defaults (`with_defaults`).
        sites: the names of all sites; empty if they are unknown.
    """
    awareness = scheme.awareness
    if awareness is None:
        return
    assert awareness.probe_chunk_bytes is not None
    if awareness.probe_chunk_bytes >= scheme.chunk_bytes:
        chunk = units.render(scheme.chunk_bytes, units.SIZE_BYTES)
        yield "probe_chunk", f"expected below scheme.chunk, {chunk}: only larger chunks count"
    if sites and awareness.sync_roots > len(sites):
        yield "sync_roots", f"expected up to the number of sites, {len(sites)}"


def make_probing(scenario: Scenario) -> Probing | None:
    """The settings with which agents measure links; None if they do not measure."""
    awareness = scenario.scheme.awareness
    if awareness is None:
        return None
    assert awareness.probe_chunk_bytes is not None
    return Probing(
        awareness.estimator,
        awareness.probe_chunk_bytes,
        awareness.probe_count,
        payload_share(scenario.network.mtu),
        None if awareness.sync_s == "off" else awareness.sync_s,
    )


def count_time_roots(scenario: Scenario) -> int:
    """The number of sites to which the controller tells the time; 0 without synchronization."""
    awareness = scenario.scheme.awareness
    return 0 if awareness is None or awareness.sync_s == "off" else awareness.sync_roots


def clock_of(scenario: Scenario, site: str) -> SiteClock:
    """The clock of a site."""
    return scenario.clocks.get(site, SiteClock())
