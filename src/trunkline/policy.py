"""For your own policies: events, decisions, weights, and a policy to build on.

A policy file has `create(sites: tuple[str, ...], *, <options>) -> Policy`.
"""

from trunkline.agents.policies.policy import (
    Decision,
    Event,
    Joined,
    Left,
    Lost,
    Policy,
    Ready,
    Release,
    Start,
    average,
    weighted,
)
from trunkline.agents.policies.preduce import PartialReduce

__all__ = [
    "Decision",
    "Event",
    "Joined",
    "Left",
    "Lost",
    "PartialReduce",
    "Policy",
    "Ready",
    "Release",
    "Start",
    "average",
    "weighted",
]
