"""The cases of the cross-checks, and the results that are kept of them.

A result says which version (commit) of Trunkline made it, and which code. The tables show all
results of the present scenarios, and `--table versions` says who made them. What other code made
is measured again. Code is:

- of Trunkline: `agents/`, `harness/network/`, the embedded kernel's key, and what reads a run;
- of Debian's kernel: these folders, what reads a run, and the files that run it in its machine;
- of ns-3: its program, the description, and `agents/`, which has the plans.

Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import against_kernel
import against_ns3
import ns3_description
from iperf_meter import Flow
from run_result import Result

from trunkline.harness.kernel import build
from trunkline.harness.scenario.loading import load, resolve
from trunkline.harness.scenario.settings import Scenario

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "comparisons" / "crosscheck"
KERNEL_TASKS = 4
"""Debian's kernel carries out the first tasks of a case only, because they take long there."""

OURS, UNPACED, NS3, KERNEL = "trunkline", "trunkline unpaced", "ns-3", "kernel"
OWN_TCP = "ns-3 with its TCP"
HALF_SPEED = "kernel at half speed"
NEWER = "kernel 6.12"
"""Debian's kernel of the version that the embedded one has."""
AGAIN = "kernel again"
"""The same runs once more: on Debian's kernel, a run differs from the next."""

MACHINES = KERNEL, AGAIN, NEWER
INSTRUCTION_NS = {**dict.fromkeys(MACHINES, 1), HALF_SPEED: 2}
"""The sides that are emulated machines, and how long an instruction takes there."""

CHANGES: Mapping[str, tuple[str, ...]] = {
    OURS: (),
    UNPACED: ("network.pacing=false",),
    NS3: ("network.pacing=false",),
    OWN_TCP: ("network.pacing=false",),
    **dict.fromkeys(INSTRUCTION_NS, against_kernel.CHANGES),
}
"""What each side changes in a case. When ns-3 paces, it loses its retransmissions."""

BASELINES = {NS3: UNPACED, OWN_TCP: UNPACED, **dict.fromkeys(INSTRUCTION_NS, OURS)}
"""The runs of ours that another side is compared with."""

SENDERS: Mapping[str, ns3_description.Tcp] = {NS3: "linux", OWN_TCP: "ns3"}
"""The sides that are simulations, and whose senders they have."""

PACKAGES = {NEWER: "linux-image-6.12-amd64"}
"""Whose kernels some of them have; others have `KERNEL_PACKAGE`."""

WHERE = {
    "ns3": (NS3, OWN_TCP),
    "kernel": MACHINES,
    "kernel-speeds": (*MACHINES, HALF_SPEED),
    "both": (NS3, OWN_TCP, *MACHINES),
    "speeds": (NS3, OWN_TCP, *MACHINES, HALF_SPEED),
}
"""What a line of the table of cases says -> the sides."""

AGENTS_AND_NETWORK = ROOT / "agents", ROOT / "harness" / "network"
MACHINE = tuple(
    Path(__file__).with_name(f"{name}.py")
    for name in ("against_kernel", "guest_runs", "emulated_machine")
)
"""Whose code decides results of an emulated machine."""

READING = tuple(Path(__file__).with_name(f"{name}.py") for name in ("run_result", "iperf_meter"))
"""Whose code reads a run."""


