"""IPART: as `overlap`, with consecutive branches packed into one message (OWL, baseline).

A pack saves start-up times of messages. Connections of an emulated network have none, except for a
chunk's header, so `startup_s` is what the packs are made for.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from trunkline.agents.distribution import baselines
from trunkline.agents.distribution.handout import Cluster, Handout
from trunkline.agents.distribution.handout_plan import find_racks, make_plan, measure_cluster
from trunkline.agents.planning.plan import Plan, PlanRequest
from trunkline.agents.plans.ps import find_shards
from trunkline.workloads.layered.model import LayeredModel


def build(
    request: PlanRequest, *, startup_s: Annotated[float, Field(ge=0, lt=3600)] = 2e-4
) -> Plan:
    """A block for each pack, which is a whole message: two stars around the server.

    Options:
        startup_s: the time that a message is taken to need besides its bytes, 0 or more.
    """
    held = find_shards(request)
    if not find_racks(request, held):
        return make_plan(request, held, lambda model, workers: Handout(workers, ()), whole=True)
    cluster = replace(measure_cluster(request, held), startup_s=startup_s)

    def make(model: LayeredModel, workers: int) -> Handout:
        packs = dict.fromkeys(transfer.branches for transfer in _pack(model, cluster).transfers)
        return baselines.pull(workers, list(packs))

    return make_plan(request, held, make, whole=True)


@functools.lru_cache(maxsize=64)  # every task asks
def _pack(model: LayeredModel, cluster: Cluster) -> Handout:
    return baselines.ipart(model, cluster)
