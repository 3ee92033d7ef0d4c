"""What takes virtual time at each site: the embedded kernel keeps it in `/proc/site_time`.

`site-time.patch` says what a program tells the kernel when it begins, and what the kernel counts.
"""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from trunkline.agents.events.run_events import SiteTotals, TimeCharged
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads import site_time
from trunkline.workloads.site_time import KEPT, Mode, SiteTime

FILE = Path("/proc/site_time")
CHARGES = Path("/proc/site_charges")
MODES: Mapping[Mode, int] = {"measure": 0, "record": 1, "replay": 2}

LINES = 500
"""How many charges the kernel gets at once."""

SLICE_US = 5000
"""The processor time after which a process that makes no system call is charged, too."""

HOST_INSTRUCTIONS = "host_instructions=tsc,cpuid"
"""For agents, which use neither: oneDNN reads the TSC, which would take time in trainings."""

NOISE, SAMPLES, STEPS = "(noise)", 20, 100_000
"""The loop whose time tells how much equal computing differs: no site, repetitions, steps."""


def is_kept(scenario: Scenario) -> bool:
    """Whether the kernel of this scenario's runs keeps such times: with a virtual clock only."""
    return scenario.runs_programs and scenario.clock == "virtual"


def is_charged(scenario: Scenario) -> bool:
    """Whether computing takes virtual time."""
    return scenario.runs_programs and bool(scenario.workload.options.get("charge"))


def find_mode(scenario: Scenario) -> Mode:
    """Where the charges of a run come from, if there are any."""
    return site_time.find_mode(scenario.workload.options["charge"] if is_charged(scenario) else {})


def is_measured(scenario: Scenario) -> bool:
    """Whether computing takes the time that is measured, which differs from run to run."""
    return is_charged(scenario) and find_mode(scenario) != "replay"


def kernel_parameters(scenario: Scenario) -> tuple[str, ...]:
    """The words that this adds to the embedded kernel's command line."""
    if not scenario.runs_programs:
        return (HOST_INSTRUCTIONS,)
    return (f"slice_us={SLICE_US}",) if is_charged(scenario) else ()


def join(site: str, given: SiteTime) -> None:
    """Let this process and all that it will fork belong to a site. Raises OSError."""
    times = round(given.factor * 1e6), given.cores, round(given.poll_s * 1e9), given.polls
    FILE.write_text(" ".join(map(str, (site, *times, MODES[given.mode]))))


class Accounts:
    """The accounts of one run: the noise before and after it, and the totals of its sites."""

    def __init__(self, scenario: Scenario, run_dir: Path) -> None:
        """With charges of another run, these are in `run_dir`. Raises OSError."""
        self._kept, self._charged = is_kept(scenario), is_charged(scenario)
        self._file = run_dir / KEPT
        self._mode = find_mode(scenario)
        if self._mode == "replay":
            replay_charges(self._file.read_text().splitlines())
        self._is_noisy = is_measured(scenario)
        self._samples = sample_noise() if self._is_noisy else []

    def log_totals(self, add: Callable[..., None]) -> None:
        """Log the totals, if anything took time. Raises OSError."""
        if not self._kept:
            return
        totals = read_totals()
        if self._mode == "record":
            shutil.copyfile(CHARGES, self._file)
        if self._is_noisy:
            self._samples += sample_noise()
        if self._charged or any(each.polls for each in totals):
            add(TimeCharged, totals, tuple(self._samples))


def read_totals() -> tuple[SiteTotals, ...]:
    """What took virtual time at each site until now. Raises OSError."""
    found: dict[str, list[int]] = {}
    for line in FILE.read_text().splitlines():
        site, *values = line.split()
        if site != NOISE:
            before = found.get(site, [0] * len(values))
            found[site] = [a + int(b) for a, b in zip(before, values, strict=True)]
    return tuple(SiteTotals(site, *values) for site, values in found.items())


def replay_charges(lines: Iterable[str]) -> None:
    """Give the kernel the charges of another run, before any process joins. Raises OSError."""
    rows = (line.split() for line in lines)
    try:
        charges = sorted((site, *map(int, numbers)) for site, *numbers in rows)
    except ValueError as error:
        raise OSError(f"{KEPT}: these are no charges of a run: {error}") from error
    with CHARGES.open("wb", buffering=0) as file:
        for begin in range(0, len(charges), LINES):
            some = (" ".join(map(str, each)) for each in charges[begin : begin + LINES])
            file.write("\n".join(some).encode())


def sample_noise() -> list[int]:
    """The virtual time of the same loop, again and again, in a process that is charged for it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            join(NOISE, SiteTime(factor=1.0))
            os.write(writer, struct.pack(f"={SAMPLES}q", *(_time_loop() for _ in range(SAMPLES))))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return [sample for (sample,) in struct.iter_unpack("=q", data)]


def _time_loop() -> int:
    begin_ns = time.monotonic_ns()
    for _ in range(STEPS):
        pass
    return time.monotonic_ns() - begin_ns
