"""Six short runs give the event logs that they give on every other machine."""

from __future__ import annotations

import pytest

from trunkline.harness.runs import reference_logs
from trunkline.harness.runs.reference_logs import NAMES, find_difference, hash_lines


@pytest.mark.parametrize("name", NAMES)
def test_the_event_log_is_that_of_every_machine(name, tmp_path, embedded):
    finding = reference_logs.check(name, tmp_path)
    assert finding.state != "problem", finding.found
    if finding.state == "warning":
        pytest.skip(finding.found)


def test_the_first_event_that_differs_is_shown():
    known = hash_lines(["a", "b", "c"])
    assert find_difference(["a", "b", "c"], known) is None
    assert find_difference(["a", "x", "y"], known) == "event 2 of 3 differs: x"
    assert find_difference(["a", "b"], known) == "event 3 of 3 differs: the log ends"
    assert find_difference(["a", "b", "c", "d"], known) == "event 4 of 3 differs: d"


def test_every_scenario_of_the_folder_is_compared():
    assert tuple(sorted(file.stem for file in reference_logs.FOLDER.glob("*.yaml"))) == NAMES
