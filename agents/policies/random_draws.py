"""Policies that draw random numbers, and stay pure state machines (pure).

A policy asks for a generator by the parameter `rng` of its `create`. Here, every step seeds this
generator anew, from the seed and the number of the step, which is part of the state. So a step
still depends on its state and its event alone, and can be replayed.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.agents.policies.policy import Decision, Event, Policy

RNG, SERVERS = "rng", "servers"
"""The parameters by which `create` asks for a generator, and for the names of the servers."""


def uses_servers(create: Callable[..., Policy]) -> bool:
    """Whether the policies that `create` creates need servers."""
    return SERVERS in inspect.signature(create).parameters


def create_policy(
    create: Callable[..., Policy],
    sites: tuple[str, ...],
    options: Mapping[str, Any],
    seed: str,
    servers: tuple[str, ...] = (),
) -> Policy:
    """Create a policy for these workers, with a generator seeded by `seed` if it asks for one.

    A policy that asks for `servers` gets their names; they are not among the `sites`.
    Raises what `create` raises.
    """
    given = {SERVERS: servers} if uses_servers(create) else {}
    if RNG not in inspect.signature(create).parameters:
        return create(sites, **given, **options)
    rng = random.Random(seed)
    return Drawing(create(sites, rng=rng, **given, **options), rng, seed)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A policy that draws from `rng` in its steps; a state is the step's number and its own state.

    What the policy draws must not change its results later: it keeps the drawn values in its state.
    """

    policy: Policy
    rng: random.Random
    seed: str

    @property
    def initial(self) -> tuple[int, Any]:
        return 0, self.policy.initial

    def __getattr__(self, name: str) -> Any:
        """What the policy declares about itself (`Traits`)."""
        return getattr(self.policy, name)

    def step(
        self, state: tuple[int, Any], event: Event
    ) -> tuple[tuple[int, Any], tuple[Decision, ...]]:
        number, own = state
        self.rng.seed(f"{self.seed} {number}")
        own, decisions = self.policy.step(own, event)
        return (number + 1, own), decisions
