"""What did not move in a run: remarks for the user that change no verdict (pure).

A run may keep all promises of Trunkline while its programs only wait. `expect:` in the scenario
says what would be progress; without it, these remarks say what looks like none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.agents.events.round_events import ComputeStarted, RoundFinished, SyncFinished
from trunkline.agents.events.run_events import (
    AgentExited,
    ExpectedOutput,
    LinksCounted,
    ProgramsStarted,
    ProgramStarted,
)
from trunkline.agents.events.task_events import ContributionTaken, TaskFinished
from trunkline.harness.checks.rules import Rules
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.workloads.program_roles import is_of

SILENT_SHARE = 1 / 3
"""A program that does nothing for this share of the run is named."""

LEAST_NS = 1_000_000_000
"""A shorter time means nothing."""

SILENT_BYTES = 1500
"""A site that sends less than this has done nothing: a few packets without payload need it."""

FREE = "Computing took no time in this run (docs/programs.md, Computing)."

ASK = "say what you expect with expect: (docs/expect.md)"


def find_remarks(history: History, rules: Rules) -> Iterator[str]:
    """One sentence for each thing that did not move."""
    if history.run is None or history.interrupted:
        return
    if rules.programs is not None and rules.scenario.clock == "virtual":
        options = rules.scenario.workload.options
        modelled = options.get("compute_s") is not None or history.all(ComputeStarted)
        if not (modelled or options.get("charge")):
            yield FREE
    found = list(_find_stalls(history, rules))
    yield from found
    if found and not rules.scenario.expect:
        yield f"If that is not as it should be, {ASK}."


def _find_stalls(history: History, rules: Rules) -> Iterator[str]:
    if rules.programs is None:
        yield from _find_idle_sites(history, rules)
        return
    yield from _find_unsynchronized(history, rules.programs)
    yield from _find_silent(history, rules)
    spoke = (history.all(RoundFinished), history.syncs, history.all(CallStarted))
    if not any(spoke) and not rules.scenario.expect:
        yield "Nothing in the log says whether the programs made progress."


def _find_idle_sites(history: History, rules: Rules) -> Iterator[str]:
    """Of agents: runs without a completed task, and sites that had no part in any."""
    if not history.tasks:
        yield "No task began."
    elif not history.completed:
        yield f"None of {len(history.tasks)} tasks was completed."
    else:
        done = {event.site for event in history.all(TaskFinished, ContributionTaken)}
        for site in sorted(set(rules.scenario.workers) - done):
            yield f"{site} had a part in no completed task."


def _find_unsynchronized(history: History, programs: Iterable[str]) -> Iterator[str]:
    """Programs that ended no synchronization and no call, if others did."""
    done = {event.site for event in history.all(SyncFinished, CallFinished)}
    for who in programs:
        if done and not any(is_of(who, site) for site in done):
            yield f"{who} never synchronized, but others did."


def _find_silent(history: History, rules: Rules) -> Iterator[str]:
    """Programs that sent and reported nothing for a third of the run while they were alive."""
    start_ns = min((event.t_ns for event in history.all(ProgramsStarted)), default=0)
    stop_ns = history.stop_ns
    active = _list_active(history, rules)
    least_ns = max(LEAST_NS, SILENT_SHARE * (stop_ns - start_ns))
    silent = defaultdict[str, list[str]](list)
    for who in rules.programs or ():
        own = sorted(t for site, times in active.items() if is_of(who, site) for t in times)
        gaps = [
            (b - a, a)
            for first_ns, last_ns in _list_alive(history, who, (start_ns, stop_ns))
            for a, b in pairwise([first_ns, *(t for t in own if first_ns <= t <= last_ns), last_ns])
        ]
        gap_ns, since_ns = max(gaps, default=(0, 0))
        if gap_ns > least_ns:
            span = f"from {since_ns / 1e9:.1f} s to {(since_ns + gap_ns) / 1e9:.1f} s"
            silent[span].append(who)
    for span, programs in silent.items():
        yield f"{', '.join(programs)} sent and reported nothing {span}."


def _list_alive(history: History, who: str, span: Interval) -> Iterator[Interval]:
    """When a program ran, within a span. An older log does not say when programs started."""
    start_ns, end_ns = span
    runs = history.programs.runs(who)
    if not history.all(ProgramStarted):
        ended_ns = (event.t_ns for event in history.all(AgentExited) if event.who == who)
        runs = [(start_ns, max(ended_ns, default=end_ns))]
    for first_ns, last_ns in runs:
        if first_ns < min(last_ns, end_ns):
            yield first_ns, min(last_ns, end_ns)


def _list_active(history: History, rules: Rules) -> Mapping[str, list[int]]:
    """When a site or a program did something: it logged an event, or wrote an expected line.

    Or the links of the site had carried SILENT_BYTES more.
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    for event in history.events:
        if event.site in rules.topology.site_names:
            found[event.site].append(event.t_ns)
    for wrote in history.all(ExpectedOutput):
        found[wrote.who].append(wrote.t_ns)
    before: dict[tuple[str, str], int] = {}
    for counted in history.all(LinksCounted):
        for link in counted.links:
            ends = link.src, link.dst
            if link.bytes >= before.get(ends, 0) + SILENT_BYTES:
                before[ends] = link.bytes
                found[link.src].append(counted.t_ns)
    return found
