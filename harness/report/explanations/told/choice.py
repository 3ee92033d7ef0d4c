"""Which tasks of a run are explained (pure)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from trunkline.harness.config.units import join_words
from trunkline.harness.report.explanations.explanation import Explanation

NAMED = 3
"""The most tasks that are named as those that lost most time."""

ALIKE = 6
"""The most tasks that are named because they were abandoned for the same reason."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A task that is explained, and others that were abandoned for the same reason."""

    explained: Explanation
    alike: list[Explanation] = field(default_factory=list)

    def describe_alike(self) -> str:
        """A sentence on the others; nothing without any."""
        if not self.alike:
            return ""
        words = [f"{each.task.number} ({each.lost_s:.3f} s)" for each in self.alike]
        if len(words) > ALIKE:
            words[ALIKE - 1 :] = [f"{len(words) - ALIKE + 1} others"]
        tasks, were = ("Tasks", "were") if len(words) > 1 else ("Task", "was")
        return f"{tasks} {join_words(words)} {were} abandoned for the same reason."


def list_worst(found: Sequence[Explanation]) -> list[Explanation]:
    """The first task, and up to two others that lost a considerable share of their times."""
    worst, *others = found[:NAMED]
    return [worst, *(each for each in others if each.is_notable)]


def choose(found: Sequence[Explanation], most: int) -> list[Chosen]:
    """The tasks to explain: the worst, then those that failed, then other slow ones.

    `found` are the tasks that lost most time, the worst first. Of several that were abandoned for
    the same reason, it is the first.
    """
    worst = list_worst(found)
    others = [each for each in found if each.is_notable and each not in worst]
    chosen: dict[Hashable, Chosen] = {}
    for each in (*worst, *sorted(others, key=lambda other: not other.failures)):
        key: Hashable = each.task.number
        if each.is_abandoned and each.failures:
            key = each.failures[0].reason, each.failures[0].fault
        if key in chosen:
            chosen[key].alike.append(each)
        else:
            chosen[key] = Chosen(each)
    return [*chosen.values()][:most]
