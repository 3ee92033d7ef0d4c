"""How much a link can carry in a span of time, by the rates that it had (pure)."""

from __future__ import annotations

import math

from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions

RATE_TOLERANCE = 0.02
"""Allowed relative error of a shaper."""

EXACT_BYTES, EXACT_S = 1514, 0.0001
"""The embedded kernel's shaper lets nothing pass early: one packet and a timer's error are more
than was ever seen."""

BURST_BYTES, BURST_S = 64 * 1024, 0.004
"""A token bucket of the host lets one super-packet (64 KiB) and 4 ms of its rate pass at once."""


def is_too_fast(
    history: History,
    rules: Rules,
    conditions: Conditions,
    ends: Directed,
    size: int,
    start_ns: int,
    end_ns: int,
) -> bool:
    """Whether `size` bytes are more than the link's rates allow from `start_ns` to `end_ns`."""
    # Duplicates are counted, and take none of the rate.
    packets = math.ceil(size / rules.frame_bytes)
    size -= conditions.most_copies(ends, packets) * rules.frame_bytes
    spells = conditions.spells[ends]
    # Jitter and overtaking move arrivals: bytes may have started before they were seen.
    links = [spell.link for spell in spells]
    late_ns = round(max(link.most_deviation_ms for link in links) * 1e6)
    allowed = conditions.capacity_bytes(ends, [(start_ns, end_ns + late_ns)])
    # When a rate falls, the shaper ends a frame that it began at the old rate.
    old_rate_bytes = rules.frame_bytes
    if history.run is not None and history.run.backend == "host":
        # The host's kernel still sends its queue at the old rate.
        old_rate_bytes = rules.topology.queue_bytes(rules.topology.link(*ends))
    allowed += old_rate_bytes * conditions.slowdowns(ends, start_ns, end_ns)
    rate = max(spell.link.rate_mbps for spell in spells) * 1e6 / 8
    early_bytes = EXACT_BYTES + rate * EXACT_S
    at_once_bytes = max(early_bytes, burst_bytes(history, conditions, ends))
    return size > allowed * (1 + RATE_TOLERANCE) + at_once_bytes


def burst_bytes(history: History, conditions: Conditions, ends: Directed) -> float:
    """What a link's shaper lets pass at once; the embedded kernel's lets nothing."""
    if history.run is not None and history.run.backend == "embedded":
        return 0
    rate = max(spell.link.rate_mbps for spell in conditions.spells[ends]) * 1e6 / 8
    return BURST_BYTES + rate * BURST_S


def mean_mbps(conditions: Conditions, ends: Directed, start_ns: int, end_ns: int) -> float:
    """The rate of a link in a span of time, on average."""
    taken_s = (end_ns - start_ns) / 1e9
    return conditions.capacity_bytes(ends, [(start_ns, end_ns)]) * 8e-6 / taken_s if taken_s else 0
