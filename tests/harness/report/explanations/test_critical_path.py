"""The critical path of a task, by predicted events whose links count as busy all the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trunkline.agents.events.task_events import Sent
from trunkline.harness.fluid.fluid_run import predict_events
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.critical_path import find_critical_path
from trunkline.harness.scenario.loading import parse

STAR = """
topology:
  builder: full_mesh
  sites: 3
  rates: 20 Mbit/s
  delays: 10 ms
  overrides: [{link: n3 -> n1, rate: 2 Mbit/s}]
workload: {kind: synthetic, model: 1 MB, compute: 50 ms}
scheme: {policy: bsp, plan: star, server: n1, chunk: 16 KiB}
stop: {tasks: 1}
"""


@pytest.mark.parametrize("later_s", [0.0, 0.5])
def test_a_link_waited_for_its_input_if_nothing_was_left_to_send(later_s: float) -> None:
    """The link back is busy from the first chunk on, by the rate that losses leave it."""
    events = [*predict_events(parse(STAR, "star.yaml"))]
    last_ns = max(e.end_ns for e in History.of(events).tasks[0].all(Sent) if e.site == "n3")
    last_ns += 10_000_000 + round(later_s * 1e9)  # the delay of the link to n1
    changed = [
        replace(event, end_ns=last_ns) if isinstance(event, Sent) and event.site == "n1" else event
        for event in events
    ]
    task = History.of(changed).tasks[0]
    steps = [s for s in find_critical_path(task, {}, lambda *_: True) if s.kind == "transfer"]
    assert [(step.src, step.site) for step in steps] == [("n3", "n1"), ("n1", "n2")]
    waited = steps[0].duration_s > 3.9
    assert waited == (later_s == 0.0)
