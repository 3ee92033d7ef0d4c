"""The events of policies whose decisions depend on more than the rest of the log shows (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trunkline.agents.events.event import By, Count, Event


@dataclass(frozen=True, slots=True)
class PolicyBegan(Event, by=By.CONTROLLER):
    """The controller's policy begins in the initial state; random numbers depend on the `term`."""

    term: Count


@dataclass(frozen=True, slots=True)
class PolicyTold(Event, by=By.CONTROLLER):
    """The controller's policy gets an event of the type `told`, with these values.

    What the controller logs next, until the next `PolicyTold`, may be the policy's answer.
    """

    told: str
    values: Mapping[str, Any]
