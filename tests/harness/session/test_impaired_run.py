"""A run over links that reorder, duplicate and corrupt packets passes, twice with the same log."""

import json

from inside import run_all

from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import parse, resolve

SCENARIO = """
name: rough
topology:
  builder: full_mesh
  sites: 3
  rates: 50 Mbit/s
  delays: 20 ms
  jitter: 2 ms
  distribution: pareto
  reorder: 1 %
  duplicate: 1 %
  corrupt: 0.2 %
  correlation: 25 %
workload: {kind: synthetic, model: 1 MB, compute: 0.1 s}
scheme: {policy: bsp, plan: a2a}
background:
- {src: n1, dst: n2, rate: 2 Mbit/s}
- {src: n2, dst: n3, kind: tcp, rate: 2 Mbit/s, size: 50 kB}
stop: {tasks: 6}
timeline:
- {at: 0.3 s, do: setlink n1 -> n2 duplicate=10% reorder=5% distribution=normal for 500 ms}
- {at: 0.5 s, do: "setlink n1 n3 jitter=5ms distribution=-1,-0.8,-0.5,0,2.3 corrupt=1%"}
- {at: 0.6 s, do: setlink n2 n3 delay=0 ms for 400 ms}
outputs: {plots: false}
"""


def test_a_run_over_impaired_links_passes_twice_with_the_same_log(embedded, tmp_path):
    names = ["first", "again"]
    for name in names:
        (tmp_path / name / "log").mkdir(parents=True)
        (tmp_path / name / "resolved.yaml").write_text(resolve(parse(SCENARIO, "rough.yaml")))
        done = embedded.call(run_all, str(tmp_path), [name], visible=[tmp_path])
        assert done == {"codes": {name: 0}, "left": []}
    verdict = outputs.build(tmp_path / "first")
    assert (verdict.outcome, verdict.problems) == ("pass", ())
    first, again = ((tmp_path / name / "events.jsonl").read_text() for name in names)
    assert first == again
    events = [json.loads(line) for line in first.splitlines()]
    changed = [event for event in events if event["event"] == "link_changed"]
    asked = next(event for event in changed if (event["src"], event["dst"]) == ("n1", "n2"))
    assert (asked["duplicate_percent"], asked["reorder_percent"]) == (10.0, 5.0)
    assert (asked["distribution"], asked["correlation_percent"]) == ("normal", 25.0)
    assert "link_altered" not in {event["event"] for event in events}
    still = [event for event in changed if event["delay_ms"] == 0]
    assert {event["jitter_ms"] for event in still} == {0.0}
    assert {event.get("distribution", "uniform") for event in still} == {"uniform"}
