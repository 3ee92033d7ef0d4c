"""What `trunkline list` lists. Functions import what is slow to load, and few lists need."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trunkline.harness.config import document
from trunkline.harness.config.units import count_of
from trunkline.harness.processes.ownership import Owner

Line = tuple[str, str]
"""A name and its description."""


def list_extensions(kind: str) -> Iterator[Line]:
    """The topologies, plans, policies or workloads, with the first lines of their docstrings."""
    from trunkline.harness.scenario.extensions import summarize_kind

    yield from summarize_kind(kind).items()


def list_schemes() -> Iterator[Line]:
    """The schemes, each with the keys that it sets."""
    from trunkline.harness.scenario.named_schemes import SCHEMES

    for name, values in SCHEMES.items():
        yield name, ", ".join(f"{key}: {document.show(value)}" for key, value in values.items())


def list_faults() -> Iterator[Line]:
    """The faults of timelines and of the shell, with the first lines of their help."""
    from trunkline.harness.faults.fault_types import VERBS

    for verb, fault in VERBS.items():
        yield verb, (fault.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def list_scenarios(folder: Path) -> Iterator[Line]:
    """The scenario files below a folder, with their descriptions."""
    for path in sorted(folder.rglob("*.yaml")):
        data = document.read(path.read_text(encoding="utf-8", errors="replace"), str(path)).data
        if isinstance(data, dict) and "topology" in data:
            text = str(data.get("description", ""))
            yield str(path), text[:1].upper() + text[1:]


PROGRAM = "program"
"""The policy and the plan of a run of programs."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the folder of runs; a value that is not written yet is None.

    Attributes:
        began: when it began by this machine's clock, as in ISO 8601.
        verdict: the outcome, or that there is none yet.
        overrides: the values of `--set` with which it was run.
        tasks: how many were completed.
        task_s: their mean duration, in seconds.
        faults: how many faults the run had.
        by_hand: whether a user changed the run while it was live.
    """

    folder: str
    began: str | None
    verdict: str
    policy: str | None
    plan: str | None
    seed: int | None
    tasks: int | None
    task_s: float | None
    faults: int | None
    by_hand: bool
    overrides: tuple[str, ...]


def list_runs(folder: Path) -> Iterator[ListedRun]:
    """Every run in the folder of runs, oldest first."""
    found = (path for path in folder.glob("*/*") if path.is_dir() and not path.is_symlink())
    for path in sorted(found, key=lambda path: (path.name, path.parent.name)):
        header = _read_header(path)
        policy, plan, seed = (header.get(key) for key in ("policy", "plan", "seed"))
        row = _read_summary(path)
        faults = _count_faults(path)
        yield ListedRun(
            folder=str(path),
            began=_read_began(path),
            verdict=_read_verdict(path),
            policy=policy,
            plan=plan,
            seed=seed,
            tasks=None if (tasks := _to_number(row.get("tasks"))) is None else int(tasks),
            task_s=_to_number(row.get("task_s")),
            faults=faults,
            by_hand=bool(row.get("by_hand")),
            overrides=_read_overrides(path),
        )


def describe_run(run: ListedRun) -> str:
    """Date, verdict, scheme, seed, tasks and overrides, as far as they are known."""
    runs_programs = run.policy == PROGRAM
    scheme = PROGRAM if runs_programs else f"{run.policy}, {run.plan}"
    counts_tasks = run.tasks is not None and (run.tasks > 0 or not runs_programs)
    parts = [
        *([scheme] if run.policy else ()),
        *([f"seed {run.seed}"] if run.seed is not None else ()),
        *([count_of(run.tasks or 0, "task")] if counts_tasks else ()),
        *([f"{run.task_s:.3f} s each"] if run.task_s is not None else ()),
        *([count_of(run.faults, "fault")] if run.faults else ()),
        *(["by hand"] if run.by_hand else ()),
    ]
    changes = "".join(f"  --set {shlex.quote(each)}" for each in run.overrides)
    began = (run.began or "").replace("T", " ")[:16]
    return f"{began:<16}  {run.verdict:<8}  {', '.join(parts)}{changes}".rstrip()


def is_running(run_dir: Path) -> bool:
    """Whether the run's process is alive and there is no verdict yet."""
    owner = Owner.of_run(run_dir)
    return bool(owner and owner.alive()) and not (run_dir / "verdict.json").exists()


def _read_began(run_dir: Path) -> str | None:
    """When a run began, which is in the name of its folder; another folder has no date."""
    try:
        return datetime.strptime(run_dir.name[:15], "%Y%m%d-%H%M%S").isoformat()
    except ValueError:
        return None


def _read_overrides(run_dir: Path) -> tuple[str, ...]:
    """The changes of the command line; none if they are not known."""
    try:
        about = json.loads((run_dir / "environment.json").read_text(encoding="utf-8"))
        return tuple(map(str, about["overrides"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _read_verdict(run_dir: Path) -> str:
    try:
        text = (run_dir / "verdict.json").read_text(encoding="utf-8")
        return str(json.loads(text)["verdict"])
    except (OSError, ValueError, KeyError, TypeError):
        return "running" if is_running(run_dir) else "not finished"


def _read_header(run_dir: Path) -> dict[str, Any]:
    """The first line of the event log, which says what was run; empty if there is none."""
    try:
        with (run_dir / "events.jsonl").open(encoding="utf-8") as log:
            header = json.loads(log.readline())
    except (OSError, ValueError):
        return {}
    return header if isinstance(header, dict) else {}


def _read_summary(run_dir: Path) -> dict[str, str]:
    """The row of the run's table of a run; empty if there is none."""
    return next(iter(_read_rows(run_dir / "tables" / "run.csv")), {})


def _count_faults(run_dir: Path) -> int | None:
    """How many faults began; None if there is no table of them."""
    table = run_dir / "tables" / "faults.csv"
    return sum(bool(row.get("start_s")) for row in _read_rows(table)) if table.exists() else None


def _read_rows(table: Path) -> list[dict[str, str]]:
    try:
        with table.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, ValueError):
        return []


def _to_number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
