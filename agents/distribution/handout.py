"""How a model gets from the server to the workers of racks, as a value (pure).

All racks are alike. If they do not help each other, one of them stands for all, and its workers are
numbered from 0. A hand-out across racks has the workers of all racks, rack after rack.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trunkline.workloads.layered.model import LayeredModel

SERVER = -1
"""The source of transfers that come from the server."""


class HandoutError(ValueError):
    """A hand-out that breaks a constraint; the text names the transfer or worker."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Branches that go from a worker, or the SERVER, to another worker, all in one message."""

    source: int
    target: int
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Handout:
    """Transfers in one rack, or in all of them; every link sends its own in this order."""

    workers: int
    transfers: tuple[Transfer, ...]


Link = tuple[str, int]
"""A link: its kind, and the number of its worker or rack."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Racks of workers and a server.

    A rack receives from outside at one rate, however many of its workers ask (OWL, equation 14).
    In a rack, each worker sends and receives at the rate within racks, at the same time. Between
    racks, a rack sends and receives at the rate of its link (equation 7).

    Attributes:
        racks: how many racks there are.
        workers: how many workers each rack has.
        intra_mbps: the rate within a rack, B_intra.
        inter_mbps: the rate of the link into a rack, B_inter.
        server_mbps: the rate of the server's uplink, which the racks share; None if it is no limit,
            as in OWL's equations.
        startup_s: the time that a message takes besides its bytes.
    """

    racks: int
    workers: int
    intra_mbps: float
    inter_mbps: float
    server_mbps: float | None = None
    startup_s: float = 0.0

    @property
    def inlet_mbps(self) -> float:
        """The rate at which a rack receives from the server while all racks do."""
        if self.server_mbps is None:
            return self.inter_mbps
        return min(self.inter_mbps, self.server_mbps / self.racks)

    def find_links(self, transfer: Transfer, *, across: bool) -> dict[Link, float]:
        """The links that a transfer takes, with their rates in Mbit/s.

        `across` tells whether the hand-out has the workers of all racks.
        """
        source, target = transfer.source, transfer.target
        if not across:
            if source == SERVER:
                return {("inlet", 0): self.inlet_mbps}
            return {("sends", source): self.intra_mbps, ("receives", target): self.intra_mbps}
        into = ("inlet", target // self.workers)
        if source == SERVER:
            uplink = {} if self.server_mbps is None else {("uplink", 0): self.server_mbps}
            return uplink | {into: self.inter_mbps}
        found: dict[Link, float] = {("sends", source): self.intra_mbps}
        if source // self.workers != target // self.workers:
            found |= {("outlet", source // self.workers): self.inter_mbps, into: self.inter_mbps}
        return found | {("receives", target): self.intra_mbps}


def check(model: LayeredModel, handout: Handout) -> None:
    """Check OWL's constraints on the order of the transfers. Raises HandoutError.

    - Every worker gets every branch exactly once.
    - What comes from the server covers the model (8).
    - A worker passes on only branches that it has received (9).
    - A worker gets the bases in the order in which it computes them, so that the fetch of a group
      overlaps with the computation of the groups before (11).
    """
    everything = set(range(len(model.branches)))
    held: dict[int, set[int]] = {worker: set() for worker in range(handout.workers)}
    last = Counter[int]()
    held[SERVER] = set(everything)
    from_server: set[int] = set()
    for transfer in handout.transfers:
        branches = set(transfer.branches)
        if not branches <= held[transfer.source]:
            raise HandoutError(f"{transfer}: the source has not received all of it (9)")
        if branches & held[transfer.target] or len(branches) < len(transfer.branches):
            raise HandoutError(f"{transfer}: a worker gets a branch twice")
        bases = [model.base_of[branch] for branch in transfer.branches]
        if min(bases) < last[transfer.target]:
            raise HandoutError(f"{transfer}: a later base came before it (11)")
        last[transfer.target] = max(bases)
        held[transfer.target] |= branches
        if transfer.source == SERVER:
            from_server |= branches
    if from_server != everything:
        raise HandoutError(
            f"branches {sorted(everything - from_server)} never leave the server (8)"
        )
    for worker, branches in held.items():
        if branches != everything:
            raise HandoutError(f"worker {worker} misses branches {sorted(everything - branches)}")
