"""What takes virtual time at the sites of programs, as a scenario says it."""

import pytest

from trunkline.harness.config.document import ScenarioErrors
from trunkline.harness.scenario.loading import parse
from trunkline.workloads.site_time import POLL_S, POLLS, SiteTime, place

SCENARIO = """
name: mine
clock: CLOCK
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh], KEYS}
"""


def test_without_keys_computing_is_free_and_only_long_polling_takes_time() -> None:
    assert place("n1", {}, None) == SiteTime(0.0, 1, POLL_S, POLLS)


def test_a_site_has_its_own_factor_and_cores() -> None:
    charge = {"factor": 0.5, "n2": {"factor": 2.0, "cores": 4}, "n3": {"cores": 2}}
    found = [place(site, charge, None) for site in ("n1", "n2", "n3")]
    assert [(each.factor, each.cores) for each in found] == [(0.5, 1), (2.0, 4), (0.5, 2)]


def test_a_time_of_polls_holds_from_the_first_one_on() -> None:
    assert (place("n1", {}, 5e-6).poll_s, place("n1", {}, 5e-6).polls) == (5e-6, 1)
    assert place("n1", {}, 0.0).poll_s == 0


@pytest.mark.parametrize(
    ("charge", "mode"), [({"factor": 1.0}, "measure"), ({"record": True}, "record"),
                         ({"replay": "x"}, "replay")],
)  # fmt: skip
def test_charges_are_measured_kept_or_those_of_another_run(charge: dict, mode: str) -> None:
    assert place("n1", charge, None).mode == mode


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("charge: {factor: -1}", "charge.factor: -1: expected a number above 0"),
        ("charge: {cores: 1.5}", "charge.cores: 1.5: expected a whole number from 1 to 64"),
        ("charge: {n9: {factor: 1}}", "expected factor, cores, record, replay, n1, n2"),
        ("charge: {n1: {speed: 1}}", "charge.n1.speed: 1: expected factor or cores"),
        ("charge: {n1: 2}", "charge.n1: 2: expected a mapping with factor, cores or both"),
        ("charge: {record: 1}", "charge.record: 1: expected true or false"),
        ("charge: {record: true, replay: x}", "charge.record: true: expected false with"),
        ("poll: 2 s", "workload.poll: 2 s: expected 0 s to 1 s"),
    ],
)
def test_wrong_values_are_named(keys: str, problem: str) -> None:
    with pytest.raises(ScenarioErrors) as found:
        parse(SCENARIO.replace("CLOCK", "virtual").replace("KEYS", keys), "x.yaml")
    assert problem in str(found.value)


@pytest.mark.parametrize("keys", ["charge: {factor: 1}", "poll: 20 us"])
def test_a_real_clock_charges_nothing(keys: str) -> None:
    with pytest.raises(ScenarioErrors, match="only with a virtual clock"):
        parse(SCENARIO.replace("CLOCK", "real").replace("KEYS", keys), "x.yaml")
