"""What a plan will refuse at run time is refused before anything runs."""

from __future__ import annotations

import pytest

from trunkline.agents import registry
from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import load, parse
from trunkline.harness.scenario.plan_dry_run import first_group

SCENARIO = """\
topology: {{builder: full_mesh, sites: 5, rates: 50 Mbit/s}}
workload: {{kind: synthetic, model: 10 MB}}
scheme: {scheme}
stop: {{tasks: 3}}
"""


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (
            "{plan: fapt, roots: 9}",
            "x.yaml:3: scheme.roots: 9: expected 1 to the number of sites, 5",
        ),
        ("{plan: bkt, k: 0}", "x.yaml:3: scheme.k: 0: expected 1 or more"),
    ],
)
def test_an_option_that_the_plan_refuses_is_a_problem_of_the_scenario(scheme, said):
    with pytest.raises(ScenarioErrors) as refused:
        parse(SCENARIO.format(scheme=scheme), "x.yaml")
    assert str(refused.value) == said


def test_every_plan_is_rehearsed_without_complaint():
    for plan in registry.plans():
        parse(SCENARIO.format(scheme=f"{{plan: {plan}, p: 3}}"), "x.yaml")


@pytest.mark.parametrize(
    ("scheme", "group"),
    [("{p: 2}", ("n1", "n2")), ("{policy: bsp}", ("n1", "n2", "n3", "n4", "n5"))],
)
def test_the_sample_group_is_the_first_that_the_policy_makes(scheme, group):
    assert first_group(parse(SCENARIO.format(scheme=scheme), "x.yaml")) == group


LATER = """
from trunkline.policy import Ready, Tick, Wake, average

class Later:
    timed = True
    initial = ()

    def step(self, ready, event):
        match event:
            case Ready(site):
                return (*ready, site), (Wake(event.at_s + 1.0),)
            case Tick():
                return (), (average(ready),)
        return ready, ()

def create(sites):
    return Later()
"""


def test_the_sample_group_of_a_policy_that_knows_time_may_begin_at_a_tick(tmp_path):
    (tmp_path / "later.py").write_text(LATER)
    (tmp_path / "x.yaml").write_text(SCENARIO.format(scheme="{policy: later.py}"))
    assert first_group(load(tmp_path / "x.yaml")) == ("n1", "n2", "n3", "n4", "n5")
