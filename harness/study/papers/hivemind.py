"""hivemind: on which network is a timeout long enough? Each panel is a map of the safe region."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.comparison import EXPECTATIONS
from trunkline.harness.study.papers import Figure

SCENARIO = "gallery/hivemind_timeouts.yaml"
_AVERAGING = "workload.env.AVERAGING=2,5,15"

FIGURES: Mapping[str, Figure] = {
    "timeouts-rtt": Figure(
        "which time for matchmaking breaks at which round-trip time",
        SCENARIO,
        (
            "timeline=[]",
            "workload.env.AVERAGING=15",
            "workload.env.MATCHMAKING=1,3,6",
            "topology.delays=5 ms,50 ms,150 ms,300 ms",
        ),
        EXPECTATIONS,
    ),
    "timeouts-rate": Figure(
        "which timeout of an averaging breaks at which rate",
        SCENARIO,
        (
            "timeline=[]",
            _AVERAGING,
            "topology.rates=0.5 Mbit/s,1 Mbit/s,2 Mbit/s,10 Mbit/s",
        ),
        EXPECTATIONS,
    ),
    "timeouts-outage": Figure(
        "which timeout of an averaging breaks at an outage of which length",
        SCENARIO,
        (
            _AVERAGING,
            "timeline[0].do=isolate n2 for 0.5 s,isolate n2 for 2 s,isolate n2 for 4 s,"
            "isolate n2 for 8 s",
        ),
        EXPECTATIONS,
    ),
}
