"""What did not move in a run: remarks for the user that change no verdict (pure).

A run may keep all promises of Trunkline while its programs only wait. `expect:` in the scenario
says what would be progress; without it, these remarks say what looks like none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from statistics import median

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.agents.events.round_events import (
    ComputeStarted,
    RoundAlone,
    RoundFinished,
    SyncFinished,
    WorkerFinished,
)
from trunkline.agents.events.run_events import (
    ExpectedOutput,
    ProgramsStarted,
    ProgramStarted,
    SiteQuiet,
)
from trunkline.agents.events.task_events import ContributionTaken, TaskFinished
from trunkline.harness.checks.expectations.failures import name_faults_before_failure
from trunkline.harness.checks.frame.fault_checks import find_start_ns
from trunkline.harness.checks.rules import Rules
from trunkline.harness.config.units import TIME_S, count_of, short
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.record.hangs import describe_hangs
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.lives import Interval
from trunkline.harness.scenario.settings import Scenario
from trunkline.workloads.program_roles import is_of

SILENT_SHARE = 1 / 3
"""A program that does nothing for this share of the run is named."""

LEAST_NS = 1_000_000_000
"""A shorter time means nothing."""

ALONE_SHARE = 1 / 4
"""A site that did this share of its rounds alone, and left before the others, is named."""

FEW_SHARE = 1 / 5
"""In a run with faults, a site is named that took part in this share of the median of tasks."""

LEAST_TASKS = 5
"""If the median site took part in fewer tasks, no site took part in few of them."""

STOP_OTHERWISE = (
    "Rounds alone count for stop.rounds: in a run with faults, stop by tasks or time "
    "(docs/timeline.md)."
)

SEE = "(docs/programs.md, Computing)"

FREE = f"Computing took no time in this run {SEE}."

ASK = "To have that judged, use expect: (docs/expect.md)."

NAMED = 3
"""The most faults of a kind that are named; the others are counted."""


def find_remarks(history: History, rules: Rules) -> Iterator[str]:
    """One sentence for each thing that did not move."""
    if history.run is None:
        return
    if rules.programs is not None:
        yield from name_faults_before_failure(history, rules.scenario)
    yield from name_late_entries(history, rules.scenario)
    if history.interrupted:
        return
    if rules.programs is not None and rules.scenario.clock == "virtual":
        yield from _say_what_computing_took(history, rules)
    yield from describe_hangs(history, rules.programs or ())
    early = set[str]()
    for sites, said in _find_early_leavers(history, rules):
        early.update(sites)
        yield said
    if early:
        yield STOP_OTHERWISE
    found = list(_find_stalls(history, rules, early))
    yield from found
    is_judged = rules.programs is None and not history.completed  # the verdict is unknown
    if found and not rules.scenario.expect and not is_judged:
        yield ASK


def name_late_entries(history: History, scenario: Scenario) -> Iterator[str]:
    """The entries of the timeline that were due after the run had stopped."""
    start_ns = find_start_ns(history)
    if start_ns is None:
        return
    stop_s = (history.stop_ns - start_ns) / 1e9
    if late := [each for each in scenario.timeline if each.at_s > stop_s]:
        late.sort(key=lambda each: each.at_s)
        named = [f"{write(e.fault)} at {short(e.at_s, TIME_S)}" for e in late[:NAMED]]
        named += [f"{len(late) - NAMED} more"] * (len(late) > NAMED)
        which = count_of(len(late), "fault")
        yield (
            f"{which} of the timeline never came, because the run stopped {stop_s:.3f} s after the "
            f"{scenario.begin} began: {'; '.join(named)}."
        )


def _say_what_computing_took(history: History, rules: Rules) -> Iterator[str]:
    """Of programs on a virtual clock: which computing took time, if none was charged."""
    options = rules.scenario.workload.options
    if options.get("charge"):
        return
    steps = Counter(event.site for event in history.all(ComputeStarted))
    idle = [site for site in rules.program_sites if site not in steps]
    if steps:
        modelled = options.get("compute_s") is not None
        without = f" {', '.join(idle)} {'had' if modelled else 'reported'} none." * bool(idle)
        took = (
            "took the times of workload.compute"
            if modelled
            else "that programs reported took computing time"
        )
        counted = count_of(steps.total(), "step")
        yield f"{counted} {took}.{without} All other code took no time {SEE}."
    elif options.get("compute_s") is None:
        yield FREE
    else:
        yield (
            "No program reported a step. So computing took no time, unless programs took their "
            f"times from log/SITE.steps themselves {SEE}."
        )


def _find_early_leavers(history: History, rules: Rules) -> Iterator[tuple[list[str], str]]:
    """Sites that left before the last task because of rounds alone, and a sentence on them."""
    limit = rules.stop.rounds
    if limit is None or not history.completed:
        return
    left_ns = {event.site: event.t_ns for event in history.all(WorkerFinished)}
    last_ns = max(task.started.t_ns for task in history.completed)
    took_part = Counter(site for task in history.completed for site in _list_members(task))
    alone = defaultdict[str, set[int]](set)
    for event in history.all(RoundAlone):
        alone[event.site].add(event.iteration)
    alike = defaultdict[tuple[int, str], list[str]](list)
    for site, rounds in sorted(alone.items()):
        if len(rounds) >= ALONE_SHARE * limit and left_ns.get(site, last_ns) < last_ns:
            alike[took_part[site], _describe_rounds(rounds, limit)].append(site)
    of = count_of(len(history.completed), "completed task")
    for (tasks, which), sites in alike.items():
        who = "it" if len(sites) == 1 else "each"
        yield sites, f"{', '.join(sites)} took part in {tasks} of {of}: {who} did {which} alone."


def _describe_rounds(rounds: Collection[int], limit: int) -> str:
    """Which of its rounds a site did, in words; they count from 0."""
    count = len(rounds)
    if count == limit:
        return "all its rounds"
    if min(rounds) < limit - count:
        return f"{count} of its {limit} rounds"
    return f"its last {count} rounds" if count > 1 else "its last round"


def _list_members(task: Task) -> set[str]:
    """The sites that had a part in a completed task."""
    return {event.site for event in task.all(TaskFinished, ContributionTaken)}


def _find_stalls(history: History, rules: Rules, named: Collection[str]) -> Iterator[str]:
    """What stood still, without the sites that are `named` already."""
    if rules.programs is None:
        yield from _find_idle_sites(history, rules, named)
        return
    yield from _find_unsynchronized(history, rules.programs)
    yield from _find_unstarted(history, rules.programs)
    yield from _find_silent(history, rules.programs)
    steps = history.all(ComputeStarted, RoundFinished)
    spoke = (steps, history.syncs, history.all(CallStarted))
    if not any(spoke) and not rules.scenario.expect:
        yield "No program reported progress, so no check judged it."


def _find_idle_sites(history: History, rules: Rules, named: Collection[str]) -> Iterator[str]:
    """Of agents: runs without a completed task, and sites that had no part in any."""
    if not history.tasks:
        yield "No task began."
    elif not history.completed:
        yield f"None of {len(history.tasks)} tasks was completed."
    else:
        took_part = Counter(site for task in history.completed for site in _list_members(task))
        others = sorted({*rules.scenario.workers}.difference(named))
        for site in others:
            if not took_part[site]:
                yield f"{site} had a part in no completed task."
        if history.faults:
            yield from _name_rare(others, [took_part[site] for site in others], history)


def _name_rare(sites: Sequence[str], tasks: Sequence[int], history: History) -> Iterator[str]:
    """Sites that took part in few tasks, with these numbers; of many, the first ones."""
    usual = median(tasks) if tasks else 0
    rare = [(n, site) for site, n in zip(sites, tasks, strict=True) if 0 < n <= FEW_SHARE * usual]
    if usual < LEAST_TASKS or not rare:
        return
    of = count_of(len(history.completed), "completed task")
    named = [f"{site} took part in {n} of {of}" for n, site in sorted(rare)[:NAMED]]
    named += [f"{count_of(len(rare) - NAMED, 'other site')} in few"] * (len(rare) > NAMED)
    yield f"{', '.join(named)}; half of the sites took part in {usual:g} or more."


def _find_unsynchronized(history: History, programs: Iterable[str]) -> Iterator[str]:
    """Programs that ended no synchronization and no call, if others did."""
    done = {event.site for event in history.all(SyncFinished, CallFinished)}
    for who in programs:
        if done and not any(is_of(who, site) for site in done):
            yield f"{who} never synchronized, but others did."


def _find_unstarted(history: History, programs: Iterable[str]) -> Iterator[str]:
    """Programs of which no process began."""
    started = {event.who for event in history.all(ProgramStarted)}
    if unstarted := [who for who in programs if who not in started]:
        yield f"{', '.join(unstarted)} never started."


def _find_silent(history: History, programs: Iterable[str]) -> Iterator[str]:
    """Programs that moved no data and reported nothing for a third of the run while they ran."""
    start_ns = min((event.t_ns for event in history.all(ProgramsStarted)), default=0)
    stop_ns = history.stop_ns
    least_ns = max(LEAST_NS, SILENT_SHARE * (stop_ns - start_ns))
    spoke = _list_spoken(history)
    silent = defaultdict[str, list[str]](list)
    for who in programs:
        quiet = [(e.since_ns, e.t_ns) for e in history.all(SiteQuiet) if is_of(who, e.who)]
        own = sorted(t_ns for site, times in spoke.items() if is_of(who, site) for t_ns in times)
        gaps = [
            (b - a, a)
            for first_ns, last_ns in _overlap(history.programs.runs(who), quiet, stop_ns)
            for a, b in pairwise([first_ns, *(t for t in own if first_ns < t < last_ns), last_ns])
        ]
        gap_ns, since_ns = max(gaps, default=(0, 0))
        if gap_ns > least_ns:
            span = f"from {since_ns / 1e9:.1f} s to {(since_ns + gap_ns) / 1e9:.1f} s"
            silent[span].append(who)
    for span, named in silent.items():
        yield f"{', '.join(named)} sent and received no data and reported nothing {span}."


def _overlap(
    runs: Iterable[Interval], quiet: Iterable[Interval], stop_ns: int
) -> Iterator[Interval]:
    """When a program ran while its site was quiet, before the run stopped."""
    for (run_ns, exit_ns), (since_ns, until_ns) in product(runs, quiet):
        first_ns, last_ns = max(run_ns, since_ns), min(exit_ns, until_ns, stop_ns)
        if first_ns < last_ns:
            yield first_ns, last_ns


def _list_spoken(history: History) -> Mapping[str, list[int]]:
    """When a site logged an event, or a program wrote an expected line."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for event in history.events:
        found[event.site].append(event.t_ns)
    for wrote in history.all(ExpectedOutput):
        found[wrote.who].append(wrote.t_ns)
    return found
