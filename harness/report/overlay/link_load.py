"""The load of every link over time, in equal steps (pure).

The log has the times of a payload's first and last byte on a link. `spreading` says when the bytes
are assumed to be there in between. The loads do not show pauses of TCP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trunkline.agents.events.run_events import LinksCounted, RunFinished
from trunkline.agents.planning.plan import Directed
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions, Spell
from trunkline.harness.report.overlay.spreading import spread
from trunkline.topologies.model import Topology

SLOWED_SHARE = 0.9
"""A link whose rate is below this share of that at the start is slowed."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Per step (row) and link (column): the load, and whether a fault cut or slowed the link.

    This holds if it did so for a part of the step.
    `share` is payload over the bytes that the rate lets pass. It exceeds 1 only by rounding, and is
    0 for a link whose rate was 0 during the whole step. `cuts_s` are the times of the cuts of each
    link that had some. A link is slowed while its rate is below `SLOWED_SHARE` of the first one.
    """

    step_s: float
    links: tuple[Directed, ...]
    share: NDArray[np.float64]
    cut: NDArray[np.bool_]
    slowed: NDArray[np.bool_]
    cuts_s: Mapping[Directed, Sequence[tuple[float, float]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.share)

    def find_mean_when_used(self, least: float) -> list[float]:
        """The mean load of each link in the steps in which it is at least `least`; else 0."""
        used = self.share >= least
        found: list[float] = (
            (self.share * used).sum(axis=0) / np.maximum(used.sum(axis=0), 1)
        ).tolist()
        return found


def compute_loads(history: History, topology: Topology, steps: int, share: float = 1.0) -> Loads:
    """The loads of links in the topology's order, in `steps` until all sites had finished.

    Payload gets `share` of a link's rate.
    """
    links = tuple((link.src, link.dst) for link in topology.links)
    edges_ns = np.linspace(0.0, max(history.active_end_ns, 1), steps + 1)
    moved, room = count_bytes(history, topology, links, edges_ns, share)
    return _make_loads(Conditions.of(history, topology), links, moved, room, edges_ns)


def compute_counted_loads(history: History, topology: Topology, steps: int) -> Loads:
    """The loads of links by the counts of their interfaces, which runs of programs log."""
    links = tuple((link.src, link.dst) for link in topology.links)
    edges_ns = np.linspace(0.0, max(history.active_end_ns, 1), steps + 1)
    conditions = Conditions.of(history, topology)
    moved = count_counted_bytes(history, links, edges_ns)
    room = _count_room(conditions, links, edges_ns)
    return _make_loads(conditions, links, moved, room, edges_ns)


def count_counted_bytes(
    history: History, links: Sequence[Directed], edges_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Per step between two edges (row) and link (column): the bytes that interfaces counted.

    Between two counts the bytes, headers included, are assumed to move evenly.
    """
    times_ns = [0.0]
    whole = [np.zeros(len(links))]
    column = {ends: number for number, ends in enumerate(links)}
    counts: tuple[LinksCounted | RunFinished, ...] = history.all(LinksCounted)
    for event in (*counts, *history.all(RunFinished)):
        now = whole[-1].copy()
        for link in event.links:
            if (link.src, link.dst) in column:
                now[column[link.src, link.dst]] = link.bytes
        times_ns.append(float(event.t_ns))
        whole.append(now)
    at_edges = [np.interp(edges_ns, times_ns, sizes) for sizes in np.array(whole).T]
    moved: NDArray[np.float64] = np.diff(np.array(at_edges).T, axis=0)
    return moved


def count_bytes(
    history: History,
    topology: Topology,
    links: Sequence[Directed],
    edges_ns: NDArray[np.float64],
    share: float = 1.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per step between two edges (row) and link (column): the payload, and what the rate lets pass.

    Both are in bytes. Payload gets `share` of the rate.
    """
    conditions = Conditions.of(history, topology)
    column = {ends: number for number, ends in enumerate(links)}
    moved = np.zeros((len(edges_ns) - 1, len(links)))
    for transfer in conditions.on_links(spread(history, conditions, share)):
        if (transfer.src, transfer.dst) not in column:
            continue
        start_ns, end_ns = transfer.start_ns, max(transfer.end_ns, transfer.start_ns + 1)
        first = max(0, int(np.searchsorted(edges_ns, start_ns, "right")) - 1)
        last = min(len(moved), int(np.searchsorted(edges_ns, end_ns, "left")))
        here = np.clip(edges_ns[first : last + 1], start_ns, end_ns)
        moved[first:last, column[transfer.src, transfer.dst]] += (
            np.diff(here) * transfer.bytes / (end_ns - start_ns)
        )
    return moved, _count_room(conditions, links, edges_ns)


def _count_room(
    conditions: Conditions, links: Sequence[Directed], edges_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Per step and link, the bytes that the rate lets pass."""
    room = np.empty((len(edges_ns) - 1, len(links)))
    for number, ends in enumerate(links):
        spells = conditions.spells[ends]
        rates = [spell.link.rate_mbps / 8e3 for spell in spells]  # bytes per nanosecond
        room[:, number] = _integrate_steps(spells, rates, edges_ns)
    return room


def _make_loads(
    conditions: Conditions,
    links: tuple[Directed, ...],
    moved: NDArray[np.float64],
    room: NDArray[np.float64],
    edges_ns: NDArray[np.float64],
) -> Loads:
    cut, cuts_s = np.zeros(moved.shape, dtype=bool), {}
    slowed = np.zeros(moved.shape, dtype=bool)
    for number, ends in enumerate(links):
        spells = conditions.spells[ends]
        least_mbps = SLOWED_SHARE * spells[0].link.rate_mbps
        if any(slow := [spell.link.rate_mbps < least_mbps for spell in spells]):
            slowed[:, number] = _integrate_steps(spells, list(map(float, slow)), edges_ns) > 0
        if any(spell.is_cut for spell in spells):
            cuts = [float(spell.is_cut) for spell in spells]
            cut[:, number] = _integrate_steps(spells, cuts, edges_ns) > 0
            within = conditions.within(ends, 0, round(edges_ns[-1]))
            cuts_s[ends] = [(a / 1e9, b / 1e9) for spell, a, b in within if spell.is_cut]
    share = np.divide(moved, room, out=np.zeros_like(moved), where=room > 0)
    return Loads(float(edges_ns[1]) / 1e9, links, share, cut, slowed, cuts_s)


def _integrate_steps(
    spells: Sequence[Spell], values: Sequence[float], edges_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Integrate over each step a function of time that has one value per spell."""
    starts_ns = np.array([*(spell.start_ns for spell in spells), edges_ns[-1]], dtype=np.float64)
    starts_ns = np.maximum.accumulate(np.minimum(starts_ns, edges_ns[-1]))
    whole = np.concatenate(([0.0], np.cumsum(np.diff(starts_ns) * np.array(values))))
    return np.diff(np.interp(edges_ns, starts_ns, whole))
