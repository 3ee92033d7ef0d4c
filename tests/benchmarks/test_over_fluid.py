"""How much longer updates take than predicted, from the folder of a run."""

from pathlib import Path

import pandas as pd
import pytest
from over_fluid import read_run

from trunkline.harness.fluid import fluid_run
from trunkline.harness.scenario.loading import load

SCENARIO = """
topology: {builder: full_mesh, sites: 3, rates: 80 Mbit/s, delays: 10 ms}
workload: {kind: synthetic, model: 1 MB, compute: 100 ms}
scheme: {name: ps-bsp, servers: [n3]}
stop: {tasks: 4}
"""


def write_run(folder: Path, scenario: str, update_s: float) -> Path:
    """A run of a scenario with this time per update."""
    (folder / "tables").mkdir(parents=True)
    (folder / "resolved.yaml").write_text(scenario)
    table = pd.DataFrame({"updates": [4], "update_s": [update_s]})
    table.to_csv(folder / "tables/run.csv", index=False)
    return folder


def test_the_time_per_update_is_over_both_predictions(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", SCENARIO, 0.6)
    scenario = load(run / "resolved.yaml")
    without, within = (fluid_run.predict(scenario, delays) for delays in (False, True))
    assert without is not None and within is not None
    assert within.update_s > without.update_s
    assert read_run(run) == pytest.approx((4, 0.6 / without.update_s, 0.6 / within.update_s))


def test_a_run_that_cannot_be_predicted_is_refused(tmp_path: Path) -> None:
    faulty = SCENARIO + "timeline:\n- {at: 1 s, do: isolate n1 for 1 s}\n"
    with pytest.raises(SystemExit, match="cannot predict"):
        read_run(write_run(tmp_path / "run", faulty, 0.6))
