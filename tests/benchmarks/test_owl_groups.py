"""The number of groups that the plan `owl` chooses, against all others in the fluid model."""

from pathlib import Path

import pytest
from owl_groups import summarize, try_network, write_network


@pytest.mark.parametrize(("seed", "whole", "loss"), [(48, 3, 1.11), (34, 2, 1.02), (49, 4, 1.0)])
def test_the_plan_chooses_what_the_fluid_model_of_the_run_prefers(
    tmp_path: Path, seed: int, whole: int, loss: float
) -> None:
    found = try_network(write_network(seed, tmp_path))
    lost, none = found.compute_losses()
    assert (found.whole, lost) == (whole, pytest.approx(loss, abs=0.005))
    assert none == 1.0


def test_a_row_counts_the_wrong_choices() -> None:
    assert summarize("chunks", [1.0, 1.02, 1.0005, 1.1]) == ["chunks", "2 of 4", "3.01", "10.0"]
