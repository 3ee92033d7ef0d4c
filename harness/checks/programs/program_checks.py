"""The checks of a run of programs: their reports are in order, and they ended (pure).

Only what programs report is known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trunkline.agents.events.background_events import BackgroundReceived, BackgroundSent
from trunkline.agents.events.call_events import CallStarted
from trunkline.agents.events.event_writing import event_name
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    SyncFinished,
    SyncStarted,
)
from trunkline.agents.events.run_events import (
    AgentExited,
    AgentFailed,
    ProgramStarted,
    RunFinished,
)
from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks.frame.run_checks import check_kills
from trunkline.harness.checks.network.background_checks import measure_background
from trunkline.harness.checks.programs.lifecycle_checks import list_failures, list_given_up
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
from trunkline.harness.config.units import count_of, join_words
from trunkline.harness.network.interface import EMPTY_PACKET_BYTES
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.workloads.program_roles import site_of

NAMED = 6
"""The most programs that a finding names."""


def programs_exited(history: History, rules: Rules) -> Iterator[Finding]:
    """Every process of a program exited once, as the scenario allows or because of a fault.

    The exit code of one that was told to end means nothing.
    """
    programs = rules.programs or {}
    exits = history.all(AgentExited)
    missing = []
    for name in programs:
        found = _count_processes(history, name)
        if found.ended > found.begun:
            times = count_of(found.ended, "time")
            yield fail(f"the program at {name} exited {times}, not {found.begun}")
        elif found.ended < found.begun:
            missing.append(name if found.begun == 1 else f"{name} (attempt {found.ended})")
        yield judged()
    if missing:
        which = "the program" if len(missing) == 1 else "the programs"
        named = "; stop: {exit: [...]} can name those for which a run waits"
        hint = named if rules.stop.exit == "all" else ""
        yield unfinished(history, f"{which} at {', '.join(missing)} did not exit{hint}")
    ends = [e for e in history.all(AgentChanged) if e.do in ("kill", "leave")]
    by_fault = {(event.who, event.fault): event.do for event in ends}
    for event in exits:
        early = event.t_ns < history.stop_ns
        do = "" if event.fault is None else by_fault.get((event.who, event.fault), "nothing")
        if event.who not in programs:
            yield fail(f"{event.who} has no program, but exited")
        if event.code is None:
            yield fail(f"the program of {event.who} exited without a code")
        if do == "nothing":
            yield fail(f"{event.who} exited by fault {event.fault}, which did not end it")
        if do == "kill" and (event.signal, event.code) != (9, 0):
            how = f"signal {event.signal} and code {event.code}"
            yield fail(f"{event.who} exited by {how}; a kill gives 9 and 0")
        if event.asked and early and do != "leave":
            yield fail(f"the program of {event.who} was told to end before the run stopped")
        if do in ("kill", "leave") and event.asked is not (do == "leave") and early:
            yield fail(f"{event.who} exited by a {do}; it was told to end: {event.asked}")
    yield from check_kills(history)
    failures = list_failures(history, programs)
    given_up = list_given_up(history, programs)
    alike: dict[tuple[int | None, int | None, str], list[str]] = {}
    for event in failures:
        often = f" {programs[event.who].last_restart}" if event.who in given_up else ""
        alike.setdefault((event.signal, event.code, often), []).append(event.who)
    for (signal, code, often), who in alike.items():
        be, plural = ("were", "s") if len(who) > 1 else ("was", "")
        how = f"{be} ended by signal {signal}" if signal else f"exited with code {code}"
        yield fail(f"the program{plural} of {_name(who)} {how}{often}")
    for failure in history.all(AgentFailed):
        yield fail(f"{failure.site}: {failure.reason}")
    asked = sum(bool(event.asked) for event in exits)
    killed = sum(event.fault is not None and not event.asked for event in exits)
    words = f"{len(exits) - asked - killed - len(failures)} exits that are allowed"
    yield note(f"{words}, {asked} on request" + f", {killed} by faults" * bool(killed))


def _name(programs: Sequence[str]) -> str:
    """Programs in words; of many, the first ones."""
    left = programs[NAMED:]
    return join_words([*programs[:NAMED], *[f"{len(left)} others"] * bool(left)])


class _Processes(NamedTuple):
    begun: int
    ended: int


def _count_processes(history: History, name: str) -> _Processes:
    """How many processes of a program should have exited, and how many did."""
    moments = history.programs.of_program(name)
    ended = sum(isinstance(each.event, AgentExited) for each in moments)
    again = sum(
        each.event.do == "restart"
        if isinstance(each.event, AgentChanged)
        else isinstance(each.event, ProgramStarted) and each.step.before is Doing.ENDED
        for each in moments
    )
    return _Processes(1 + again, ended)


def programs_follow_the_protocol(history: History, rules: Rules) -> Iterator[Finding]:
    """What programs report is in order: each step ends before its process begins the next one.

    A process that a launcher ends in the midst of a step, and replaces, is excused.
    """
    cut = set(_list_cut(history, rules))
    spans: defaultdict[str, list[Interval]] = defaultdict(list)
    for name, program in (rules.programs or {}).items():
        spans[program.site] += history.programs.runs(name)
    computing: dict[tuple[str, int | None], ComputeStarted] = {}
    latest: dict[str, ComputeStarted] = {}
    for event in history.events:
        if isinstance(event, AgentExited):
            site = site_of(event.who)
            if (site, event.t_ns) in cut:
                computing = {key: begun for key, begun in computing.items() if key[0] != site}
            continue
        site = event.site
        if site not in rules.program_sites:
            continue
        if not _is_within(event.t_ns, spans[site]):
            yield fail(
                f"{site} reported {event_name(type(event))} at {format_time(event.t_ns)}, when no"
                " program of it ran"
            )
        match event:
            case ComputeStarted():
                if (site, event.process) in computing:
                    yield fail(f"{site} computes twice at {format_time(event.t_ns)}")
                computing[site, event.process] = latest[site] = event
            case ComputeFinished():
                begun = computing.pop((site, event.process), None)
                if begun is None or begun.iteration != event.iteration:
                    yield fail(f"{site} had not begun iteration {event.iteration}, but finished it")
        yield judged()
    for (site, process), begun in computing.items():
        if latest[site].process != process:
            yield excused("another process of the site went on", f"{site}, process {process}")
        else:
            yield unfinished(history, f"{site} did not finish iteration {begun.iteration}")


def _list_cut(history: History, rules: Rules) -> list[tuple[str, int]]:
    """The sites whose programs ended in the midst of something, and when.

    A program was told to end, a fault killed it, or it was started again after its own exit. Only
    programs of roles that report count: those that ran whenever their site reported something.
    """
    told: defaultdict[str, list[int]] = defaultdict(list)
    for each in history.all(SyncStarted, SyncFinished):
        told[each.site].append(each.t_ns)
    for step in history.all(ComputeStarted, ComputeFinished):
        told[step.site].append(step.t_ns)
    programs = (rules.programs or {}).values()
    roles = {
        program.role
        for program in programs
        if told[program.site]
        and all(
            _is_within(t_ns, history.programs.runs(program.name)) for t_ns in told[program.site]
        )
    }
    found = []
    for program in programs:
        moments = history.programs.of_program(program.name) if program.role in roles else ()
        last_ns = max((e.t_ns for e in moments if isinstance(e.event, ProgramStarted)), default=0)
        for moment in moments:
            event = moment.event
            if isinstance(event, AgentExited) and (
                event.asked or event.fault is not None or last_ns > event.t_ns
            ):
                found.append((program.site, event.t_ns))
    return found


def _is_within(t_ns: int, spans: Sequence[Interval]) -> bool:
    return any(start_ns <= t_ns <= end_ns for start_ns, end_ns in spans)


def sites_took_part(history: History, rules: Rules) -> Iterator[Finding]:
    """Every site moved payload, reported something, or made a timed call: else nothing is known.

    Packets of up to EMPTY_PACKET_BYTES on a link prove nothing: connections that time out or are
    refused need them. So the kernel's counts of what TCP and UDP sent decide, if any packet was on
    a link. A link counts a packet after its delay, so packets that are on their way at the end do
    not count. Neither does what found no socket where it arrived, nor background traffic: of a site
    that sends files of it, only what its links carried besides decides.
    """
    spoke = {event.site for event in history.all(SyncStarted, ComputeStarted)}
    spoke.update(event.site for event in history.all(CallStarted))
    background, packets = measure_background(history, rules.topology, rules.flows)
    sent = set[str]()
    for run in history.all(RunFinished):
        linked = set[str]()
        for link in run.links:
            hop = link.src, link.dst
            own_bytes, own_packets = link.bytes - background[hop], link.packets - packets[hop]
            refused = min(max(own_packets, 0), _count_refused(run, hop))
            linked.update(hop if own_packets > refused else ())
            small_bytes = EMPTY_PACKET_BYTES * (max(own_packets, 0) - refused)
            spoke.update(hop if own_bytes > small_bytes + rules.frame_bytes * refused else ())
        yield from _check_senders(history, rules, run)
        own = _find_senders(history, rules, run)
        spoke |= linked & own
        sent |= own
    idle = [site for site in rules.program_sites if site not in spoke]
    early = ", ".join(site for site in idle if site in sent)
    yield judged(len(rules.program_sites) - len(idle))
    if idle:
        besides = " besides background traffic" * bool(rules.flows)
        yield doubt(
            f"{', '.join(idle)} took no part: no packet with data{besides} was delivered from or to"
            " these sites, and their programs reported nothing and made no timed call"
            + f" ({early} sent data, to themselves or too late to be delivered)"
            * bool(early)
        )


def _find_senders(history: History, rules: Rules, run: RunFinished) -> set[str]:
    """The sites whose TCP or UDP surely had data of their programs.

    Which of the packets that UDP sent were refused is not known: more were sent than in all.
    """
    if run.datagrams is None:
        return {*(run.with_data or ())} - {flow.src for flow in rules.flows}
    files = {flow.src for flow in rules.flows if flow.entry.kind == "tcp"}
    sent, received = _count_packets(history, rules)
    refused = sum(each.refused for each in run.datagrams)
    found = {*(run.with_data or ())} - files
    for each in run.datagrams:
        if each.received > received[each.site] or each.sent - sent[each.site] > refused:
            found.add(each.site)
    return found


def _count_packets(history: History, rules: Rules) -> tuple[Counter[str], Counter[str]]:
    """The packets of background traffic that each site sent, and those that each received."""
    sent, received = Counter[str](), Counter[str]()
    flows = {flow.number: flow for flow in rules.flows}
    for out in history.all(BackgroundSent):
        sent[flows[out.flow].src if out.flow in flows else ""] += out.packets
    for into in history.all(BackgroundReceived):
        received[flows[into.flow].dst if into.flow in flows else ""] += into.packets
    return sent, received


def _check_senders(history: History, rules: Rules, run: RunFinished) -> Iterator[Finding]:
    """Each site has one count of datagrams, with background traffic; with_data names sites once."""
    sites = sorted(rules.topology.site_names)
    named = Counter(run.with_data or ())
    for site, times in sorted(named.items()):
        if site not in sites or times > 1:
            yield fail(f"{site} is {count_of(times, 'time')} among the sites with data")
    if run.datagrams is None:
        return
    if sorted(each.site for each in run.datagrams) != sites:
        yield fail("datagrams are not counted once for each site")
    sent, received = _count_packets(history, rules)
    for each in run.datagrams:
        if each.sent < sent[each.site] or each.received < received[each.site]:
            text = f"{each.sent} datagrams sent and {each.received} received"
            least = f"{sent[each.site]} and {received[each.site]} of background traffic"
            yield fail(f"{each.site}: {text}, but {least}")


def _count_refused(run: RunFinished, hop: Directed) -> int:
    """How many packets of a link may have found no socket, or say so of others, at most."""
    refused = {each.site: each.refused for each in run.datagrams or ()}
    if refused.keys() >= {*hop}:
        return refused[hop[0]] + refused[hop[1]]
    return sum(refused.values())  # one end is a router


def syncs_ended(history: History, rules: Rules) -> Iterator[Finding]:
    """Each site that began a synchronization ended it; all agree on its size and operation.

    An `allreduce` is of all sites, and none has its result before every site has begun it.
    """
    cuts = _list_cut(history, rules)
    silent = {site: _find_silent(history, site, cuts) for site in rules.program_sites}
    meant: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    said: defaultdict[tuple[int, str], list[SyncStarted | SyncFinished]] = defaultdict(list)
    for start in history.all(SyncStarted):
        meant[start.task].add((start.bytes, start.operation))
    for event in history.events:
        if isinstance(event, SyncStarted | SyncFinished):
            said[event.task, event.site].append(event)
    for (task, site), events in sorted(said.items(), key=lambda item: item[0]):
        yield from _check_sync(history, task, site, events, [t for each, t in cuts if each == site])
    for sync in history.syncs:
        end_ns = max(sync.ended_ns.values(), default=history.end_ns)
        left = {
            site
            for site in set(rules.program_sites) - sync.begun_ns.keys()
            if not any(since <= end_ns and sync.start_ns <= end for since, end in silent[site])
        }
        if sync.operation == "allreduce" and left:
            text = f"task {sync.number}: {', '.join(sorted(left))} never began this allreduce"
            yield fail(text) if sync.ended_ns else unfinished(history, text)
    for task, meanings in meant.items():
        if len(meanings) > 1:
            yield fail(f"task {task}: sites disagree about it: {sorted(meanings)}")
    if meant and sorted(meant) != list(range(min(meant), max(meant) + 1)):
        yield fail("the numbers of the reported tasks have a gap")
    yield note(f"{len(meant)} tasks reported")


def _check_sync(
    history: History,
    task: int,
    site: str,
    events: Sequence[SyncStarted | SyncFinished],
    cuts: Sequence[int],
) -> Iterator[Finding]:
    """A site begins a synchronization once and ends it, unless its program is cut meanwhile."""
    starts = [event.t_ns for event in events if isinstance(event, SyncStarted)]
    ends = [event.t_ns for event in events if isinstance(event, SyncFinished)]
    done = [event.t_ns for event in history.all(SyncFinished) if event.site == site]
    cut = [
        since
        for since in starts
        if any(since <= t_ns and not any(since < e < t_ns for e in done) for t_ns in cuts)
    ]
    text = f"task {task}: {site} began it {len(starts)} times, ended it {len(ends)}"
    open_ns = [t_ns for t_ns in starts if not any(end_ns >= t_ns for end_ns in ends)]
    if ends and (not starts or ends[0] < starts[0]):
        yield fail(f"task {task}: {site} ended it before it began")
    elif len(ends) > len(starts) or len(starts) - len(cut) > 1:
        yield fail(text)
    elif open_ns and open_ns[-1] in cut:
        yield excused("the program ended first", f"task {task} at {site}")
        return
    elif open_ns:
        yield unfinished(history, text)
    yield judged()


def _find_silent(history: History, site: str, cuts: Sequence[tuple[str, int]]) -> list[Interval]:
    """From each time at which a program of a site was cut to its next synchronization."""
    told = [event.t_ns for event in history.all(SyncStarted) if event.site == site]
    found = []
    for cut_site, t_ns in cuts:
        if cut_site == site:
            later = [each for each in told if each > t_ns]
            found.append((t_ns, min(later, default=history.end_ns)))
    return found
