"""How much earlier the last task of a run would have ended without its faults (pure).

Until the first fault, the run is the one without faults. From then on the fluid model tells how it
would have gone on (`fault_free`): its policy forms the groups that would have formed, and compute
times are those of the run. The prediction is the mean of several runs of the model.

The model knows neither outages nor stopped sites, so it cannot predict a run without one of several
faults. But it tells at any time how late the run is: its tasks have ended later than in the model.
By what this delay grows from when a fault begins until it is over, the fault made the run longer.
What it grows by at other times is an error of the model. If a fault still acted when the next one
began, the two are not told apart. Nor are faults of a run that ends by its rounds: sites that did
rounds alone do fewer tasks, so the delay of a task says too little of that of the run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, pstdev

from trunkline.agents.events.causes import TimeUp
from trunkline.agents.events.round_events import Ready, WorkerFinished
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import Sent
from trunkline.harness.fluid import fluid_run
from trunkline.harness.record.history import History
from trunkline.harness.report.explanations.costs.fault_free import list_excesses, predict_runs
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.run_data import RunData

MOST_CHUNKS = 200_000
"""A run that sent more is not predicted: the model takes some 30 µs for each."""

LEAST_S = 0.005
"""A fault that cost a task less did not act on it."""

ERROR, ERROR_BY_ROUNDS, LEAST_REST_S = 0.2, 0.3, 4.0
"""In nine of ten measured cases (`docs/accuracy.md`), a prediction was wrong by less than this many
seconds times the root of the time, in seconds, that the run would have had after its first fault,
where plans take about the same times. That time counts as at least so long. The spread of the
model's runs is added. Runs that end by their rounds are predicted less well: sites
that did rounds alone do fewer tasks."""

ERROR_OF_PART_S = 1.0
"""What one fault made a run longer by was wrong by less in 33 of 36 measured cases. Which fault
comes first may matter more than what the model is wrong by: without an earlier fault, a later one
meets other tasks."""

BY_MEASURED_RATES = 2.0
"""The model's plans follow the rates of links, those of a run with measured rates do not."""

MOST = 0.5
"""Two faults are told apart if the first had ended, and tasks with this share of its cost."""

SETTLED = 8
"""So many tasks tell how late a run is after a fault."""

MOST_TIMES = 3.0
"""A run that is not done in the model after so many times as long is not predicted."""

RUNS = 9
"""So many runs of the model are made, or as many as send `MOST_CHUNKS` in all."""

NINE_OF_TEN = 1.645
"""Nine of ten values of a normal distribution are within so many standard deviations."""


@dataclass(frozen=True, slots=True)
class Longer:
    """By how many seconds some faults made a run longer; several cannot be told apart.

    In nine of ten measured cases it was wrong by less than `error_s`.
    """

    faults: tuple[int, ...]
    seconds: float
    error_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Shorter:
    """The prediction of a run without its faults.

    Attributes:
        earlier_s: by how much its last task ends earlier, in seconds, at least 0.
        longer: by which share its tasks take longer on average than by the rates of links.
        runs: how many runs of the model were made.
        error_s: in nine of ten measured cases the prediction was wrong by less.
        parts: the same by faults, in the order in which they began. The parts add up to it, unless
            their sum is less than 0.
    """

    earlier_s: float
    longer: float
    runs: int
    error_s: float = 0.0
    parts: tuple[Longer, ...] = ()


