"""Which faults came before the failure of a program, whose own words only name its peer (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from trunkline.harness.checks.programs.lifecycle_checks import list_failures
from trunkline.harness.config.units import count_of
from trunkline.harness.network.interface import site_address
from trunkline.harness.record.history import Disturbance, History
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads.program_roles import site_of

BREAKING = ("availability", "flap", "isolate", "kill", "leave", "outage", "partition", "pause")
"""The faults that stop programs or cut links."""

NAMED = 3
"""The most faults that are named: the last ones."""


def name_faults_before_failure(history: History, scenario: Scenario) -> Iterator[str]:
    """A sentence for each of the last faults that stopped or cut something before the failure."""
    failures = list_failures(history, scenario.programs)
    if not failures:
        return
    first = min(failures, key=lambda event: event.t_ns)
    before = [
        fault
        for fault in history.faults
        if fault.started.verb in BREAKING and fault.started.t_ns <= first.t_ns
    ]
    if left := before[:-NAMED]:
        yield f"{count_of(len(left), 'other fault')} began before {first.who} failed."
    for fault in before[-NAMED:]:
        text = f"Fault {fault.started.fault} ({fault.started.text}) began at"
        when = f"{fault.started.t_ns / 1e9:.3f} s, before {first.who} failed at"
        yield f"{text} {when} {first.t_ns / 1e9:.3f} s.{_name_address(fault, scenario)}"


def _name_address(fault: Disturbance, scenario: Scenario) -> str:
    """The address of the site that a fault stopped: programs name their peers so."""
    targets = {site_of(target) for target in fault.started.targets if " -> " not in target}
    topology = scenario.topology
    stopped = [site for site in topology.site_names if site in targets]
    said = (f" The address of {each} is {site_address(topology.rank(each))}." for each in stopped)
    return "".join(said) if len(stopped) == 1 else ""
