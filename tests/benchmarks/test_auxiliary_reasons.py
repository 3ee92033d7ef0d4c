"""What changes when auxiliary paths have links of their own, or are taken only if faster."""

from pathlib import Path

from auxiliary_reasons import Changed, Doubled

from trunkline.harness.fluid import fluid_run
from trunkline.harness.scenario.loading import load

SCENARIO = """
topology: {builder: internet2, rate_factor: 0.01}
workload: {kind: synthetic, model: 800 kB, compute: 100 ms}
scheme: {name: netstorm-pro, chunk: 40 kB}
stop: {tasks: 2}
"""


def test_without_a_change_the_prediction_is_that_of_the_fluid_model(tmp_path: Path) -> None:
    file = tmp_path / "auxiliary.yaml"
    file.write_text(SCENARIO)
    expected = fluid_run.predict(load(file, (), 1))
    assert expected is not None
    changed = Changed(apart=False, faster=False)
    assert changed.predict(file, [], 1) == expected.task_s
    assert len(changed.last) == 2
    apart_s = Changed(apart=True, faster=False).predict(file, [], 1)
    assert apart_s != expected.task_s
    faster_s = Changed(apart=False, faster=True).predict(file, [], 1)
    assert faster_s not in (expected.task_s, apart_s)
    again = fluid_run.predict(load(file, (), 1))
    assert again is not None and again.task_s == expected.task_s


def test_a_second_link_has_the_rate_of_the_first() -> None:
    assert Doubled({("a", "b"): 3.0})["a'", "b"] == 3.0
