"""What a user should know about evaluations and targets that are allowed, but unlikely (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trunkline.harness.config.units import TIME_S, short

if TYPE_CHECKING:
    from trunkline.harness.scenario.settings import Evaluations, Stop

PERFECT_PERCENT = 100.0


def list_notes(
    stop: Stop, evaluation: Evaluations, ends: Mapping[str, float | None]
) -> Iterator[str]:
    """Notes on a target that hardly any model reaches, and on a run without an evaluation.

    `ends` has the times in s after which a run is over, by their keys.
    """
    if stop.accuracy_percent == PERFECT_PERCENT:
        yield (
            "stop.accuracy, 100 %: every held-out sample must be right, for "
            f"{stop.in_a_row} evaluations in a row"
        )
    times = [(end, name) for name, end in ends.items() if end is not None]
    end_s, name = min(times, default=(math.inf, ""))
    if evaluation.of is not None and not stop.is_evaluated and evaluation.every_s > end_s:
        yield (
            f"evaluation.every, {short(evaluation.every_s, TIME_S)}: there is no evaluation, "
            f"because the run is over by {name}, {short(end_s, TIME_S)}"
        )
