"""When the links of a run of programs are counted (pure)."""

from __future__ import annotations

from itertools import accumulate, count, takewhile

FIRST_PERIOD_NS = 100_000_000
"""The time between two counts at the beginning, in ns."""

COUNTS = 50
"""After so many counts the period doubles, so a run of any length has few."""


def period_ns(counts: int) -> int:
    """The time between that many counts and the next one."""
    return FIRST_PERIOD_NS << (counts // COUNTS)


def list_times(until_ns: int) -> list[int]:
    """When links are counted, in time since the start."""
    return list(takewhile(lambda t_ns: t_ns <= until_ns, accumulate(map(period_ns, count()))))
