"""The fault that cost a run most, in a sentence (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.measured_costs import Longer
from trunkline.harness.report.explanations.costs.task_losses import TOLD_S
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.told.fault_costs import (
    DEADLY,
    list_faults,
    list_numbers,
    lower,
    name_faults,
    sum_lost,
)

BEYOND = " beyond the faults before it."
"""The end of a sentence on what a fault cost that was measured."""

LEAST_LONGER_S = 0.05
"""A run that is longer by less is no longer."""


def name_worst(
    found: Iterable[Explanation],
    history: History,
    longer: Sequence[Longer] = (),
) -> Iterator[str]:
    """The fault that made the run longest, if that was measured; else the one behind most waits."""
    if any(each.of_site.is_other_work for each in longer):
        yield from _name_costliest(longer, history)
        return
    worst = max(longer, key=lambda each: each.size, default=None)
    if worst is not None and worst.faults and len(longer) > 1 and worst.size >= LEAST_LONGER_S:
        which = name_faults(worst.faults, history)
        how = f"cost the run most: {count_of(worst.tasks, 'completed task')}"
        if worst.seconds is not None:
            how = f"delayed the run most, by {worst.seconds:.3f} s"
        yield f"{which} {how}{BEYOND}"
        return
    if longer and all(abs(each.size) < LEAST_LONGER_S for each in longer):
        if longer[0].seconds is not None:
            yield "No fault made the run longer."
        return
    lost_s = {number: s for number, s in sum_lost(found).items() if s >= TOLD_S}
    if lost_s and (number := len(list_faults(history))) > 1:
        most = max(lost_s, key=lambda number: lost_s[number])
        share = f"{lost_s[most]:.3f} s of the {sum(lost_s.values()):.3f} s"
        name = name_faults((most,), history)
        yield f"Of {number} faults, {lower(name)} held tasks up longest: {share} of all faults."
        dead = [e.started.fault for e in list_faults(history) if e.started.verb in DEADLY]
        if dead and most not in dead:
            which = f"fault{'s' * (len(dead) > 1)} {list_numbers(dead)}"
            yield f"What the run lost while agents were dead ({which}) is not in this."


def _name_costliest(longer: Sequence[Longer], history: History) -> Iterator[str]:
    """The fault that cost most rounds, where runs with more faults did other work."""
    worst = min(longer, key=lambda each: each.of_site.rounds)
    if len(longer) < 2 or not worst.faults or not worst.of_site.is_other_work:
        return
    if worst.of_site.rounds < 0:
        lost = [f"{-worst.of_site.rounds:.1f} rounds of a mean site"]
        lost += [count_of(worst.tasks, "completed task")] * (worst.tasks > 0)
        name = name_faults(worst.faults, history)
        yield f"{name} cost most work, {join_words(lost)}{BEYOND}"
