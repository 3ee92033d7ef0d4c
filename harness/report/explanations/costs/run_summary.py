"""The sentences on a whole run: the time that it lost, and the causes (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from trunkline.harness.report.explanations.costs.measured_costs import (
    MEASURE,
    Longer,
    ends_by_time,
    list_problems,
)
from trunkline.harness.report.explanations.costs.site_times import (
    FASTER,
    Needs,
    SiteTimes,
    Straggler,
    compare_computing_s,
)
from trunkline.harness.report.explanations.costs.task_losses import Losses, describe_losses
from trunkline.harness.report.explanations.explained_tasks import list_expected
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.fault_search import NOTICED_TIMEOUTS, FaultSearch
from trunkline.harness.report.explanations.links.mistaken_rates import (
    Mistaken,
    describe_mistaken,
    find_mistaken,
)
from trunkline.harness.report.explanations.stretches import Turns
from trunkline.harness.report.explanations.told.choice import list_worst
from trunkline.harness.report.explanations.told.fault_costs import (
    describe_fault_costs,
    list_faults,
    sum_taken,
)
from trunkline.harness.report.explanations.told.worst_fault import name_worst
from trunkline.harness.report.explanations.waits import find_waits
from trunkline.harness.report.run_data import RunData
from trunkline.harness.scenario.failover_timeouts import make_failover

GREW = 1.2
"""The time between turns grew if it was this many times the median of those before."""

LONGER = "made the run longer by"

IN_ADDITION = (
    "What each fault {cost} is what it added to the faults before it; it may have after-effects of "
    "these in it."
)
"""What measured costs are, of several faults."""


def summarize_run(found: Sequence[Explanation], data: RunData) -> Iterator[str]:
    """What faults cost the run, the worst fault, where time went, and the losses of tasks.

    `found` are the tasks that lost most time, the worst first. Without faults that did something,
    the first sentences are on the network and on computing.
    """
    worst = [*name_worst(found, data.history, _list_longer(data)), list_lost(list_worst(found))]
    if data.measured is not None:
        yield data.measured.describe_end()
    if is_disturbed := any(each.faults for each in found):
        yield " ".join(worst)
    yield from _describe_times(data)
    if not is_disturbed:
        yield " ".join(worst)
    yield from describe_losses(found, data.history)
    yield from _describe_unmeasured(data)


def describe_run(found: Sequence[Explanation], data: RunData) -> tuple[list[str], list[str]]:
    """The summary, and the sentences on faults; no summary if no task has ended."""
    search = _search_faults(data)
    faults = [*describe_fault_costs(found, data.history, _list_longer(data), search, data.measured)]
    if not found:
        return [], faults
    faults += [*_describe_mistaken(data), *_describe_gaps(data, search)]
    if sum(bool(part.faults) for part in _list_longer(data)) > 1:
        faults.append(
            IN_ADDITION.format(cost="cost the run" if ends_by_time(data.history) else LONGER)
        )
    return [*summarize_run(found, data)], faults


def _list_longer(data: RunData) -> tuple[Longer, ...]:
    """What each fault cost the run, if that was measured."""
    return () if data.measured is None else data.measured.parts


def _describe_unmeasured(data: RunData) -> Iterator[str]:
    """That nothing has measured yet by how much faults made the run longer."""
    if data.measured is None and not any(list_problems(data.scenario, data.history)):
        yield (
            "By how much faults made the run longer is not in its log: "
            f"`{MEASURE}` carries it out again without them, with the first one, and so on."
        )


def _find_mistaken(data: RunData) -> list[Mistaken]:
    """The links that plans took for much slower than they were, after faults."""
    return find_mistaken(data.history, data.scenario.topology)


def _describe_mistaken(data: RunData) -> Iterator[str]:
    expected_s = list_expected(data.tables["tasks"])
    yield from describe_mistaken(_find_mistaken(data), data.history, expected_s)


def _describe_gaps(data: RunData, search: FaultSearch) -> Iterator[str]:
    """By how much the time grew that the policy sets between turns, after the first fault."""
    faults = list_faults(data.history)
    if not faults:
        return
    first = min(faults, key=lambda each: each.started.t_ns).started
    gaps = Turns(data.history, search, find_waits(data.history), lambda _: {}).gaps
    before = [gap_ns for t_ns, gap_ns in gaps if t_ns < first.t_ns]
    after = [gap_ns for t_ns, gap_ns in gaps if t_ns >= first.t_ns]
    if before and after and max(after) >= GREW * (usual_ns := median(before)):
        yield (
            f"The time that the policy set between turns was {usual_ns / 1e9:.3f} s before fault "
            f"{first.fault} (the median), and up to {max(after) / 1e9:.3f} s after it."
        )


def _search_faults(data: RunData) -> FaultSearch:
    """What finds the faults behind losses of a run."""
    scenario = data.scenario
    detection_ns = round(NOTICED_TIMEOUTS * make_failover(scenario).timeout_s * 1e9)
    where = scenario.topology, scenario.controller_site
    return FaultSearch(data.history, *where, detection_ns, scenario.failover.backup or "")


def _describe_times(data: RunData) -> Iterator[str]:
    """Whether the network or computing took more time, and what tasks need of the network."""
    times, needs = SiteTimes.of(data.tables["workers"]), Needs.of(data)
    straggler = _find_straggler(data, times)
    without = None if data.measured is None else data.measured.outcomes[0].times
    told = [] if times is None else [times.describe(straggler, without)]
    told += [] if needs is None else [needs.describe()]
    yield from told


def _find_straggler(data: RunData, times: SiteTimes | None) -> Straggler | None:
    """The site for which others waited for much of the time that they waited.

    Where a group needs some sites only, the last of them may be a fast one that came next.
    """
    waited_s = 0.0 if times is None else times.wait_s * times.sites
    found = Straggler.of(data.history, waited_s)
    if found is None:
        return None
    round_s, usual_s = compare_computing_s(data.tables["workers"], found.site)
    return None if round_s < FASTER * usual_s else replace(found, round_s=round_s, usual_s=usual_s)


def list_lost(found: Iterable[Explanation]) -> str:
    """The time that each of these tasks lost, in a sentence: it is their order."""
    words = (f"task {each.task.number} ({max(0.0, each.lost_s):.3f} s)" for each in found)
    return f"Most time was lost by {', '.join(words)}."


def to_json(found: Sequence[Explanation], data: RunData) -> dict[str, Any]:
    """The same as values. `measured` is None if nothing has measured what faults cost the run.

    Shares of a site's time add up to 1, and the causes to `lost_s`.
    """
    losses, taken_s = Losses.of(found), sum_taken(found)
    times, needs = SiteTimes.of(data.tables["workers"]), Needs.of(data)
    straggler = _find_straggler(data, times)
    faults = {each.started.fault: each.started.text for each in list_faults(data.history)}
    limiting = None
    if needs is not None and (limit := needs.limit) is not None:
        limiting = {
            "link": " -> ".join(limit.link),
            "rate_mbps": limit.rate_mbps,
            "limits": limit.plans,
            "plans": needs.plans,
            "mean_s": limit.mean_s,
            "alike": len(limit.alike),
            "even": needs.even,
        }
    return {
        "lost_s": losses.lost_s,
        "causes_s": losses.by_cause_s,
        "faults": faults,
        "faults_s": {number: taken_s.get(number, 0.0) for number in faults},
        "measured": None if data.measured is None else data.measured.summarize(),
        "shares": None if times is None else times.shares,
        "limiting": limiting,
        "mistaken_rates": [asdict(each) for each in _find_mistaken(data)],
        "straggler": None if straggler is None else _list_known(asdict(straggler)),
    }


def _list_known(values: dict[str, Any]) -> dict[str, Any]:
    """Values for JSON, which has no NaN."""
    return {key: None if value != value else value for key, value in values.items()}
