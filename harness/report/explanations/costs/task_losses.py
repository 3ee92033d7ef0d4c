"""The time that the tasks of a run lost in all, by cause (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trunkline.agents.wire.agent_settings import TASKS_PER_CONTROLLER
from trunkline.harness.config.units import count_of
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.explanation import EXPECTED, Explanation
from trunkline.harness.report.explanations.wait_reasons import HEARD, TICKED
from trunkline.harness.report.explanations.waits import Stretch, Wait

TOLD_S = 0.0005
"""A cause that took less from all tasks is none."""

FAULTS, OTHERS, OWN = "faults", "other causes", "own bytes"
STARTS, TASKS, SPACING, WAITS = "starts", "waits for tasks", "spacing", "other waits"
STOPPED, UNHEARD = "stopped members", "late messages"
ABANDONED = "abandoned tasks"

MUCH, TENTH = 0.3, 0.1
"""The least share that a named link or site has of a cause, and that this has of all losses."""

TEXTS = {
    FAULTS: "faults on their critical paths",
    "other tasks": "other tasks on the same links",
    "cold start": "cold connections",
    "queueing": "queues and TCP's control of its rate",
    "background traffic": "background traffic",
    "loss": "lost packets",
    "unexplained": "rests of transfers that the log does not explain",
    STARTS: "messages from the last member to the controller",
    UNHEARD: "late messages to the controller",
    STOPPED: "waits for a last member while it was stopped",
    TASKS: "waits of complete groups until another task had ended",
    SPACING: "waits of complete groups for the time that the policy had set",
    WAITS: "waits of complete groups for other sites",
    OWN: "their own bytes, which took longer than expected",
    ABANDONED: "abandoned tasks without a fault behind it",
}
"""The causes that are told by themselves; all others are `OTHERS`."""

MEANING = (
    "A task loses the time beyond its expected time, and the wait of its complete group before it."
)
AND_STOPS = "It also loses the wait of its group for a last member while a fault stopped that one."
OVERLAP = "Tasks overlap, so the run is not longer by this sum."


@dataclass(frozen=True, slots=True)
class Losses:
    """The time that tasks lost in all, in seconds.

    Attributes:
        by_cause_s: the parts of it, by cause; those of `OWN` are less than 0 if the tasks' own
            bytes took less than expected. They add up to `lost_s`.
    """

    lost_s: float
    by_cause_s: Mapping[str, float]

    @classmethod
    def of(cls, found: Sequence[Explanation]) -> Losses:
        """The time that these tasks lost; those that were fast make up for nothing."""
        late = [each for each in found if each.lost_s > 0]
        by_cause = dict.fromkeys([*TEXTS, OTHERS], 0.0)
        for each in late:
            for cause, seconds in _divide(each):
                by_cause[cause] += seconds
        total_s = sum(each.lost_s for each in late)
        by_cause[OWN] = total_s - sum(by_cause.values())
        return cls(total_s, by_cause)

    def find_share(self, cause: str) -> float:
        """The share of a cause in all of it; 0 if nothing was lost."""
        return self.by_cause_s[cause] / self.lost_s if self.lost_s > 0 else 0.0


def describe_losses(found: Sequence[Explanation], history: History) -> Iterator[str]:
    """The time that the tasks lost in all, by cause, in numbers that add up."""
    ended = sum(task.end_ns is not None for task in history.tasks)
    which = f"The {count_of(ended, 'task')} of this run"
    if ended > len(found):
        which = f"The {len(found)} tasks of {ended} that lost most time"
    losses, late = Losses.of(found), [each for each in found if each.lost_s > 0]
    if losses.lost_s < TOLD_S:
        yield f"{which} lost no time: none took longer than expected."
        return
    own_s = losses.by_cause_s[OWN]
    by_cause = {**losses.by_cause_s, OWN: max(0.0, own_s)}
    told = [(s, cause) for cause, s in by_cause.items() if cause != OTHERS and s >= TOLD_S]
    words = [f"{seconds:.3f} s to {TEXTS[cause]}" for seconds, cause in sorted(told, reverse=True)]
    other_s = sum(by_cause.values()) - sum(seconds for seconds, _ in told)
    if other_s >= TOLD_S:
        words.append(f"{other_s:.3f} s to {OTHERS}")
    own = ""
    if own_s <= -TOLD_S:
        own = f"; but their own bytes took {-own_s:.3f} s less than expected"
    meaning = [MEANING]
    meaning += [AND_STOPS] * (by_cause[STOPPED] >= TOLD_S)
    meaning += [OVERLAP] * _has_overlap(history)
    said = f"{which} lost {losses.lost_s:.3f} s in all: {', '.join(words)}{own}."
    where = [*_describe_awaited(found, history), *_describe_links(late, losses.lost_s)]
    yield " ".join([said, *where, *meaning])
    if any(each.task.number >= TASKS_PER_CONTROLLER for each in found):
        yield f"Tasks from {TASKS_PER_CONTROLLER} on are those that a backup controller started."


def _describe_awaited(found: Sequence[Explanation], history: History) -> Iterator[str]:
    """The site for whose tasks complete groups waited for much of the time that they did."""
    members = {t.number: {*t.started.group} - {*t.started.passive} for t in history.tasks}
    stretches = [each for e in found if e.wait is not None for each in e.wait.stretches]
    by_site_s, whole_s = defaultdict[str, float](float), 0.0
    for each in stretches:
        if each.task is not None:
            whole_s += each.seconds
            for site in members.get(each.task, ()):
                by_site_s[site] += each.seconds
    site = max(sorted(by_site_s), key=lambda each: by_site_s[each], default="")
    if whole_s >= TENTH * Losses.of(found).lost_s and by_site_s[site] >= MUCH * whole_s > 0:
        yield (
            f"Of the waits until another task had ended, {by_site_s[site]:.3f} s were for tasks of "
            f"{site}."
        )


def _describe_links(late: Sequence[Explanation], lost_s: float) -> Iterator[str]:
    """The links on which tasks lost most to lost packets, and to cold connections."""
    for cause, what in (("loss", "lost packets"), ("cold start", "cold connections")):
        by_link_s = defaultdict[str, float](float)
        for part in (part for each in late for part in each.parts):
            if part.cause == cause and part.fault is None:
                by_link_s[part.where] += part.seconds
        link = max(sorted(by_link_s), key=lambda each: by_link_s[each], default="")
        if link and by_link_s[link] >= max(TENTH * lost_s, MUCH * sum(by_link_s.values())):
            is_all = sum(by_link_s.values()) - by_link_s[link] < TOLD_S
            some = f"Of the time lost to {what}, {by_link_s[link]:.3f} s were on {link}."
            yield f"All time lost to {what} was on {link}." if is_all else some


def _has_overlap(history: History) -> bool:
    """Whether a task began before another one had ended."""
    spans = ((task.started.t_ns, task.end_ns or history.end_ns) for task in history.tasks)
    return any(after[0] < before[1] for before, after in pairwise(sorted(spans)))


def _divide(found: Explanation) -> Iterator[tuple[str, float]]:
    """The time that one task lost, by cause, but for the time of its own bytes."""
    taken_s = sum(found.taken_s.values())
    yield FAULTS, taken_s
    if found.is_abandoned and found.failures[0].fault is None:
        yield ABANDONED, found.duration_s - taken_s
    for part in () if found.is_abandoned else found.parts:
        if part.fault is None and part.cause not in EXPECTED:
            yield part.cause if part.cause in TEXTS else OTHERS, part.seconds
    yield OTHERS, sum(each.late.seconds - each.late.faults_s for each in found.failures)
    if found.wait is not None:
        yield from _divide_wait(found.wait)


def _divide_wait(wait: Wait) -> Iterator[tuple[str, float]]:
    """The time in which others waited for a stopped member, or the controller for something."""
    if wait.held is not None:
        yield STOPPED, wait.held.lost_s
    for each in wait.stretches or (Stretch(wait.decide_s, wait.reason),):
        kind = WAITS if each.reason else STARTS
        if each.reason.startswith(HEARD):
            kind = UNHEARD
        elif " until task " in each.reason:
            kind = TASKS
        elif each.reason == TICKED:
            kind = SPACING
        yield kind, each.seconds
