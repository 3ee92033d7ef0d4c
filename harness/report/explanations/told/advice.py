"""What to do about slow tasks (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trunkline.harness.report.explanations.explanation import Explanation

MUCH_COLD = 0.2
"""Cold connections are worth a word if they took this share of what tasks lost."""


def advise(
    found: Iterable[Explanation], cold: float = 0.0, warms_up: bool = False
) -> Iterator[str]:
    """What to do about the main cause of some of these tasks, if there is something.

    `cold` is the share that cold connections have in what all tasks lost, and `warms_up` tells
    whether the run has a warm-up.
    """
    mains = [each.main for each in found if each.main is not None]
    is_cold = [main.fault for main in mains if main.cause == "cold start"]
    if is_cold or cold >= MUCH_COLD:
        yield (
            "A new connection is slow until TCP has found the link's rate (docs/accuracy.md, Cold "
            "paths)."
        )
    if (None in is_cold or cold >= MUCH_COLD) and not warms_up:
        yield (
            "With `warm_up: {tasks: N}`, the means of summaries and comparisons leave out the "
            "first N tasks."
        )
