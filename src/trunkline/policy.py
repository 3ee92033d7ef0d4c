"""For your own policies: events, decisions, weights, and a policy to build on.

A policy file has `create(sites: tuple[str, ...], *, <options>) -> Policy`. A policy that draws
random numbers asks for a generator: `create(sites, *, rng: random.Random, <options>)`. A policy
with parameter servers asks for their names: `create(sites, *, servers: tuple[str, ...])`.
"""

from trunkline.agents.policies.policy import (
    Compared,
    Decision,
    Ended,
    Event,
    Exclude,
    Joined,
    Left,
    Lost,
    Policy,
    Proceed,
    Ready,
    Start,
    Tick,
    Traits,
    Wake,
    average,
    weighted,
)
from trunkline.agents.policies.preduce import PartialReduce
from trunkline.agents.policies.push_pull import Sides

__all__ = [
    "Compared",
    "Decision",
    "Ended",
    "Event",
    "Exclude",
    "Joined",
    "Left",
    "Lost",
    "PartialReduce",
    "Policy",
    "Proceed",
    "Ready",
    "Sides",
    "Start",
    "Tick",
    "Traits",
    "Wake",
    "average",
    "weighted",
]
