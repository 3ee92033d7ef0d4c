"""Six short runs whose event logs are known: the same bits on every processor, checked anywhere.

    python -m trunkline.harness.runs.reference_logs      make the logs' hashes again

The scenarios are in `scenarios/reference/`. Beside each one, `NAME.hashes` has a hash of every line
of its event log, so that a comparison can tell the first event that differs. A change of the agents
that moves an event, or a new embedded kernel, needs the hashes made again: commit the change with
them. Processors without AVX2 compute with other routines (`harness.processes.numerics`), so the
runs of NEEDS_AVX2 are not compared there.

VERSIONS has what the hashes were made with. Another Python reads the clock more or less often, also
3.11.2 than 3.11.7 (256 ns each time), and another torch computes other bits. So a log that differs
is a problem only if all versions are the same.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from trunkline.harness.config.paths import SCENARIOS
from trunkline.harness.processes import numerics
from trunkline.harness.processes.needs import Finding
from trunkline.harness.record import run_folder
from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load

FOLDER = SCENARIOS / "reference"
NAMES = ("agents", "awareness", "gloo", "losses", "servers", "training")
NEEDS_AVX2 = ("training",)
VERSIONS = FOLDER / "versions.json"
PACKAGES = ("numpy", "torch")
"""The packages whose versions can move an event."""

HASH_DIGITS = 8
SHOWN_CHARACTERS = 300


def carry_out(name: str, runs: Path) -> tuple[str, list[str]]:
    """Run a reference scenario in a folder of runs; its verdict, and the lines of its event log.

    Raises CannotRunError, KernelError or StoreError.
    """
    file = FOLDER / f"{name}.yaml"
    result = runner.run(load(str(file)), file, runs, lambda _: None)
    return result.verdict.outcome, (result.run_dir / "events.jsonl").read_text().splitlines()


def hash_lines(lines: Sequence[str]) -> list[str]:
    """The first HASH_DIGITS hexadecimal digits of the SHA-256 of each line."""
    return [hashlib.sha256(line.encode()).hexdigest()[:HASH_DIGITS] for line in lines]


def find_difference(lines: Sequence[str], hashes: Sequence[str]) -> str | None:
    """The first event that is not the known one, in words; None if all events are."""
    found = hash_lines(lines)
    if found == list(hashes):
        return None
    same = next(
        (at for at, (a, b) in enumerate(zip(found, hashes, strict=False)) if a != b),
        min(len(found), len(hashes)),
    )
    event = lines[same][:SHOWN_CHARACTERS] if same < len(lines) else "the log ends"
    return f"event {same + 1} of {len(hashes)} differs: {event}"


def read_hashes(name: str) -> list[str]:
    """The known hashes of a scenario's log."""
    return (FOLDER / f"{name}.hashes").read_text().split()


def find_other_versions() -> list[str]:
    """What is installed here in another version than the hashes were made with, in words."""
    here = _list_versions()
    made_with = json.loads(VERSIONS.read_text())
    return [
        f"{name} {here[name]} (made with {version})"
        for name, version in made_with.items()
        if here[name] != version
    ]


def has_avx2() -> bool:
    """Whether this processor computes with the routines that the hashes were made with."""
    return numerics.environment() == {**numerics.ONE_THREAD, **numerics.WITH_AVX2}


def _list_versions() -> dict[str, str | None]:
    packages = {name: run_folder.version(name) for name in PACKAGES}
    return {"Python": platform.python_version(), **packages}


def check(name: str, runs: Path) -> Finding:
    """Compare the log of a reference scenario with the known one.

    Raises CannotRunError, KernelError or StoreError.
    """
    if name in NEEDS_AVX2 and not has_avx2():
        return Finding(f"log {name}", "warning", "not compared: this processor lacks AVX2")
    hashes = read_hashes(name)
    _, lines = carry_out(name, runs)
    difference = find_difference(lines, hashes)
    if difference is None:
        return Finding(f"log {name}", "ok", f"{len(hashes)} events, as everywhere")
    if others := find_other_versions():
        why = f"with {' and '.join(others)} it may"
        remedy = "nothing, unless logs must be those of other machines: then the same versions"
        return Finding(f"log {name}", "warning", f"{difference}; {why}", remedy)
    remedy = "please report this with your processor: here are the versions of the known log"
    return Finding(f"log {name}", "problem", difference, remedy)


def list_checks(runs: Path) -> tuple[Callable[[], Finding], ...]:
    """A check for each reference scenario; their runs go to the folder `runs`."""

    def make(name: str) -> Callable[[], Finding]:
        return lambda: check(name, runs)

    return tuple(make(name) for name in NAMES)


def main() -> None:
    """Make all hashes again, of runs that pass."""
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            outcome, lines = carry_out(name, Path(folder))
            if outcome != "pass":
                sys.exit(f"{name}: the verdict is {outcome}, so its hashes stay as they are")
            (FOLDER / f"{name}.hashes").write_text("\n".join(hash_lines(lines)) + "\n")
            sys.stdout.write(f"{name}: {len(lines)} events\n")
    VERSIONS.write_text(f"{json.dumps(_list_versions(), indent=2)}\n")


if __name__ == "__main__":
    main()
