"""Sites ask their servers for the time, and measure their links: a log that cannot be is noticed.

Links of the run of three sites have 10 ms of delay, and its controller is at oslo.
"""

from dataclasses import replace

import pytest
from hand_made import THREE_SITES, change
from three_sites import Change, added, altered, changed, history, without

from trunkline.harness.checks.control_paths import Paths
from trunkline.harness.checks.protocol.measurement_checks import measurements_fit
from trunkline.harness.checks.rules import Rules
from trunkline.harness.scenario.scheme_settings import Awareness

PLAIN = Rules(THREE_SITES, timeout_s=0.02)
AWARE = Awareness(probe_chunk_bytes=125_000)
RULES = change(PLAIN, scheme=replace(THREE_SITES.scheme, awareness=AWARE))


def asked(t_ms: float, site: str, server: str, delay_ms: float, before_ns: int | None) -> Change:
    times = {"delay_ms": delay_ms, "correction_ns": 5, "before_ns": before_ns}
    return added(t_ms, site, "clock_synchronized", server=server, controller=0, **times)


SERVERS = {"rome": "controller", "kyiv": "rome"}
RATE = {"rate_mbps": 7.5, "chunks": 4, "bytes": 1_000_000, "least_delay_ms": 10.0}
GOOD = [
    added(20, "controller", "time_served", servers=SERVERS),
    asked(60, "rome", "controller", 20.0, None),
    asked(90, "rome", "controller", 31.0, 5),
    asked(100, "kyiv", "rome", 20.1, None),
    added(150, "rome", "rate_measured", src="kyiv", dst="rome", **RATE),
]


def judge(*more: Change, rules: Rules = RULES) -> list[str]:
    """What the check finds wrong."""
    found = history(*GOOD, *more)
    findings = measurements_fit(found, rules, Paths(found, rules))
    return [each.text for each in findings if each.outcome == "fail"]


def test_clocks_and_rates_of_a_real_run_are_right():
    assert judge() == []
    again = [changed(200, "kyiv", "kill"), asked(250, "kyiv", "rome", 20.1, None)]
    assert judge(*again) == []  # another process


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (
            "kyiv asked rome for the time at 0.100 s, not its server",
            altered("time_served", {"servers": {"rome": "controller"}}),
        ),
        (
            "rome asked controller for the time at 0.060 s, not its server",
            altered("time_served", {"t_ns": 61_000_000}),
        ),
        (
            "rome at 0.060 s: its clock had not been corrected before",
            altered("clock_synchronized", {"before_ns": 1}, t_ns=60_000_000),
        ),
        (
            "rome at 0.090 s: its clock had not been corrected before",
            without("clock_synchronized", t_ns=60_000_000),
        ),
        (
            "rome at 0.090 s: its clock had been corrected before",
            altered("clock_synchronized", {"before_ns": None}, t_ns=90_000_000),
        ),
        (
            "kyiv had the time at 0.100 s after 19 ms",
            altered("clock_synchronized", {"delay_ms": 19.0}, site="kyiv"),
        ),
        (
            "kyiv at 0.150 s: kyiv -> rome is no link that it measures",
            altered("rate_measured", {"site": "kyiv"}),
        ),
        (
            "rome at 0.150 s: kyiv -> rome cannot have -1 Mbit/s",
            altered("rate_measured", {"rate_mbps": -1.0}),
        ),
        (
            "rome at 0.150 s: kyiv -> rome was measured by 3 chunks of 1000000 bytes",
            altered("rate_measured", {"chunks": 3}),
        ),
        (
            "rome at 0.150 s: kyiv -> rome was measured by 4 chunks of 1000001 bytes",
            altered("rate_measured", {"bytes": 1_000_001}),
        ),
        (
            "rome at 0.150 s: kyiv -> rome was measured by 9 chunks of 2000000 bytes",
            altered("rate_measured", {"chunks": 9, "bytes": 2_000_000}),
        ),
    ],
)
def test_measurements_that_cannot_be_are_named(said, wrong):
    assert said in judge(wrong)


def test_sites_measure_nothing_without_awareness():
    said = "sites measured clocks or rates, which the scenario does not ask for"
    assert judge(rules=PLAIN) == [said]