def predict_shorter(data: RunData, found: Collection[Explanation]) -> Shorter | None:
    """Predict a run without its faults; None if the model cannot.

    `found` are explanations of the tasks that lost most time.
    """
    history, stop = data.history, data.scenario.stop
    limit_s = min(stop.time_s or math.inf, MOST_TIMES * history.end_ns / 1e9)
    plain = replace(data.scenario, timeline=(), stop=replace(stop, time_s=limit_s))
    chunks = sum(sent.chunks for sent in history.all(Sent))
    if chunks > MOST_CHUNKS or any(fluid_run.list_obstacles(plain)):
        return None
    fault_ns = min((each.started.t_ns for each in history.faults), default=history.end_ns)
    excesses, count = list_excesses(data, found, fault_ns), 1
    if excesses:
        count = max(1, min(RUNS, MOST_CHUNKS // max(1, chunks)))
    measured_s, by_rounds = list_ends(history), stop.rounds is not None
    until_s = fault_ns / 1e9 - _find_begin(history)
    later_s: list[float] = []
    divided: list[list[Longer]] = []
    for predicted in predict_runs(data, plain, found, excesses, count, fault_ns):
        predicted_s = list_ends(predicted)
        before_s = _measure_later_s(measured_s, predicted_s, until_s)
        if not (_is_done(predicted, plain.workers) and measured_s) or before_s is None:
            return None
        ends_s = before_s, measured_s[-1] - predicted_s[-1]
        divided.append([] if by_rounds else _divide(history, predicted, found, ends_s))
        later_s.append(ends_s[1] - before_s)
    parts = _average(divided)
    sum_s = sum(each.seconds for each in parts) if parts else mean(later_s)
    earlier_s = max(0.0, sum_s)
    rest_s = measured_s[-1] + _find_begin(history) - earlier_s - fault_ns / 1e9
    error = ERROR_BY_ROUNDS if by_rounds else ERROR
    if data.scenario.scheme.rates == "measured":
        error *= BY_MEASURED_RATES
    error_s = math.hypot(
        error * math.sqrt(max(LEAST_REST_S, rest_s)),
        NINE_OF_TEN * pstdev(later_s),
    )
    longer = mean((each.least + each.most) / 2 for each in excesses) if excesses else 0.0
    parts = [replace(each, error_s=max(each.error_s, error_s / 2)) for each in parts]
    return Shorter(earlier_s, longer, len(later_s), error_s, tuple(parts))


def _average(divided: Sequence[Sequence[Longer]]) -> list[Longer]:
    """The mean of what faults made the run longer by, of some runs; nothing if one has nothing."""
    if not all(divided):
        return []
    faults = (part.faults for part in divided[0])
    seconds = zip(*([part.seconds for part in each] for each in divided), strict=True)
    return [
        Longer(which, mean(all_s), math.hypot(ERROR_OF_PART_S, NINE_OF_TEN * pstdev(all_s)))
        for which, all_s in zip(faults, seconds, strict=True)
    ]


def _is_done(predicted: History, workers: Collection[str]) -> bool:
    """Whether a predicted run has done its tasks or rounds, and does not just end by its time."""
    if not any(isinstance(each.cause, TimeUp) for each in predicted.all(Stopping)):
        return True
    return {*workers} <= {each.site for each in predicted.all(WorkerFinished)}


def _divide(
    history: History,
    predicted: History,
    found: Collection[Explanation],
    ends_s: tuple[float, float],
) -> list[Longer]:
    """By how much faults made the run longer; nothing if that is not known.

    Before its first fault and at its end, it was later than predicted by `ends_s`.
    """
    groups = [*_group_faults(history, found)]
    measured_s, predicted_s = list_ends(history), list_ends(predicted)
    begin_s, parts = _find_begin(history), []
    starts_s = [group.begun_ns / 1e9 - begin_s for group in groups]
    for place, group in enumerate(groups):
        before_s: float | None = ends_s[0]
        if place:
            before_s = _measure_later_s(measured_s, predicted_s, starts_s[place])
        next_s = starts_s[place + 1] if place + 1 < len(groups) else math.inf
        over_s = min(next_s, group.over_ns / 1e9 - begin_s)
        after_s: float | None = ends_s[1]
        if over_s < measured_s[-1]:
            after_s = _measure_settled_s(measured_s, predicted_s, over_s, next_s)
        if before_s is None or after_s is None:
            return []
        parts.append(Longer(group.faults, after_s - before_s))
    return parts


@dataclass(frozen=True, slots=True)
class _Group:
    """Faults that are not told apart, from when the first one began until all were over."""

    faults: tuple[int, ...]
    begun_ns: int
    over_ns: int


def _group_faults(history: History, found: Collection[Explanation]) -> Iterator[_Group]:
    """The faults that cost tasks something, in the order in which they began.

    Those that began when an earlier one had most of its cost to come, or still lasted, are one
    group with it.
    """
    most_ns, all_ns = _find_over(found, MOST), _find_over(found, 1.0)
    group: _Group | None = None
    until_ns = 0
    for fault in history.faults:
        number, start_ns = fault.started.fault, fault.started.t_ns
        if number not in all_ns:
            continue
        end_ns = history.end_ns if fault.end_ns is None else fault.end_ns
        own = _Group((number,), start_ns, max(all_ns[number], end_ns))
        if group is not None and start_ns >= until_ns:
            yield group
            group = None
        if group is not None:
            over_ns = max(group.over_ns, own.over_ns)
            own = _Group((*group.faults, number), group.begun_ns, over_ns)
        group, until_ns = own, max(until_ns, most_ns[number], end_ns)
    if group is not None:
        yield group


def _find_over(found: Iterable[Explanation], share: float) -> dict[int, int]:
    """When the tasks had ended that lost such a share of the cost of each fault, in ns."""
    costs = defaultdict[int, list[tuple[int, float]]](list)
    for each in found:
        for number, cost in each.costs.items():
            if cost.seconds >= LEAST_S:
                began_ns, end_ns = each.task.started.t_ns, each.task.end_ns or 0
                costs[number] += [(began_ns, cost.later_s)] * (cost.later_s >= LEAST_S)
                own_s = cost.seconds - cost.later_s
                costs[number] += [(end_ns, own_s)] * (own_s >= LEAST_S)
    over_ns = {}
    for number, ends in costs.items():
        left_s = (1 - share) * sum(cost_s for _, cost_s in ends)
        for end_ns, cost_s in sorted(ends, reverse=True):
            over_ns[number] = end_ns
            left_s -= cost_s
            if left_s < 0:
                break
    return over_ns


def _measure_later_s(
    measured_s: Sequence[float], predicted_s: Sequence[float], until_s: float
) -> float | None:
    """How much later than predicted the last one ended until then; None if none is predicted."""
    before = bisect_right(measured_s, until_s)
    if before > len(predicted_s) or not predicted_s:
        return None
    return measured_s[before - 1] - predicted_s[before - 1] if before else 0.0


def _measure_settled_s(
    measured_s: Sequence[float], predicted_s: Sequence[float], over_s: float, next_s: float
) -> float | None:
    """How much later than predicted the next ones ended after a fault was over: their median.

    None if none is predicted.
    """
    first = max(0, bisect_right(measured_s, over_s) - 1)
    last = min(first + SETTLED, max(first + 1, bisect_right(measured_s, next_s)))
    pairs = zip(measured_s[first:last], predicted_s[first:last], strict=False)
    found = [measured - predicted for measured, predicted in pairs]
    return median(found) if found else None


def list_ends(history: History) -> list[float]:
    """When tasks ended, in seconds after the first site was ready, in order."""
    begin_s = _find_begin(history)
    return sorted(task.end_ns / 1e9 - begin_s for task in history.tasks if task.end_ns is not None)


def _find_begin(history: History) -> float:
    """When the first site was ready, in seconds."""
    return min((ready.t_ns for ready in history.all(Ready)), default=0) / 1e9
