"""The time at which a run's clock starts."""

from __future__ import annotations

import contextlib
import time

from trunkline.agents.timing.exact_waits import Alarm, await_readable

START_STEP_NS, START_PHASE_NS = 100_000_000, 55_000_000
"""A run's clock starts this long after a multiple of the step on the machine's clock."""


def wait_for_start() -> int:
    """Wait for the next time at which a run's clock may start, and return it (monotonic, in ns).

    Each reading of the embedded kernel's clock advances it by 256 ns. The number of readings so far
    depends on where things are installed. A start at a fixed step of the clock removes that
    difference. The phase keeps away from the kernel's ticks and the guest's beats, which are at
    full steps.
    """
    at_ns = START_PHASE_NS
    at_ns += -(-(time.monotonic_ns() - START_PHASE_NS) // START_STEP_NS) * START_STEP_NS
    with contextlib.closing(Alarm()) as alarm:
        alarm.set(at_ns)
        await_readable(alarm.fd)
    return at_ns
