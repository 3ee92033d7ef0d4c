"""The checks of a run of programs: their reports are in order, and they ended (pure).

Only what programs report is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from trunkline.agents.events.call_events import CallStarted
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    SyncFinished,
    SyncStarted,
)
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    ProgramsStarted,
    RunFinished,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import (
    Finding,
    doubt,
    excused,
    fail,
    format_time,
    judged,
    note,
    unfinished,
)
from trunkline.harness.record.history import History

HEADER_BYTES = 94
"""The most bytes of a packet without payload: Ethernet, IPv4, and TCP with all options."""


def programs_exited(history: History, rules: Rules) -> Iterator[Finding]:
    """Every program exited once, with code 0 unless it was told to end."""
    programs = rules.programs or ()
    exits = history.all(AgentExited)
    for site in programs:
        times = sum(event.who == site for event in exits)
        if times != 1:
            if times:
                yield fail(f"the program at {site} exited {times} times")
            else:
                yield unfinished(history, f"the program at {site} did not exit")
        yield judged()
    stop_ns = history.stop_ns
    for event in exits:
        if event.asked and event.t_ns < stop_ns:
            yield fail(f"the program of {event.who} was told to end before the run stopped")
        if event.who not in programs:
            yield fail(f"{event.who} has no program, but exited")
        if event.code is None:
            yield fail(f"the program of {event.who} exited without a code")
        if event.signal and not event.asked:
            yield fail(f"the program of {event.who} was ended by signal {event.signal}")
        elif event.code and not event.asked:
            yield fail(f"the program of {event.who} exited with code {event.code}")
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site}: {failure.reason}")
    asked = sum(bool(event.asked) for event in exits)
    yield note(f"{len(programs) - asked} programs with code 0, {asked} ended on request")


def programs_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """What programs report is in order: each step ends before the site begins the next one."""
    asked = {event.who for event in history.all(AgentExited) if event.asked}
    exited_ns = {event.who: event.t_ns for event in history.all(AgentExited)}
    start_ns = min((event.t_ns for event in history.all(ProgramsStarted)), default=0)
    computing: dict[str, ComputeStarted] = {}
    for event in history.events:
        site = event.site
        if site not in (rules.programs or ()):
            continue
        if event.t_ns < start_ns:
            yield fail(f"{site} reported {event_name(type(event))} before its program started")
        if event.t_ns > exited_ns.get(site, event.t_ns):
            yield fail(f"{site} reported {event_name(type(event))} after its program had exited")
        match event:
            case ComputeStarted():
                if site in computing:
                    yield fail(f"{site} computes twice at {format_time(event.t_ns)}")
                computing[site] = event
            case ComputeFinished():
                begun = computing.pop(site, None)
                if begun is None or begun.iteration != event.iteration:
                    yield fail(f"{site} had not begun iteration {event.iteration}, but finished it")
        yield judged()
    for site, begun in computing.items():
        if site not in asked:
            yield unfinished(history, f"{site} did not finish iteration {begun.iteration}")


def sites_took_part(history: History, rules: Rules) -> Iterator[Finding]:
    """Every site moved payload, reported something, or made a timed call: else nothing is known.

    Packets of up to HEADER_BYTES prove nothing: connections that time out or are refused need them.
    """
    spoke = {event.site for event in history.all(SyncStarted, ComputeStarted)}
    spoke.update(event.site for event in history.all(CallStarted))
    for run in history.all(RunFinished):
        carried = (each for each in run.links if each.bytes > HEADER_BYTES * each.packets)
        spoke.update(name for each in carried for name in (each.src, each.dst))
    for site in rules.programs or ():
        if site in spoke:
            yield judged()
        else:
            yield doubt(
                f"{site} took no part: its links carried no payload,"
                " and its program reported nothing and made no timed call"
            )


def syncs_ended(history: History, rules: Rules) -> Iterator[Finding]:
    """Each site that began a synchronization ended it; all agree on its size and operation.

    An `allreduce` is of all sites, and none has its result before every site has begun it.
    """
    asked = {event.who for event in history.all(AgentExited) if event.asked}
    meant: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    begun: defaultdict[tuple[int, str], list[Event]] = defaultdict(list)
    ended: defaultdict[tuple[int, str], list[Event]] = defaultdict(list)
    for start in history.all(SyncStarted):
        meant[start.task].add((start.bytes, start.operation))
        begun[start.task, start.site].append(start)
    for end in history.all(SyncFinished):
        ended[end.task, end.site].append(end)
    for task, site in sorted(begun.keys() | ended.keys()):
        starts, ends = begun[task, site], ended[task, site]
        counts = len(starts), len(ends)
        if counts == (1, 0) and site in asked:
            yield excused("the program was told to end", f"task {task} at {site}")
            continue
        if counts != (1, 1):
            text = f"task {task}: {site} began it {counts[0]} times, ended it {counts[1]}"
            yield unfinished(history, text) if counts == (1, 0) else fail(text)
        elif ends and ends[0].t_ns < starts[0].t_ns:
            yield fail(f"task {task}: {site} ended it before it began")
        yield judged()
    for sync in history.syncs:
        left = set(rules.programs or ()) - sync.begun_ns.keys()
        left -= set() if sync.ended_ns else asked
        if sync.operation == "allreduce" and left:
            text = f"task {sync.number}: {', '.join(sorted(left))} never began this allreduce"
            yield fail(text) if sync.ended_ns else unfinished(history, text)
    for task, meanings in meant.items():
        if len(meanings) > 1:
            yield fail(f"task {task}: sites disagree about it: {sorted(meanings)}")
    if meant and sorted(meant) != list(range(min(meant), max(meant) + 1)):
        yield fail("the numbers of the reported tasks have a gap")
    yield note(f"{len(meant)} tasks reported")
