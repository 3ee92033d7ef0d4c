"""For your own policies: events, decisions, weights, and a policy to build on.

A policy file has `create(sites: tuple[str, ...], *, <options>) -> Policy`. A policy that draws
random numbers asks for a generator: `create(sites, *, rng: random.Random, <options>)`.
"""

from trunkline.agents.policies.policy import (
    Decision,
    Ended,
    Event,
    Joined,
    Left,
    Lost,
    Policy,
    Proceed,
    Ready,
    Start,
    Tick,
    Wake,
    average,
    weighted,
)
from trunkline.agents.policies.preduce import PartialReduce

__all__ = [
    "Decision",
    "Ended",
    "Event",
    "Joined",
    "Left",
    "Lost",
    "PartialReduce",
    "Policy",
    "Proceed",
    "Ready",
    "Start",
    "Tick",
    "Wake",
    "average",
    "weighted",
]
