"""Traces of mahimahi (pure): a line per opportunity to deliver a packet of 1500 bytes.

A line has the opportunity's time in milliseconds. Opportunities are counted in windows of
WINDOW_MS. The last window also has the rest of the file. A window without an opportunity gets the
rate of one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_problems import FaultProblems
from trunkline.harness.faults.recorded.recorded_faults import Step

WINDOW_MS = 100
OPPORTUNITY_BYTES = 1500
LONGEST_MS = 24 * 3600 * 1000

ENDINGS = (".mahi", ".mahimahi", ".up", ".down")
"""What the names of such files end with."""

FEWEST_LINES = 20
"""A file with another name is such a file if it has so many whole numbers that never fall, and the
last one is ten times the first one or more."""


def looks_alike(lines: Sequence[tuple[str, str]], name: str) -> bool:
    """Whether the lines can hardly be anything else."""
    if not all(re.fullmatch("[0-9]+", line) for _, line in lines):
        return False
    if name.lower().endswith(ENDINGS):
        return True
    times = [int(line[:15]) for _, line in lines]
    rises = all(a <= b for a, b in pairwise(times)) and 10 * times[0] <= times[-1]
    return rises and len(times) >= FEWEST_LINES


def read_opportunities(lines: Sequence[tuple[str, str]]) -> tuple[Step, ...]:
    """The rates of the windows; equal rates of successive windows are one step.

    Raises:
        FaultError: a line, given with its place, is no time, or earlier than the one before it.
    """
    times_ms: list[int] = []
    problems = FaultProblems()
    for where, line in lines:
        try:
            at_ms = _opportunity_ms(line, where)
        except FaultError as error:
            problems.errors.append(error)
            continue
        if times_ms and at_ms < times_ms[-1]:
            shown = f"{at_ms} after {times_ms[-1]}"
            problems.note([f"{where}: {shown}: expected times that do not fall"])
        times_ms.append(at_ms)
    problems.refuse()
    end_ms = times_ms[-1]
    if not end_ms:
        raise FaultError(f"{lines[-1][0]}: 0: expected a last time of 1 ms or more")
    last = max(0, end_ms // WINDOW_MS - 1)
    counts = Counter(min(last, max(0, time_ms - 1) // WINDOW_MS) for time_ms in times_ms)
    steps: list[Step] = []
    for window in range(last + 1):
        width_ms = WINDOW_MS if window < last else end_ms - last * WINDOW_MS
        rate_mbps = max(1, counts[window]) * OPPORTUNITY_BYTES * 8 / width_ms / 1000
        if not steps or rate_mbps != steps[-1].rate_mbps:
            steps.append(Step(window * WINDOW_MS / 1000, rate_mbps))
    return tuple(steps)


def _opportunity_ms(line: str, where: str) -> int:
    if not re.fullmatch("[0-9]{1,12}", line):
        raise FaultError(f"{where}: {line[:40]}: expected mahimahi's whole milliseconds")
    if int(line) > LONGEST_MS:
        raise FaultError(f"{where}: {line}: expected up to {LONGEST_MS} ms, a day")
    return int(line)
