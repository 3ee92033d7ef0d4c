"""The values of a scheme: policy, plan, and how chunks move by them (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from trunkline.agents.planning.auxiliary_paths import Bounds

Count = Annotated[int, Field(ge=1)]
Duration = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Component:
    """An extension, and the values of all of its options.

    Two components are equal if their names and options are equal.

    Attributes:
        kind: the name of its file.
        options: the values by their Python names.
        module: the module of its file.
    """

    kind: str
    options: Mapping[str, Any]
    module: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Awareness:
    """How sites measure their links by the chunks that cross them (NetStorm, Section V).

    Options:
        estimator: the formula from chunks to a rate; see docs/awareness.md.
        probe_chunk_bytes: only larger chunks are measured; by default half of the scheme's chunk.
        probe_count: the number of chunks from which one rate is computed.
        sync_s: the interval at which each site asks for the time.
        sync_roots: the number of sites that ask the controller for the time, those with the best
            connections; the others ask a site that is nearer.
    """

    estimator: Literal["one_way_min_delay", "one_way", "round_trip"] = "one_way_min_delay"
    probe_chunk_bytes: int | None = None
    probe_count: Count = 4
    sync_s: Duration | Literal["off"] = 1.0
    sync_roots: Count = 1


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """Chunks may take auxiliary paths (NetStorm, Section VI).

    Options:
        busy_bound: the primary path is busy with more chunks than this; others take an auxiliary
            path.
        queue_length: the most chunks on an auxiliary path.
    """

    busy_bound: Annotated[int, Field(ge=0)] = 2
    queue_length: Count = 1

    @property
    def bounds(self) -> Bounds:
        """The bounds in the form that agents use."""
        return Bounds(self.busy_bound, self.queue_length)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Who synchronizes with whom (policy), how the bytes move (plan), and common options.

    Options:
        policy: who synchronizes with whom, and when.
        plan: how the bytes of one synchronization move.
        chunk_bytes: the unit of transfer and of addition; by default no more than the model.
        discipline: the order in which a link serves its flows.
        scatter: with `non-blocking`, a ready site sends by the plan's default split before its
            group is known.
        rate_error_percent: the largest error of the rates that plans are built from.
        rates: the rates that plans are built from; with `measured`, a link that is not measured yet
            has its configured rate; with `exact`, plans learn at every update what the timeline has
            set.
        awareness: how sites measure their links; without it, or with `null`, they do so only if
            plans use measured rates.
        update_s: the interval at which plans take over the latest rates.
        update_rate_percent: plans take them over only if a rate has changed by at least this share.
        auxiliary: whether and when chunks may take paths around an edge of the plan; `null` is
            never.
        pipelined: whether aggregators and relays send a block on chunk by chunk; with `false`, they
            send it on when it is whole.
        servers: the sites that compute nothing; if the policy uses servers, they hold the model,
            each of several servers an even share of its chunks, and the default is the first site.
    """

    policy: Component
    plan: Component
    chunk_bytes: int = 256 * 1024
    discipline: Literal["fcfs", "fair", "task-fcfs", "C1", "C2"] = "fcfs"
    scatter: Literal["blocking", "non-blocking"] = "blocking"
    rate_error_percent: Annotated[float, Field(ge=0, lt=100)] = 0.0
    rates: Literal["configured", "measured", "exact"] = "configured"
    awareness: Awareness | None = None
    update_s: Duration = 5.0
    update_rate_percent: Annotated[float, Field(ge=0)] = 0.0
    auxiliary: Auxiliary | None = None
    pipelined: bool = True
    servers: tuple[str, ...] = ()

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of auxiliary paths; None if there are no such paths."""
        return self.auxiliary.bounds if self.auxiliary else None

    @property
    def has_paths(self) -> bool:
        """Whether chunks may take auxiliary paths."""
        return self.auxiliary is not None

    @property
    def sends_early(self) -> bool:
        """Whether sites may send their contributions before they know their task."""
        return self.scatter == "non-blocking"


PROGRAMS = Scheme(Component("program", {}), Component("program", {}), 0)
"""The scheme of a scenario whose sites run programs, which synchronize in their own way."""
