"""How agents are spread over processes: by the number of sites, unless the scenario says it."""

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import parse, resolve

TEXT = """
topology: {builder: star, sites: %d}
workload: {kind: synthetic, model: 1 MB}
scheme: {policy: bsp, plan: star}
stop: {rounds: 1}
"""

OWN_CODE = """
scheme: {policy: mine.py, plan: star}
code:
  mine.py: |
    from trunkline.agents.policies.bsp import create
"""


@pytest.mark.parametrize(
    ("sites", "more", "expected"),
    [
        (4, "", 4),
        (4, OWN_CODE, 1),
        (33, OWN_CODE, 33),
        (33, "agents: {per_process: 1}", 1),
        (33, "agents: {per_process: 10}", 10),
        (4, "agents: {per_process: all}", 4),
        (33, "clock: real", 1),
        (33, "clock: real\nagents: {per_process: all}", 33),
    ],
)
def test_on_the_virtual_clock_sites_share_a_process_unless_few_of_them_run_own_code(
    sites, more, expected
):
    text = TEXT.replace("scheme: {policy: bsp, plan: star}\n", "") if more == OWN_CODE else TEXT
    scenario = parse(text % sites + more, "test.yaml")
    assert scenario.agents_per_process == expected
    assert parse(resolve(scenario), "resolved.yaml").agents == scenario.agents


@pytest.mark.parametrize("wrong", ["0", "-1", "some", "1.5", "[]"])
def test_other_values_are_refused(wrong):
    with pytest.raises(ScenarioErrors, match=r"agents\.per_process"):
        parse(TEXT % 3 + f"agents: {{per_process: {wrong}}}", "test.yaml")


def test_programs_have_no_agents():
    text = (
        "topology: {builder: star, sites: 3}\n"
        "workload: {kind: program, command: ['true']}\n"
        "agents: {per_process: 2}\n"
    )
    with pytest.raises(ScenarioErrors, match="not with workload program"):
        parse(text, "test.yaml")
