"""What the timeline of faults has others do, as values: the steps of faults (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trunkline.harness.faults.fault_types import Fault
from trunkline.harness.network.interface import Cut
from trunkline.topologies.links import Link


@dataclass(frozen=True, slots=True)
class Began:
    """Step: a fault begins; `targets` are links (`a -> b`), agents or programs.

    They are empty if all links are.
    """

    number: int
    fault: Fault
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Step: a fault is over."""

    number: int


@dataclass(frozen=True, slots=True)
class LinkStep:
    """Step: a directed link changes its values and cuts."""

    before: Link
    after: Link
    cuts_before: frozenset[Cut]
    cuts_after: frozenset[Cut]


AgentChange = Literal["kill", "leave", "restart", "pause", "resume"]


@dataclass(frozen=True, slots=True)
class AgentStep:
    """Step: the fault of this number changes an agent or a program."""

    who: str
    do: AgentChange
    number: int


FaultStep = Began | Ended | LinkStep | AgentStep
