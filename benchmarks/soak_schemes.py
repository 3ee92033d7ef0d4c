"""Soak many schemes: each run draws its scenario, its faults and its scheme from its own seed.

    python benchmarks/soak_schemes.py --runs 400 --seed 20000

Run n has the seed SEED + n. `runs.csv` in the output folder gets a row for each run, and seeds with
a row are not run again, so an interrupted soak continues. Runs that do not pass keep their folders;
unlike `trunkline soak`, the soak goes on after a failure. The printed table adds up all rows. Exit
code 1 if a run failed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from trunkline.harness.config.paths import SCENARIOS
from trunkline.harness.processes.ending import end_by
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.runs import run_pool
from trunkline.harness.runs.run_pool import Finished, Job
from trunkline.harness.study import soak_runs

FOLDER = Path("soaks/schemes")

OVERLAYS = {
    "mesh": "mesh.yaml",
    "Internet2": "internet2.yaml",
    "rounds": "rounds.yaml",
    "star": "star.yaml",
}

CHURNS = (
    None,
    "churn oneways=2500ms controller=6s kills=9s lasting=0.3..5s links=3 agents=2",
    "churn losses=2s slowdowns=3s pauses=6s lasting=0.5..4s links=4 agents=1",
    "churn outages=4s oneways=5s losses=6s slowdowns=6s pauses=8s kills=8s controller=7s "
    "lasting=0.3..5s links=3 agents=2",
)
"""Random faults; None are those of the scenario."""

PLANS = ("crew", "ring", "fapt", "opr", "a2a", "blink", "toa", "mst", "star", "bkt", "ps")

SCHEMES: tuple[Mapping[str, object], ...] = (
    *({"plan": plan} for plan in PLANS),
    {"plan": "crew", "scatter": "non-blocking"},
    {"plan": "crew", "auxiliary": {}},
    {"plan": "crew", "scatter": "non-blocking", "pipelined": False},
    {"plan": "ring", "pipelined": False},
    {"plan": "crew", "weights": "dynamic"},
    {"plan": "ring", "group_filter": True},
    {"plan": "ring", "group_filter": True, "filter": "repair"},
    {"plan": "fapt", "discipline": "C1"},
    {"plan": "crew", "discipline": "fair"},
    {"name": "allreduce"},
    {"name": "tsengine"},
    {"name": "netstorm-std"},
    {"name": "netstorm-pro"},
    {"name": "eager-reduce"},
    {"name": "ad-psgd"},
    {"name": "ps-bsp"},
    {"name": "ps-asp"},
    {"name": "ps-ssp"},
    {"name": "ps-hete"},
    {"name": "ps-bk"},
    {"name": "ps-asp", "plan": "fapt", "servers": ["n1", "n2"]},
    {"name": "r2sp"},
    {"name": "r2sp", "servers": ["n1", "n2"]},
    {"name": "r2sp-literal"},
    {"name": "fl-r2sp", "groups": 2},
    {"name": "safa"},
)
"""What `scheme` has besides the size of a chunk; the policy is partial reduce if none is named."""

STAR_SCHEMES: tuple[Mapping[str, object], ...] = (
    {"name": "fl-r2sp", "groups": 4},
    {"name": "fl-r2sp", "mix": "delta"},
    {"name": "fl-r2sp", "mix": "delta", "wait": "pull"},
    {"name": "fl-bsp"},
    {"name": "safa"},
    {"name": "r2sp"},
    {"name": "r2sp-literal"},
    {"name": "r2sp", "strict": True},
    {"name": "ps-asp"},
    {"name": "ps-bsp"},
    {"name": "ps-ssp"},
    {"name": "ps-bk"},
)
"""What `scheme` has on the star, besides the size of a chunk and its server n1."""

FORMS = (1, 3, "all")
"""Agents per process."""

JUDGED = {
    "results judged": "every result is the weighted sum",
    "outcomes judged": "every task ended once",
    "bytes judged": "every byte arrived",
}
"""Columns with the objects that a check judged exactly; those it had end in `of`."""

BATCH = 20
"""Jobs that are made at a time."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a run has, by its seed."""

    seed: int
    overlay: str
    faults: str
    scheme: Mapping[str, object]
    per_process: int | str

    @classmethod
    def of(cls, seed: int) -> Draw:
        """Draw a run."""
        dice = random.Random(seed)
        overlay, churn = dice.choice(list(OVERLAYS)), dice.randrange(len(CHURNS))
        scheme = dice.choice(STAR_SCHEMES if overlay == "star" else SCHEMES)
        if overlay == "star":
            scheme = {**scheme, "servers": ["n1"]}
        return cls(seed, overlay, f"churn {churn}" if churn else "", scheme, dice.choice(FORMS))

    def job(self) -> Job:
        """Make the job of this run."""
        named = self.scheme if "name" in self.scheme else {"policy": "preduce", **self.scheme}
        if named.get("policy") == "preduce":
            named = {**named, "p": 5 if self.overlay == "Internet2" else 3}
        changes = [
            f"scheme={json.dumps({**named, 'chunk': '8 KiB'})}",
            f"agents.per_process={self.per_process}",
        ]
        churn = CHURNS[int(self.faults.removeprefix("churn ") or 0)]
        file = SCENARIOS / "soak" / OVERLAYS[self.overlay]
        return soak_runs.plan(file, 1, changes, self.seed, churn).job(self.seed)


