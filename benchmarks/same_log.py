r"""Run a scenario several times on a busy machine, and compare the event logs.

    python benchmarks/same_log.py scenarios/paper/p-reduce/table1.yaml --times 12 --jobs 3 \
        --set 'scheme={name: ps-asp, servers: [n9]}' --set 'stop={time: 20 s}'

All logs must be the same, byte for byte. With more jobs than processors, the runs disturb each
other. It prints how many runs had each log, and ends with 1 if there are several.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trunkline.harness.runs import runner
from trunkline.harness.scenario.loading import load


def main() -> None:
    """Run it, and print the digests of the logs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--times", type=int, default=6, help="how many runs")
    parser.add_argument("--jobs", type=int, default=3, help="how many at once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    changes = [*arguments.set, "outputs={plots: false}"]
    scenario = load(str(arguments.scenario), changes, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:

        def run(number: int) -> str:
            done = runner.run(
                scenario, arguments.scenario, Path(folder) / str(number), lambda _: None
            )
            digest = hashlib.sha256((done.run_dir / "events.jsonl").read_bytes()).hexdigest()[:16]
            sys.stderr.write(f"run {number + 1}: {done.verdict.outcome}, log {digest}\n")
            return digest

        with ThreadPoolExecutor(arguments.jobs) as pool:
            logs = Counter(pool.map(run, range(arguments.times)))
    for digest, count in logs.most_common():
        sys.stdout.write(f"{digest}: {count} of {arguments.times} runs\n")
    sys.exit(len(logs) > 1)


if __name__ == "__main__":
    main()
