"""The fidelity self-check as a whole, in the embedded kernel."""

import subprocess
import sys
from datetime import datetime

from harness.measure import fidelity
from harness.scenario import parse
from harness.store import RunFolder

PAIR = """
name: pair
topology:
  builder: explicit
  sites: [a, b]
  links:
  - {src: a, dst: b, rate: 100 Mbit/s, delay: 20 ms, jitter: 5 ms, loss: 1 %}
  - {src: b, dst: a, rate: 20 Mbit/s, delay: 5 ms, queue: 60 kB}
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 1}
"""


def test_the_table_is_the_same_beside_three_burning_processes(embedded, tmp_path):
    verdicts, tables = [], []
    for burning in (0, 3):
        folder = RunFolder.create(tmp_path, f"burning-{burning}", datetime(2026, 1, 1))
        burner = [sys.executable, "-c", "while True: pass"]
        burners = [subprocess.Popen(burner) for _ in range(burning)]
        try:
            found = fidelity.check(parse(PAIR, "pair"), folder, lambda *_: None, with_foreign=False)
        finally:
            for process in burners:
                process.kill()
                process.wait()
        verdicts.append(found.verdict)
        tables.append((folder.path / "tables/fidelity.csv").read_bytes())
    assert [verdict.outcome for verdict in verdicts] == ["pass", "pass"]
    assert tables[0].count(b"\n") == 1 + 2 * 7  # a header, and seven quantities of each link
    assert tables[0] == tables[1]
