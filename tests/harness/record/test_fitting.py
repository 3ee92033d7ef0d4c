"""An event that the topology or the model cannot have is found before anything looks it up."""

import pytest
from three_sites import TOPOLOGY, altered, history

from trunkline.agents.events.fault_events import LinkChanged
from trunkline.harness.record.fitting import find_misfit


def test_all_events_of_a_good_run_fit():
    events = history().events
    assert len(events) > 90
    assert {find_misfit(event, TOPOLOGY) for event in events} == {None}


def test_a_link_that_does_not_exist_does_not_fit():
    event = LinkChanged(0, "runner", "oslo", "n9", 1.0, 1.0, 0.0, 0.0, ())
    said = "src, dst: oslo -> n9: expected a link of the topology"
    assert find_misfit(event, TOPOLOGY) == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"forest": {}}, "forest: KeyError: 'contributors': expected a plan"),
        ({"bytes": 500_000}, "forest: chunk 3: expected 0 to 1, of the model's size"),
    ],
)
def test_a_plan_of_another_model_does_not_fit(values, said):
    task = history(altered("task_started", values, task=1)).tasks[1]
    assert find_misfit(task.started, TOPOLOGY) == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"dst": "nX"}, "dst: 'nX': expected a site of the topology"),
        ({"site": "nX"}, "site: 'nX': expected a site of the topology"),
    ],
)
def test_payload_of_a_site_that_does_not_exist_does_not_fit(values, said):
    found = history(altered("sent", values, task=0))
    assert said in [find_misfit(event, TOPOLOGY) for event in found.events]
