"""What to do about slow tasks."""

from __future__ import annotations

import pytest

from trunkline.harness.report.explanations.told.advice import advise


@pytest.mark.parametrize(
    ("cold", "lost", "warms_up", "said"),
    [
        (0.1, 0.1, False, []),
        (0.2, 0.0, False, ["A new connection", "With `warm_up"]),
        (0.2, 0.0, True, ["A new connection"]),
        (0.0, 0.2, False, ["BBR"]),
    ],
)
def test_causes_that_took_a_fifth_of_all_losses_have_advice(
    cold: float, lost: float, warms_up: bool, said: list[str]
) -> None:
    told = [*advise([], cold, warms_up, lost)]
    assert [each.startswith(begin) for each, begin in zip(told, said, strict=True)] == [True] * len(
        said
    )
