"""Simulate the tasks of a scenario in ns-3: its own packets, links and TCP.

    python benchmarks/crosscheck/against_ns3.py scenarios/crosscheck/pair.yaml
    python benchmarks/crosscheck/against_ns3.py FILE --set topology.delays='30 ms' \
        --tcp ns3 --attribute ns3::TcpCubic::HyStart=false

It prints the time of each task in seconds. `ns3_description.py` says what is simulated. Senders of
TCP are like those of Linux (`ns3_linux_tcp.h`), or with `--tcp ns3` those of ns-3, of which one
rule is repaired (`ns3_own_tcp.h`). It needs Debian's libns3-dev and g++; `ns3_flows.cc` is compiled
once.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ns3_description import Tcp, describe, list_faults

from trunkline.harness.scenario.loading import load
from trunkline.harness.scenario.settings import Scenario

SOURCE = Path(__file__).with_name("ns3_flows.cc")
TCP_SOURCES = SOURCE.with_name("ns3_linux_tcp.h"), SOURCE.with_name("ns3_own_tcp.h")
HEADER = Path("/usr/include/ns3/core-module.h")
LIBRARIES = [f"-lns3-{name}" for name in ("core", "network", "internet", "point-to-point")]
LIMIT_S = 900.0


class NotHereError(RuntimeError):
    """The simulator cannot be had here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What ns-3 answered.

    Attributes:
        tasks_s: the time of each task that has ended, in order.
        packets: the packets that all links have sent.
        drops: those of them that were lost at random or by an outage, and those that did not fit
            into a queue.
    """

    tasks_s: tuple[float, ...]
    packets: int
    drops: int


def build(cache: Path) -> Path:
    """The compiled simulator, made if it is not there. Raises NotHereError."""
    if not HEADER.exists() or shutil.which("g++") is None:
        raise NotHereError("ns-3 is not installed: apt-get install libns3-dev g++")
    program = cache / f"ns3_flows-{hash_source()}"
    if program.exists():
        return program
    cache.mkdir(parents=True, exist_ok=True)
    new = program.with_suffix(f".{os.getpid()}")
    command = ["g++", "-O2", "-std=c++17", str(SOURCE), "-o", str(new), *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHereError(f"{SOURCE.name} does not compile: {done.stderr[-2000:]}")
    return new.rename(program)


def hash_source() -> str:
    """A name for what the simulator is made of."""
    sources = (path.read_bytes() for path in (SOURCE, *TCP_SOURCES))
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


def simulate(
    scenario: Scenario,
    program: Path,
    attributes: Mapping[str, str] | None = None,
    tcp: Tcp = "linux",
) -> Simulated:
    """Simulate a scenario's tasks, with other `attributes` of ns-3 if they are given.

    Raises CannotDescribeError for a scenario that cannot be described, and RuntimeError.
    """
    made = describe(scenario)
    text = made.write(attributes or {}, [*list_faults(made)], tcp)
    done = subprocess.run(
        [program], input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ns-3 ended with code {done.returncode}: {done.stderr[-2000:]}")
    return read_answer(done.stdout, made.begins, made.ends)


def read_answer(text: str, begins: list[int], ends: list[list[int]]) -> Simulated:
    """Read the answer of `ns3_flows`; the steps are those of the tasks' begins and ends."""
    ended_ns: dict[int, int] = {}
    packets = drops = 0
    for line in text.splitlines():
        what, *words = line.split()
        if what == "ended":
            ended_ns[int(words[0])] = int(words[1])
        elif what == "link":
            packets += int(words[3])
            drops += int(words[4]) + int(words[5])
    tasks_s = tuple(
        (max(ended_ns[step] for step in steps) - ended_ns[begin]) / 1e9
        for begin, steps in zip(begins, ends, strict=True)
        if ended_ns.keys() >= {begin, *steps}
    )
    return Simulated(tasks_s, packets, drops)


def main() -> None:
    """Simulate one scenario, and print the times of its tasks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--tcp", choices=("linux", "ns3"), default="linux", help="whose senders")
    parser.add_argument("--describe", action="store_true", help="print the description only")
    arguments = parser.parse_args()
    scenario = load(arguments.scenario, arguments.changes)
    attributes = dict(each.split("=", 1) for each in arguments.attribute)
    if arguments.describe:
        made = describe(scenario)
        sys.stdout.write(made.write(attributes, [*list_faults(made)], arguments.tcp))
        return
    found = simulate(scenario, build(find_cache()), attributes, arguments.tcp)
    sys.stdout.write(f"tasks, s: {' '.join(f'{each:.4f}' for each in found.tasks_s)}\n")
    sys.stdout.write(f"packets {found.packets}, drops {found.drops}\n")


def find_cache() -> Path:
    """Where programs and machines are kept that are made once per user."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "trunkline"


if __name__ == "__main__":
    main()