Reads = Literal["all", "code", "version"]


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the table of cases.

    Attributes:
        seeds: how many seeds it is run with; one if nothing in it is random. Packets are lost at
            random, and a mesh has the rates and delays of its seed.
        on_kernel: with how many of them it runs on Debian's kernel, and of ours beside it.
        sides: the other sides that it runs on.
    """

    name: str
    file: Path
    seeds: int
    on_kernel: int
    sides: tuple[str, ...]
    changes: tuple[str, ...]

    def load(self, seed: int, side: str) -> Scenario:
        """The scenario with this seed, as a side runs it."""
        changes = f"name={self.name}", *self.changes, *CHANGES[side]
        scenario = load(self.file, changes, seed)
        if scenario.stop.tasks is None or side in (*SENDERS, UNPACED):
            return scenario
        return replace(scenario, stop=replace(scenario.stop, tasks=KERNEL_TASKS))


def read_cases(text: str, folder: Path) -> list[Case]:
    """Read the table of cases: NAME FILE SEEDS SIDES CHANGE ... on each line.

    SIDES is a key of `WHERE`.
    """
    cases = []
    for line in text.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ValueError(f"{line!r}: {error}") from error
        if not words:
            continue
        seeds = re.fullmatch(r"([1-9]\d*)(?:/([1-9]\d*))?", words[2]) if len(words) > 3 else None
        if seeds is None or words[3] not in WHERE:
            known = "|".join(WHERE)
            raise ValueError(f"{line!r}: expected NAME FILE SEEDS {known} KEY=VALUE ...")
        name, file, _, where, *changes = words
        counts = int(seeds[1]), int(seeds[2] or seeds[1])
        if counts[1] > counts[0]:
            raise ValueError(f"{line!r}: more seeds on Debian's kernel than in all")
        cases.append(Case(name, folder / file, *counts, WHERE[where], tuple(changes)))
    names = [case.name for case in cases]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"cases: {', '.join(sorted(repeated))}: given twice")
    return cases


@dataclass(frozen=True, slots=True)
class Store:
    """The results on the disk, each with the mark of its scenario.

    `version` is that of this Trunkline. It reads `all` results of the present scenarios, or only
    those of the present `code`, or of the present `version`.
    """

    folder: Path
    version: str = ""
    reads: Reads = "all"

    def read(self, case: Case, seed: int, side: str) -> Result | None:
        """A result; None if there is none of the present scenario."""
        path = self._path(case, seed, side)
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        if found.pop("of") != _mark(case, seed, side):
            return None
        found["tasks_s"] = tuple(found["tasks_s"])
        found["flows"] = tuple(Flow(**each) for each in found.get("flows", ()))
        result = Result(**found)
        is_wanted = {
            "all": True,
            "code": result.code == hash_code(side),
            "version": result.version == self.version,
        }
        return result if is_wanted[self.reads] else None

    def write(self, case: Case, seed: int, side: str, result: Result) -> None:
        """Keep a result."""
        path = self._path(case, seed, side)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = asdict(replace(result, version=self.version, code=hash_code(side)))
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"of": _mark(case, seed, side), **kept}))
        new.rename(path)

    def results(self, case: Case, side: str) -> dict[int, Result]:
        """The results of all seeds that there are, without failed runs."""
        found = ((seed, self.read(case, seed, side)) for seed in seeds_of(case, side))
        return {seed: each for seed, each in found if each and each.is_measured and each.is_sound}

    def _path(self, case: Case, seed: int, side: str) -> Path:
        return self.folder / case.name / f"{side}-{seed}.json"


def _mark(case: Case, seed: int, side: str) -> str:
    """A hash of the scenario, wherever this checkout is."""
    text = resolve(case.load(seed, side)).replace(str(case.file.parent.resolve()), ".")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def hash_code(side: str) -> str:
    """A hash of the code that decides the results of a side."""
    if side in SENDERS:
        parts = [against_ns3.hash_source(), *map(_strip, _list_code(ROOT / "agents"))]
        parts.append(_strip(Path(ns3_description.__file__)))
    else:
        files = [path for folder in AGENTS_AND_NETWORK for path in _list_code(folder)]
        parts = [*map(_strip, (*files, *READING))]
        parts += [*map(_strip, MACHINE)] if side in INSTRUCTION_NS else [build.key()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _list_code(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _strip(path: Path) -> str:
    """The code of a file without comments, docstrings and its layout."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [x for x in body if not _is_text(x)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def seeds_of(case: Case, side: str) -> range:
    """The seeds of a case on a side."""
    return range(1, (case.seeds if side in (*SENDERS, UNPACED) else case.on_kernel) + 1)


def read_all(
    cases: Iterable[Case], store: Store, sides: Iterable[str]
) -> Iterator[tuple[Case, int, str, Result | None]]:
    """The results of these sides; None where one has not been measured."""
    for side in sides:
        those = {side, *(other for other, ours in BASELINES.items() if ours == side)}
        for case in cases:
            for seed in seeds_of(case, side) if those & {*case.sides} else ():
                yield case, seed, side, store.read(case, seed, side)


def list_missing(
    cases: Iterable[Case], store: Store, sides: Iterable[str]
) -> Iterator[tuple[Case, int, str]]:
    """What these sides have not measured."""
    for case, seed, side, result in read_all(cases, store, sides):
        if result is None:
            yield case, seed, side
