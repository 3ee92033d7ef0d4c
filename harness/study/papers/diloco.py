"""DiLoCo (Douillard et al., arXiv 2311.08105): which share of the time do sites compute?

The model is that of Charles et al. (Scaling Laws for DiLoCo, arXiv 2503.09799, appendix A): the
average over R sites of a model of N bytes takes 2 N / W (1 - 1/R) + epsilon, at the bandwidth W and
the latency epsilon. Figure 4 of Streaming DiLoCo (arXiv 2501.18512) draws what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.scenario.settings import Scenario
from trunkline.harness.study.papers import Figure
from trunkline.workloads import compute_time

SCENARIO = "gallery/diloco_steps.yaml"

MODEL_BYTES = 4 * (500 * 500 + 500)
"""The parameters of `scenarios/programs/diloco_steps.py`."""


def predict(scenario: Scenario) -> Mapping[str, float]:
    """The utilization by the model, with the lowest rate and the longest delay of a link."""
    options, topology = scenario.workload.options, scenario.topology
    sites = len(topology.sites)
    steps_s = int(options["env"]["INNER_STEPS"]) * compute_time.median_s(options["compute_s"])
    bandwidth_bps = min(topology.rates_mbps().values()) * 1e6
    latency_s = max(topology.delays_ms().values()) / 1e3
    average_s = 2 * 8 * MODEL_BYTES / bandwidth_bps * (1 - 1 / sites) + latency_s
    return {"computing_percent": 100 * steps_s / (steps_s + average_s)}


_STEPS = "workload.env.INNER_STEPS=1,5,20,100"

FIGURES: Mapping[str, Figure] = {
    "utilization-rate": Figure(
        "the more inner steps, the less bandwidth keeps sites computing",
        SCENARIO,
        (_STEPS, "topology.rates=2 Mbit/s,10 Mbit/s,50 Mbit/s,250 Mbit/s"),
        "computing_percent",
        predict,
    ),
    "utilization-rtt": Figure(
        "the latency counts once for each average, so it hardly matters",
        SCENARIO,
        ("topology.rates=50 Mbit/s", _STEPS, "topology.delays=5 ms,25 ms,50 ms,150 ms"),
        "computing_percent",
        predict,
    ),
}
