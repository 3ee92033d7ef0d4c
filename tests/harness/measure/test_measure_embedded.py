"""The fidelity self-check as a whole, in the embedded kernel."""

import contextlib
from datetime import datetime

import pytest
from burning import all_processors_busy

from trunkline.harness.measure import self_check
from trunkline.harness.record.run_folder import RunFolder
from trunkline.harness.scenario.loading import parse

# A loss is measured by a hundred packets that are lost: of rarer losses, more packets are sent.
PAIR = """
name: pair
topology:
  builder: explicit
  sites: [a, b]
  links:
  - {src: a, dst: b, rate: 25 Mbit/s, delay: 20 ms, jitter: 5 ms, loss: 4 %}
  - {src: b, dst: a, rate: 10 Mbit/s, delay: 5 ms, queue: 60 kB}
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 1}
outputs: {plots: false}
"""

IMPAIRED = """
name: impaired
topology:
  builder: explicit
  sites: [a, b]
  links:
  - src: a
    dst: b
    rate: 50 Mbit/s
    delay: 40 ms
    jitter: 5 ms
    distribution: paretonormal
    duplicate: 2 %
    corrupt: 1 %
  - {src: b, dst: a, rate: 50 Mbit/s, delay: 40 ms, reorder: 2 %, correlation: 25 %}
workload: {kind: synthetic}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 1}
"""


def test_impairments_are_measured_beside_what_was_asked(embedded, tmp_path):
    folder = RunFolder.create(tmp_path, "impaired", datetime(2026, 1, 1))
    found = self_check.check(
        parse(IMPAIRED, "impaired"), folder, lambda *_: None, with_foreign=False, quick=True
    )
    assert found.verdict.outcome == "pass"
    judged = {(row.src, row.quantity): row.expected for row in found.readings if row.outcome}
    assert {name for src, name in judged if src == "a"} >= {"duplicate", "corrupt", "p10", "p90"}
    assert judged["b", "reorder"] == pytest.approx(2.0)
    assert judged["a", "duplicate"] == pytest.approx(2.0, rel=0.02)
    assert (folder.path / "plots/fidelity.png").stat().st_size > 10_000


def test_the_table_is_the_same_on_a_busy_machine(embedded, tmp_path):
    verdicts, tables = [], []
    for name, load in {"idle": contextlib.nullcontext, "busy": all_processors_busy}.items():
        folder = RunFolder.create(tmp_path, name, datetime(2026, 1, 1))
        with load():
            found = self_check.check(
                parse(PAIR, "pair"), folder, lambda *_: None, with_foreign=False, quick=True
            )
        verdicts.append(found.verdict)
        tables.append((folder.path / "tables/fidelity.csv").read_bytes())
    assert [verdict.outcome for verdict in verdicts] == ["pass", "pass"]
    assert tables[0].count(b"\n") == 1 + 2 * 7  # a header, and seven quantities of each link
    assert tables[0] == tables[1]
