"""Which task an `Ended` is about (pure).

A policy does not know the numbers of its tasks. It knows their groups, and when it started them.
"""

from __future__ import annotations

from trunkline.agents.policies.policy import Ended

CLOCKS_DIFFER = 0.01
LATER_S = 1e-3


def is_of(ended: Ended, group: tuple[str, ...], since_s: float) -> bool:
    """Whether this is the end of the task that the policy started for `group` at `since_s`.

    An earlier task of the same group may end later: a member that has its result is lost, comes
    back and is ready again before its old task has ended, or the old task began under another
    controller. Its start, `at_s - duration_s`, lies before `since_s` then. Durations and times may
    be from clocks that differ by 1 %. Without a duration, the group decides alone.
    """
    if ended.group != group:
        return False
    duration_s = ended.report.get("duration_s")
    if duration_s is None:
        return True
    return ended.at_s - duration_s >= since_s - LATER_S - CLOCKS_DIFFER * duration_s
