"""torchft: on which network is a timeout long enough? Each panel is a map of the safe region."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.comparison import EXPECTATIONS
from trunkline.harness.study.papers import Figure

SCENARIO = "gallery/torchft_timeouts.yaml"
_TIMEOUTS = "workload.env.TIMEOUT=1,2,5,10"

FIGURES: Mapping[str, Figure] = {
    "timeouts-rtt": Figure(
        "which timeout of an averaging breaks at which round-trip time",
        SCENARIO,
        ("timeline=[]", _TIMEOUTS, "topology.delays=5 ms,50 ms,150 ms,300 ms"),
        EXPECTATIONS,
    ),
    "timeouts-rate": Figure(
        "which timeout of an averaging breaks at which rate",
        SCENARIO,
        ("timeline=[]", _TIMEOUTS, "topology.rates=2 Mbit/s,5 Mbit/s,10 Mbit/s,50 Mbit/s"),
        EXPECTATIONS,
    ),
    "timeouts-outage": Figure(
        "which timeout of an averaging breaks at an outage of which length",
        SCENARIO,
        (
            _TIMEOUTS,
            "timeline[0].do=isolate n2 for 0.5 s,isolate n2 for 1.5 s,isolate n2 for 4 s,"
            "isolate n2 for 8 s",
        ),
        EXPECTATIONS,
    ),
}