def main() -> int:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400, metavar="N", help="how many runs (400)")
    parser.add_argument("--seed", type=int, default=20000, metavar="N", help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at once (1)")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="the results")
    arguments = parser.parse_args()
    end_by(signal.SIGTERM)  # the pool ends the runs, which then clean up
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    rows = soak([Draw.of(seed) for seed in seeds], arguments.out, arguments.jobs)
    sys.stdout.write("\n".join(tabulate(rows)) + "\n")
    return int(rows["outcome"].isin(soak_runs.FAILURES).any())


def soak(draws: list[Draw], folder: Path, at_once: int) -> pd.DataFrame:
    """Carry out the runs that have no row yet, and return the rows of all."""
    output = RunFolder(folder)
    output.prepare("runs")
    file = output.path / "runs.csv"
    rows: list[dict[Any, Any]] = pd.read_csv(file).to_dict("records") if file.exists() else []
    known = {row["seed"] for row in rows}
    drawn = {draw.seed: draw for draw in draws}

    def on_finished(result: Finished) -> None:
        draw = drawn[result.job.seed]
        scheme = json.dumps(dict(draw.scheme))
        about = {
            "overlay": draw.overlay,
            "faults": draw.faults,
            "scheme": scheme,
            "per_process": draw.per_process,
        }
        rows.append({**soak_runs.describe_run(result), **about, **_count_judged(result)})
        if result.outcome == "pass" and result.run_dir is not None:
            RunFolder(result.run_dir).remove()
        pd.DataFrame(rows).to_csv(file, index=False)

    missing = [draw for draw in draws if draw.seed not in known]
    for begin in range(0, len(missing), BATCH):
        jobs = [draw.job() for draw in missing[begin : begin + BATCH]]
        run_pool.run(jobs, folder / "runs", at_once, on_finished, lambda running: None)
    table = pd.DataFrame(rows)
    return table[table["seed"].isin(drawn)]


def tabulate(rows: pd.DataFrame) -> Iterator[str]:
    """The lines of a table with a row for each overlay and kind of faults, and one for all."""
    kinds = rows["faults"].fillna("").ne("").map({False: "of the scenario", True: "churns"})
    groups = [
        (f"{name} | {kind}", some) for (name, kind), some in rows.groupby([rows["overlay"], kinds])
    ]
    titles = [
        "overlay",
        "faults",
        "runs",
        "passed",
        "unknown",
        "failed",
        "controller killed twice or more",
    ]
    sums = ["tasks", "completed", "abandoned", "split", "halted", "rearranged", "replanned"]
    titles += [*sums, *(f"{name}, %" for name in JUDGED)]
    yield f"| {' | '.join(titles)} |"
    yield "| --- " * len(titles) + "|"
    for title, some in [*groups, ("all | ", rows)]:
        outcomes = some["outcome"].value_counts()
        cells = [len(some), outcomes.get("pass", 0), outcomes.get("unknown", 0)]
        cells += [int(some["outcome"].isin(soak_runs.FAILURES).sum())]
        cells += [
            int((some["controller_kills"] >= 2).sum()),
            *(int(some[name].sum()) for name in sums),
        ]
        shares = [100 * some[name].sum() / max(1, some[f"{name} of"].sum()) for name in JUDGED]
        yield f"| {title} | {' | '.join([*map(str, cells), *(f'{x:.1f}' for x in shares)])} |"


def _count_judged(result: Finished) -> dict[str, int]:
    """How many objects the checks of JUDGED had and judged in a run."""
    if result.run_dir is None or not (result.run_dir / "verdict.json").exists():
        return {}
    verdict = json.loads((result.run_dir / "verdict.json").read_text(encoding="utf-8"))
    checks = {check["name"]: check for check in verdict["checks"]}
    counts: dict[str, int] = {}
    for column, name in JUDGED.items():
        counts |= {column: checks[name]["judged"], f"{column} of": checks[name]["total"]}
    return counts


if __name__ == "__main__":
    sys.exit(main())
