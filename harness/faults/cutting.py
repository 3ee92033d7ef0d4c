"""Which faults can cut a site off from the controller (pure)."""

from __future__ import annotations

from itertools import pairwise

from trunkline.harness.faults.fault_types import (
    Churn,
    Fault,
    Flap,
    Isolate,
    Kill,
    Outage,
    Partition,
    Pause,
)
from trunkline.harness.faults.recorded.recorded_faults import Availability, Trace
from trunkline.topologies.model import Topology


def can_cut_off(fault: Fault, topology: Topology, controller_site: str) -> bool:
    """Whether a site can lose the controller because of the fault; routes are static."""
    match fault:
        case Isolate() | Availability() | Partition() | Kill("controller") | Pause("controller"):
            return True
        case Churn():
            return any((fault.outages_s, fault.oneways_s, fault.controller_s))
        case Trace() if not fault.has_outages:
            return False
        case Outage(a, b) | Flap(a, b) | Trace(a, b):
            others = (site for site in topology.site_names if site != controller_site)
            return any(
                {a, b} == {*hop}
                for site in others
                for ends in ((controller_site, site), (site, controller_site))
                for hop in pairwise(topology.path(*ends))
            )
    return False
