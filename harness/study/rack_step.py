"""One step of workers in racks that compute while parameters arrive, for OWL's figures.

Defaults are those of OWL's testbed (section 6.1). The paper gives neither batch nor start-up time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from trunkline.agents.distribution import baselines, owl
from trunkline.agents.distribution.grouping import group_evenly, group_randomly
from trunkline.agents.distribution.handout import Cluster, Handout
from trunkline.agents.distribution.step import compute_forward_end
from trunkline.workloads.layered.model import LayeredModel, load

Count = Annotated[int, Field(ge=1, le=1000)]
Rate = Annotated[float, Field(gt=0)]
Time = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Racks:
    """Racks of workers, and a server outside of them.

    Options:
        racks: the number of racks.
        sites_per_rack: the workers of each rack.
        intra_rate_mbps: the rate within a rack, B_intra.
        alpha: B_inter / B_intra; B_inter is the rate of the link into a rack.
        server_rate_mbps: the rate of the server's uplink, which the racks share; by default it is
            no limit, as in the equations of the paper.
        startup_s: the time that a message takes besides its bytes.
    """

    racks: Count = 50
    sites_per_rack: Count = 2
    intra_rate_mbps: Rate = 10_000.0
    alpha: Rate = 0.5
    server_rate_mbps: Rate | None = None
    startup_s: Time = 2e-4


@dataclass(frozen=True, slots=True)
class Layered:
    """What workers compute.

    Options:
        model: a table of `workloads/layered/data`.
        batch: the samples of a step.
    """

    model: Literal["densenet-121", "dfn", "inception-v4", "vgg-19"] = "inception-v4"
    batch: Count = 128


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the model gets to the workers.

    Options:
        plan: OWL, a variant of it, or a baseline. In `owl-across` racks help each other. `oos` is a
            bound of hand-outs in which each rack receives from the server alone, and `oos-across`
            of all.
        push_s: the time of push and update, the same for every plan.
    """

    plan: Literal[
        "owl",
        "owl-predicted",
        "owl-decentralized",
        "owl-across",
        "owl-a",
        "owl-a-uneven",
        "owl-b",
        "naive",
        "overlap",
        "ipart",
        "oos",
        "oos-across",
    ] = "owl"
    push_s: Time = 0.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One step."""

    topology: Racks = Racks()
    workload: Layered = Layered()
    scheme: Distribution = Distribution()


def predict(setting: Setting, seed: int) -> dict[str, float]:
    """The time of the step in seconds, and the share in which its last worker waits in percent.

    The step is forward, backward, push and update. Only `owl-b` depends on the seed.
    """
    model = load(setting.workload.model).scaled(setting.workload.batch)
    forward_s = _compute_forward_end(setting, model, random.Random(seed))
    update_s = forward_s + model.backward_s + setting.scheme.push_s
    waiting_percent = 100 * (forward_s - model.forward_s) / update_s
    return {"update_s": update_s, "waiting_percent": max(0.0, waiting_percent)}


def _compute_forward_end(setting: Setting, model: LayeredModel, rng: random.Random) -> float:
    racks = setting.topology
    cluster = Cluster(
        racks=racks.racks,
        workers=racks.sites_per_rack,
        intra_mbps=racks.intra_rate_mbps,
        inter_mbps=racks.alpha * racks.intra_rate_mbps,
        server_mbps=racks.server_rate_mbps,
        startup_s=racks.startup_s,
    )
    if setting.scheme.plan in ("oos", "oos-across"):
        return baselines.compute_bound(model, cluster, across=setting.scheme.plan == "oos-across")
    makers: Mapping[str, Callable[[LayeredModel, Cluster], Handout]] = {
        "owl": owl.deploy,
        "owl-predicted": owl.deploy_by_prediction,
        "owl-decentralized": partial(owl.deploy, deployment=owl.decentralize),
        "owl-across": owl.deploy_across,
        "owl-a": partial(_deploy_all_groups, deployment=owl.unbalance),
        "owl-a-uneven": partial(_deploy_all_groups, deployment=owl.centralize_unevenly),
        "owl-b": partial(owl.deploy, grouping=partial(group_randomly, rng)),
        "naive": baselines.naive,
        "overlap": baselines.overlap,
        "ipart": baselines.ipart,
    }
    return compute_forward_end(model, makers[setting.scheme.plan](model, cluster), cluster)


def _deploy_all_groups(
    model: LayeredModel, cluster: Cluster, deployment: owl.Deployment
) -> Handout:
    """OWL-A: as many groups as there may be, and no deploying algorithm."""
    count = owl.count_groups(model, cluster.workers)[-1]
    return owl.build(model, cluster.workers, count, group_evenly, deployment)
