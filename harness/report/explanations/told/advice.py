"""What to do about slow tasks (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trunkline.harness.report.explanations.explanation import Explanation

MUCH = 0.2
"""Cold connections, or lost packets, are worth a word if they took this share of all losses."""


def advise(
    found: Iterable[Explanation], cold: float = 0.0, warms_up: bool = False, lost: float = 0.0
) -> Iterator[str]:
    """What to do about the main cause of some of these tasks, if there is something.

    `cold` and `lost` are the shares of cold connections and of lost packets in what all tasks lost,
    and `warms_up` tells whether the run has a warm-up.
    """
    mains = [each.main for each in found if each.main is not None]
    is_cold = [main.fault for main in mains if main.cause == "cold start"]
    if is_cold or cold >= MUCH:
        yield (
            "A new connection is slow until TCP has found the link's rate (docs/accuracy.md, Cold "
            "paths)."
        )
    if (None in is_cold or cold >= MUCH) and not warms_up:
        yield (
            "With `warm_up: {tasks: N}`, the means of summaries and comparisons leave out the "
            "first N tasks."
        )
    if lost >= MUCH or any(main.cause == "loss" for main in mains):
        yield "BBR sends on where packets are lost: `--set network.congestion_control=bbr`."
