"""Which halves of a sender are combined, and which cases are chosen."""

from dataclasses import replace
from pathlib import Path

import against_ns3
import crosscheck
import pytest
import sender_halves
from crosscheck_results import NS3, OWN_TCP, UNPACED, Case, Store
from run_result import Result

FOLDER = crosscheck.CASES.parent
PAIR = Case("pair", FOLDER / "pair.yaml", 1, 1, (NS3, OWN_TCP), ("topology.rates=20 Mbit/s",))
RENO = replace(PAIR, name="reno", changes=("network.congestion_control=reno",))


def make(*tasks_s: float) -> Result:
    return Result("pass", tasks_s, 1000, 0)


def test_cases_that_differ_are_chosen(tmp_path):
    store = Store(tmp_path)
    for case, later_s in ((PAIR, 1.04), (RENO, 0.9)):
        store.write(case, 1, UNPACED, make(2.0, 1.0))
        store.write(case, 1, OWN_TCP, make(2.0, later_s))
    missing = replace(PAIR, name="missing")
    found = [*sender_halves.choose(iter((PAIR, RENO, missing)), store, 5.0)]
    assert [(case.name, ours.tasks_s) for case, ours in found] == [("reno", (2.0, 1.0))]


@pytest.mark.parametrize(
    ("case", "controls"),
    [
        (PAIR, ("ns3::CubicOfLinux", "ns3::TcpCubic")),
        (RENO, ("ns3::RenoOfLinux", "ns3::TcpLinuxReno")),
    ],
)
def test_each_half_is_simulated_with_each_other_half(case, controls, monkeypatch):
    done = []

    def simulate(scenario, program, attributes, tcp):
        done.append((*attributes.values(), tcp))
        return against_ns3.Simulated((2.2, 0.5 * len(done)), 1000, 0)

    monkeypatch.setattr(against_ns3, "build", lambda cache: Path("program"))
    monkeypatch.setattr(against_ns3, "simulate", simulate)
    assert sender_halves.write_row(case, make(2.0, 1.0)) == [
        f"`{case.name}`", "+10.0 | -50.0", "+10.0 | +0.0", "+10.0 | +50.0", "+10.0 | +100.0"
    ]  # fmt: skip
    linux, own = controls
    assert done == [(linux, "linux"), (own, "linux"), (linux, "ns3"), (own, "ns3")]
