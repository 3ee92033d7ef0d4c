"""Real geo-distributed training traffic over an emulated wide-area network.

Your own files import only from these modules:

    trunkline.topology    a network: `build(rng, *, ...) -> Topology`
    trunkline.plan        how bytes move: `build(request, *, ...) -> Plan`
    trunkline.policy      who synchronizes, when: `create(sites, *, ...) -> Policy`
    trunkline.workload    what sites compute: `build(rank, sites, seed, *, ...) -> Workload`
    trunkline.program     what a program of your own may report to a run

`trunkline.open_run` opens a finished run, for analysis.

The names in these modules are stable. Everything below `trunkline.agents`, `trunkline.harness`,
`trunkline.topologies` and `trunkline.workloads` may move between versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.harness.export.opened_run import Run

__all__ = ["open_run"]


def open_run(path: str | Path) -> Run:
    """Open the folder of a run that has ended, such as `runs/quickstart/latest`.

    `open_run(path)["tasks"]` is the table of tasks as a data frame; docs/export.md has the rest.
    Raises FileNotFoundError if there is no run, or one without events.
    """
    from trunkline.harness.export import opened_run  # agents and short commands need no pandas

    return opened_run.open_run(path)
