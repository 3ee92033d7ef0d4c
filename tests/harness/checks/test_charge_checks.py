"""Charges in logs that are right, and in logs that cannot be."""

from dataclasses import replace

import pytest

from trunkline.agents.events.run_events import SiteTotals, TimeCharged
from trunkline.harness.checks.programs.charge_checks import computing_is_charged
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Check
from trunkline.harness.record.charges import Noise
from trunkline.harness.record.history import History
from trunkline.harness.scenario.loading import parse

SCENARIO = """
name: mine
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh], charge: {factor: 0.5, n2: {factor: 2}}}
"""
RIGHT = (
    SiteTotals("n1", 2_000_001, 1_000_000, 0, 7, 0),
    SiteTotals("n2", 2_000_000, 4_000_000, 0, 7, 0),
)


def judge(*sites: SiteTotals, scenario: str = SCENARIO) -> Check:
    events = [TimeCharged(9, "runner", sites, (10, 10, 11))] if sites else []
    return Check.of(
        "", "sites", computing_is_charged(History.of(events), Rules(parse(scenario, "x.yaml")))
    )


def test_charges_by_the_factors_of_sites_pass() -> None:
    assert (judge(*RIGHT).outcome, judge(*RIGHT).judged) == ("pass", 2)


def test_without_charges_there_is_nothing_to_judge() -> None:
    scenario = SCENARIO.replace(", charge: {factor: 0.5, n2: {factor: 2}}", "")
    assert judge(*RIGHT, scenario=scenario).outcome == "none"


def test_sites_are_charged_whatever_the_roles_of_their_programs() -> None:
    roles = "programs: {server: {sites: [n1], command: [sh]}, client: {command: [sh]}}"
    found = judge(*RIGHT, scenario=SCENARIO.replace("command: [sh]", roles, 1))
    assert (found.outcome, found.judged) == ("pass", 2)


@pytest.mark.parametrize("wrong_ns", [3_900_000, 4_100_000])
def test_another_charge_than_the_factor_says_fails(wrong_ns: int) -> None:
    found = judge(RIGHT[0], replace(RIGHT[1], charged_ns=wrong_ns))
    assert (found.outcome, "n2 was charged" in found.detail) == ("fail", True)


def test_a_site_that_was_not_charged_proves_nothing() -> None:
    assert judge(RIGHT[0]).outcome == judge().outcome == "unknown"


def test_the_noise_is_that_of_nine_samples_of_ten() -> None:
    noise = Noise.of([10_000_000] * 9 + [11_000_000] * 2)
    assert noise is not None
    assert noise.percent == pytest.approx(10.0)
    assert Noise.of([1]) is None
