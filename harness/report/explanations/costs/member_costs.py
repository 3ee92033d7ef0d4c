"""The cost of faults for one member of a task (pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trunkline.agents.events.task_events import TaskDropped, TaskFinished
from trunkline.harness.config.units import join_words
from trunkline.harness.report.explanations.costs.task_losses import TOLD_S
from trunkline.harness.report.explanations.explanation import Explanation


@dataclass(frozen=True, slots=True)
class SiteCost:
    """What faults cost a site in tasks, while it waited for a group, and while it computed."""

    in_tasks_s: float = 0.0
    waiting_s: float = 0.0
    computing_s: float = 0.0

    @property
    def seconds(self) -> float:
        """The sum."""
        return self.in_tasks_s + self.waiting_s + self.computing_s

    def describe(self) -> str:
        """A sentence on a mean site, to follow where its time went; none if it lost nothing."""
        if self.seconds < TOLD_S:
            return ""
        parts = {
            "in tasks": self.in_tasks_s,
            "in computing": self.computing_s,
            "in waits": self.waiting_s,
        }
        told = {what: seconds for what, seconds in parts.items() if seconds >= TOLD_S}
        words = [f"{seconds:.3f} s {what}" for what, seconds in told.items()]
        which = f": {join_words(words)}" if len(told) > 1 else f", {', '.join(told)}"
        return f" Faults took {self.seconds:.3f} s of this time{which}."

    def __add__(self, other: SiteCost) -> SiteCost:
        waiting_s = self.waiting_s + other.waiting_s
        computing_s = self.computing_s + other.computing_s
        return SiteCost(self.in_tasks_s + other.in_tasks_s, waiting_s, computing_s)

    def __truediv__(self, sites: int) -> SiteCost:
        return SiteCost(self.in_tasks_s / sites, self.waiting_s / sites, self.computing_s / sites)


NOTHING = SiteCost()
"""Without faults."""


def cost_sites(found: Sequence[Explanation], sites: Collection[str]) -> SiteCost:
    """The cost of faults for one of these sites on average, in tasks and before them.

    A task takes the time of its members alone. A cost that is not worth telling is none.
    """
    members = ((each, site) for each in found for site in each.task.started.group if site in sites)
    costs = (cost_member(each, site) for each, site in members)
    mean = sum(costs, NOTHING) / max(len(sites), 1)
    return NOTHING if mean.seconds < TOLD_S else mean


def cost_member(found: Explanation, site: str) -> SiteCost:
    """The cost of faults for a member of a task: one time of it counts once.

    It loses nothing of the time after it left the task, nor of a wait before it was ready.
    """
    costs = found.costs.values()
    longer_s = sum(cost.longer_s for cost in costs)
    later_s = sum(cost.later_s for cost in costs)
    given_up_s = sum(cost.given_up_s for cost in costs)
    in_tasks_s = max(0.0, longer_s - _measure_rest_s(found, site))
    waiting, computing = _share_wait(found, site)
    return SiteCost(
        in_tasks_s + given_up_s * _share_given_up(found, site),
        later_s * waiting + _measure_earlier_s(found, site),
        later_s * computing,
    )


def _measure_rest_s(found: Explanation, site: str) -> float:
    """How long the task went on after the member had left it."""
    left = (e.t_ns for e in found.task.all(TaskFinished, TaskDropped) if e.site == site)
    end_ns = found.task.end_ns or 0
    return max(0, end_ns - max(left, default=end_ns)) / 1e9


def _share_wait(found: Explanation, site: str) -> tuple[float, float]:
    """The shares of what faults took before the task that the member waited, and computed.

    The last member waited for no other one. If it was stopped while it computed, it lost that time
    itself; if it was in another task, that one is charged.
    """
    wait = found.wait
    if wait is None:
        return 0.0, 0.0
    if wait.waited_s and site not in wait.waited_s:  # such as a server, which need not be ready
        return 0.0, 0.0
    decide_s = sum(wait.costs_s.values())
    held = wait.held if wait.held is None or wait.held.stop.fault is not None else None
    held_s = 0.0 if held is None else held.lost_s
    if not (took_s := decide_s + held_s):
        return 0.0, 0.0
    if held is not None and held.computing and site == wait.last:
        return decide_s / took_s, held_s / took_s
    held_s = min(held_s, wait.waited_s.get(site, wait.wait_s))
    return (decide_s + held_s) / took_s, 0.0


def _measure_earlier_s(found: Explanation, site: str) -> float:
    """How long the member waited for the last one because a fault had delayed the task before."""
    wait = found.wait
    if wait is None or wait.behind is None:
        return 0.0
    return min(wait.behind[1], wait.after_s, wait.waited_s.get(site, 0.0))


def _share_given_up(found: Explanation, site: str) -> float:
    """The share of what faults took after the task that passed until the member gave it up."""
    taken_s = [failure.late.faults_s for failure in found.failures]
    own = [n for n, failure in enumerate(found.failures) if site in failure.members]
    whole_s = sum(taken_s)
    return sum(taken_s[: own[-1] + 1]) / whole_s if own and whole_s else 0.0
