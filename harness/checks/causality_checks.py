"""Causes come before their effects, by at least the delay of the path between them (pure).

A message cannot arrive before it was sent. So no member has a result before it has the last
contribution, no task completes before its members have finished, and no fault acts before it
begins.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trunkline.agents.events.causes import DecidedWithout
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import CommandTyped
from trunkline.agents.events.round_events import (
    BranchComputed,
    ComputeFinished,
    ComputeStarted,
    Ready,
    WorkerFinished,
)
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import (
    Contributed,
    ContributionTaken,
    Received,
    Routed,
    Sent,
    SiteExcluded,
    TaskAbandoned,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
    TaskJoined,
)
from trunkline.agents.planning.plan import Chunks, Directed
from trunkline.harness.checks.losses import Losses, Span
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS
from trunkline.harness.checks.verdict import (
    Finding,
    excused,
    fail,
    judged,
    note,
)
from trunkline.harness.record.history import History, Task
from trunkline.harness.record.link_history import Conditions
from trunkline.workloads.layered.model import LayeredModel

HANDED_NS = 300
"""Each chunk that a site hands over takes a reading of its clock, and each reading takes time."""

AMID_A_CHUNK = "the sender was amid a chunk when it gave the task up or heard of its end"

DELAY_SHARE, DELAY_SLACK_MS = 0.99, 0.1
"""A path takes at least this share of its delay, less this slack: timers are accurate to 0.1 ms."""

TYPED_S = 0.1
"""A typed command may delay agents for this long, in seconds: it is a process in their kernel."""

LONGER_S, LONGER_SHARE = 3e-3, 0.002
"""An iteration may take this much longer than modelled on a virtual clock, in seconds and as a
share: the agents' event loop rounds waits up to whole milliseconds, and the kernel lets a wait last
0.1 % longer."""


def messages_take_time(history: History, rules: Rules) -> Iterator[Finding]:
    """An agent acts on a message only after it was sent and had time to arrive.

    Judged are the starts of tasks, the reports of results, the ends of tasks and of the run. A
    passive member need not have been ready; a member that waits after a task is not ready again.
    """
    losses, paths = Losses.of(history, rules), Paths(history, rules)
    stop_ns = history.stop_ns
    ready = _list_ready(history)
    waits = _list_waits(history)
    for task in history.tasks:
        told_by = task.started.site
        for given in task.all(Contributed):
            if task.is_passive(given.site):
                continue
            ready_ns = ready.before(given.site, given.t_ns)
            least_ns = ready_ns + paths.control_ns(given.site, told_by)
            if (before := waits.get((given.site, ready_ns), {}).get(task.number)) is not None:
                # It waits since a task has ended, which the controller knew at once.
                least_ns = min(
                    (event.t_ns for event in before.all(TaskCompleted)), default=least_ns
                )
            if rules.barrier and losses.term_of(task.started) is not None:
                text = f"{task} with {given.site} began"
                yield from _after(task.started.t_ns, least_ns, text)
        for joined in task.all(TaskJoined):
            least_ns = task.started.t_ns + paths.control_ns(told_by, joined.site)
            yield from _after(joined.t_ns, least_ns, f"{task}: {joined.site} joined")
        for event in task.all(TaskCompleted):
            yield from _judge_completion(task, event, paths)
        for taken in task.all(ContributionTaken):
            yield from _judge_taking(task, taken, paths)
        for dropped in task.all(TaskDropped):
            yield from _judge_drop(task, dropped, paths, losses)
        yield from _judge_reports(task, paths, losses, stop_ns)
    yield from _judge_departures(history, rules, paths)


def results_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """No member installs a result before the last contribution to it had time to arrive."""
    paths = Paths(history, rules)
    ready = _list_ready(history)
    for task in history.tasks:
        early = task.early
        offered_ns = {
            event.site: ready.before(event.site, event.t_ns) if event.site in early else event.t_ns
            for event in task.inputs
        }
        held = task.shards
        for done in task.all(TaskFinished):
            for site, t_ns in offered_ns.items():
                if not _shares(held, site, done.site):
                    continue
                text = f"{task}: {done.site} had the result"
                yield from _after(done.t_ns, t_ns + paths.payload_ns(site, done.site), text, 0)
            yield judged()


def payload_takes_time(history: History, rules: Rules) -> Iterator[Finding]:
    """Payload takes at least the delay of its link, and a site sends only chunks that it has.

    A site that is killed or has no controller does not report the bytes that it sent.
    """
    losses, paths = Losses.of(history, rules), Paths(history, rules)
    ready = _list_ready(history)
    offers = any(task.early for task in history.tasks)
    for task in history.tasks:
        yield from _judge_offers(task, ready if offers else None)
        yield from _judge_repeats(task)
        joined_ns = {event.site: event.t_ns for event in reversed(task.all(TaskJoined))}
        given_ns = {event.site: event.t_ns for event in reversed(task.all(Contributed))}
        forwarding = _list_forwarding(task)
        sent: defaultdict[tuple[str, str, str], list[Sent]] = defaultdict(list)
        sizes = _list_sizes(task)
        chunks = Counter[str]()
        for out in task.all(Sent):
            chunks[out.site] += out.chunks
        for out in task.all(Sent):
            sent[out.site, out.dst, out.phase].append(out)
            yield from _judge_span(task, out, sizes)
            known_ns = joined_ns.get(out.site, history.end_ns)
            if out.phase in ("in", "out") and out.start_ns < known_ns - CLOCK_NS:
                yield fail(f"{task}: {out.site} sent before it joined the task")
            own_ns = 0 if (out.site, out.dst) in forwarding else given_ns.get(out.site, 0)
            # A worker logs its contribution when it has handed all of its chunks over.
            handed_ns = CLOCK_NS + HANDED_NS * chunks[out.site]
            if out.phase == "in" and out.start_ns < own_ns - handed_ns:
                yield fail(f"{task}: {out.site} sent before it contributed")
        for into in task.all(Received):
            yield from _judge_span(task, into, sizes)
            outs = sent.get((into.src, into.site, into.phase), [])
            if not outs or losses.before_report(task, into.src):
                yield from _excuse_sender(task, into, losses)
                continue
            yield judged()
            least_ns = paths.link_ns(into.src, into.site)
            text = f"{task} on {into.src} -> {into.site}: the first chunk arrived"
            first_ns = min(out.start_ns for out in outs)
            yield from _after(into.start_ns, first_ns + least_ns, text, 0)
            if len(outs) == 1 and outs[0].chunks == into.chunks:
                text = f"{task} on {into.src} -> {into.site}: the last chunk arrived"
                yield from _after(into.end_ns, outs[0].end_ns + least_ns, text, 0)


def _judge_offers(task: Task, ready: _ReadyTimes | None) -> Iterator[Finding]:
    """A contribution is sent early only once its site is ready, and nothing is before the task.

    Without `ready`, no site sends early. A member that was lost may not have logged that it
    contributes: it was ready before the task.
    """
    given_ns = {event.site: event.t_ns for event in reversed(task.all(Contributed))}
    offered_ns = {
        site: ready.before(site, given_ns.get(site, task.started.t_ns))
        for site in task.started.weights
        if ready is not None
    }
    first_ns = min((task.started.t_ns, *offered_ns.values()))
    for out in task.all(Sent):
        least_ns = offered_ns.get(out.site, first_ns) if out.phase == "early" else first_ns
        if out.start_ns < least_ns - CLOCK_NS:
            yield fail(f"{task}: {out.site} sent payload to {out.dst} before there was any")


def _judge_repeats(task: Task) -> Iterator[Finding]:
    """A site that reports its traffic of a task again has had more since."""
    reported_ns: dict[tuple[str, ...], int] = {}
    reports: list[Sent | Received] = [*task.all(Sent, Received)]
    for event in sorted(reports, key=lambda each: each.t_ns):
        ends = (event.site, event.dst) if isinstance(event, Sent) else (event.src, event.site)
        key = (event.phase, type(event).__name__, *ends)
        if event.end_ns < reported_ns.get(key, 0) - CLOCK_NS:
            yield fail(f"{task}: {event.site} reported payload twice")
        reported_ns[key] = event.t_ns


def _list_forwarding(task: Task) -> set[Directed]:
    """Links on which their sources may send for others, before they contribute.

    On all other links they send sums, which have their own contribution in them.
    """
    ways = [edge for block in task.blocks for edge in block.in_edges]
    ways += [event.path for event in task.all(Routed)]
    return {hop for way in ways for hop in pairwise(way[1:])}


def allreduces_take_time(history: History, rules: Rules) -> Iterator[Finding]:
    """No site has the result of a program's all-reduce before every site has begun it."""
    paths = Paths(history, rules)
    for sync in history.syncs:
        if sync.operation != "allreduce":
            continue
        for site, end_ns in sync.ended_ns.items():
            yield judged()
            for other, begun_ns in sync.begun_ns.items():
                least_ns = begun_ns + paths.payload_ns(other, site)
                yield from _after(end_ns, least_ns, f"task {sync.number}: {site} had the result", 0)


def computing_takes_time(history: History, rules: Rules) -> Iterator[Finding]:
    """An iteration takes the time of its model; on a real clock it may take longer.

    Time in which the agent was stopped is added. Branches that were computed before the iteration
    began are not counted.
    """
    slack = Slack.of(history, rules)
    branches = _list_branches(history)
    begun: dict[str, ComputeStarted] = {}
    spent_s = 0.0
    for event in history.events:
        if isinstance(event, ComputeStarted):
            begun[event.site] = event
        elif isinstance(event, ComputeFinished) and event.site in begun:
            start = begun.pop(event.site)
            took_s = (event.t_ns - start.t_ns) / 1e9
            spent_s += took_s
            if rules.compute_s is None or event.site not in rules.topology.site_names:
                continue
            batch = () if start.batch is None else (start.batch,)
            modelled_s = rules.compute_s(event.site, event.iteration, *batch)
            begun_ns = branches.get((event.site, event.iteration))
            if begun_ns and rules.layers is not None:
                layers = rules.layers(event.site, event.iteration, *batch)
                modelled_s -= _sum_ahead_s(layers, begun_ns, start.t_ns)
            if not slack.is_modelled(took_s, modelled_s, start.t_ns, event):
                what = f"iteration {event.iteration} of {event.site} took {took_s:.6f} s"
                yield fail(f"{what}; modelled are {modelled_s:.6f} s")
            yield judged()
    yield note(f"{spent_s:.3f} s of computing")


@dataclass(frozen=True, slots=True)
class Slack:
    """How much longer than modelled computing may take: on a real clock, any time."""

    losses: Losses
    is_virtual: bool
    typed_ns: tuple[int, ...]

    @classmethod
    def of(cls, history: History, rules: Rules) -> Slack:
        """The slack of a run."""
        virtual = history.run is not None and history.run.clock == "virtual"
        typed_ns = tuple(event.t_ns for event in history.all(CommandTyped))
        return cls(Losses.of(history, rules), virtual, typed_ns)

    def is_modelled(self, took_s: float, modelled_s: float, start_ns: int, end: Event) -> bool:
        """Whether a computation that ended with this event took the modelled time."""
        if took_s < modelled_s - CLOCK_NS / 1e9:
            return False
        most_s = modelled_s * (1 + LONGER_SHARE) + LONGER_S
        if not self.is_virtual or took_s <= most_s:
            return True
        most_s += self.losses.paused_s(start_ns, end.t_ns, end.site)
        near_ns = start_ns - 10**9, end.t_ns
        most_s += TYPED_S * sum(near_ns[0] <= t_ns <= near_ns[1] for t_ns in self.typed_ns)
        return took_s <= most_s


def _list_branches(history: History) -> Mapping[tuple[str, int], Mapping[int, int]]:
    """When each branch of an iteration began, with its last model: (site, iteration) -> branch."""
    found: defaultdict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for event in history.all(BranchComputed):
        found[event.site, event.iteration][event.branch] = event.start_ns
    return found


def _sum_ahead_s(layers: LayeredModel, begun_ns: Mapping[int, int], start_ns: int) -> float:
    """The seconds of forward computing that came before an iteration began."""
    spans = (
        (start_ns - branch_ns, round(1e9 * layers.branches[branch].forward_s))
        for branch, branch_ns in begun_ns.items()
        if branch < len(layers.branches)
    )
    return sum(max(0, min(span)) for span in spans) / 1e9


@dataclass(frozen=True)
class Paths:
    """The least time that messages and payload needed between sites, in nanoseconds.

    Links have their smallest delay of the whole run. Messages take the static routes of packets;
    payload may take any path over the overlay.
    """

    history: History
    rules: Rules

    def control_ns(self, src: str, dst: str) -> int:
        """From one agent to another by the routes of packets; 0 for unknown agents."""
        a, b = self._sites.get(src), self._sites.get(dst)
        if a is None or b is None:
            return 0
        hops = pairwise(self.rules.topology.path(a, b))
        return _with_slack_ns(sum(self._least_ms[hop] for hop in hops))

    def payload_ns(self, src: str, dst: str) -> int:
        """From one site to another by the quickest path of links; 0 for unknown sites."""
        ranks = self._ranks
        if src not in ranks or dst not in ranks:
            return 0
        return _with_slack_ns(float(self._quickest_ms[ranks[src], ranks[dst]]))

    def link_ns(self, src: str, dst: str) -> int:
        """Over one link of the overlay; 0 for unknown sites."""
        if src not in self._ranks or dst not in self._ranks:
            return 0
        hops = pairwise(self.rules.topology.path(src, dst))
        return _with_slack_ns(sum(self._least_ms[hop] for hop in hops))

    @cached_property
    def _sites(self) -> Mapping[str, str]:
        own = {site: site for site in self.rules.topology.site_names}
        return own | dict(self.rules.controllers)

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        return {node: rank for rank, node in enumerate(self.rules.topology.node_names)}

    @cached_property
    def _least_ms(self) -> Mapping[tuple[str, str], float]:
        spells = Conditions.of(self.history, self.rules.topology).spells
        return {
            ends: max(0.0, min(spell.link.delay_ms - spell.link.jitter_ms for spell in found))
            for ends, found in spells.items()
        }

    @cached_property
    def _quickest_ms(self) -> NDArray[np.float64]:
        """The quickest path between each two sites (Floyd and Warshall)."""
        ranks = self._ranks
        found = np.full((len(ranks), len(ranks)), np.inf)
        np.fill_diagonal(found, 0.0)
        for (src, dst), delay_ms in self._least_ms.items():
            found[ranks[src], ranks[dst]] = delay_ms
        for via in range(len(ranks)):
            np.minimum(found, found[:, via, None] + found[None, via, :], out=found)
        return found


@dataclass(frozen=True, slots=True)
class _ReadyTimes:
    """When each site was ready, in order of time."""

    times_ns: Mapping[str, list[int]]

    def before(self, site: str, t_ns: int) -> int:
        """The site's last time ready until `t_ns`; 0 if it never was."""
        return max((each for each in self.times_ns.get(site, ()) if each <= t_ns), default=0)


def _list_ready(history: History) -> _ReadyTimes:
    times_ns: defaultdict[str, list[int]] = defaultdict(list)
    for event in history.all(Ready):
        times_ns[event.site].append(event.t_ns)
    return _ReadyTimes(times_ns)


def _list_waits(history: History) -> Mapping[tuple[str, int], Mapping[int, Task]]:
    """By site and its time ready: its later tasks, and the task after which it waited for each."""
    tasks = {task.number: task for task in history.tasks}
    found: defaultdict[tuple[str, int], dict[int, Task]] = defaultdict(dict)
    ready_ns: dict[str, int] = {}
    last: dict[str, Task] = {}
    for event in history.events:
        match event:
            case Ready():
                ready_ns[event.site] = event.t_ns
                last.pop(event.site, None)
            case Contributed(task=number) if (task := tasks.get(number)) is not None:
                if task.is_passive(event.site):
                    continue
                if event.site in last:
                    found[event.site, ready_ns.get(event.site, 0)][number] = last.pop(event.site)
                if task.waits:
                    last[event.site] = task
    return found


def _with_slack_ns(delay_ms: float) -> int:
    return max(0, round((delay_ms * DELAY_SHARE - DELAY_SLACK_MS) * 1e6))


def _after(t_ns: int, least_ns: int, what: str, objects: int = 1) -> Iterator[Finding]:
    """Judge that something happened at `least_ns` or later."""
    if t_ns < least_ns - CLOCK_NS:
        early_ms = (least_ns - t_ns) / 1e6
        yield fail(f"{what} at {t_ns / 1e9:.6f} s, {early_ms:.3f} ms too early")
    if objects:
        yield judged(objects)


def _judge_completion(task: Task, event: TaskCompleted, paths: Paths) -> Iterator[Finding]:
    """A task is complete when all of its receivers but those in `without` have reported."""
    finished_ns = {done.site: done.t_ns for done in reversed(task.all(TaskFinished))}
    for site in set(event.without) - set(task.started.receivers):
        yield fail(f"{task} was completed without {site}, which is not a member")
    for site in task.started.receivers:
        if site in event.without:
            continue
        if site not in finished_ns:
            yield fail(f"{task} was completed, but {site} did not finish it")
            continue
        least_ns = finished_ns[site] + paths.control_ns(site, event.site)
        text = f"{task}: the {event.site} knew of {site} and completed the task"
        yield from _after(event.t_ns, least_ns, text)


def _judge_taking(task: Task, taken: ContributionTaken, paths: Paths) -> Iterator[Finding]:
    """A contributor learns from a controller that the task is completed."""
    name = f"{task}: {taken.site} learned of its end"
    told_ns = [
        event.t_ns + paths.control_ns(event.site, taken.site) for event in task.all(TaskCompleted)
    ]
    if told_ns:
        yield from _after(taken.t_ns, min(told_ns), name)
    else:
        yield judged()
        yield fail(f"{name}, but no controller completed it")


def _shares(held: Mapping[str, Chunks], contributor: str, receiver: str) -> bool:
    """Whether a contribution is a part of what a receiver gets, if members hold shards."""
    if contributor not in held or receiver not in held:
        return True
    return any(a < d and c < b for a, b in held[contributor] for c, d in held[receiver])


def _judge_drop(
    task: Task, dropped: TaskDropped, paths: Paths, losses: Losses
) -> Iterator[Finding]:
    """A member gives a task up when a controller tells it to, or when it has no controller."""
    contributed = [event.t_ns for event in task.all(Contributed) if event.site == dropped.site]
    since_ns = contributed[0] if contributed else task.started.t_ns
    if dropped.cause != DecidedWithout():
        since_ns = dropped.t_ns - CLOCK_NS
    alone = losses.find(losses.without_controller(dropped.site), since_ns, dropped.t_ns)
    if alone is not None:
        yield excused(
            "the member had no controller", f"{_member(task, dropped)}: {losses.explain(alone)}"
        )
        return
    told_ns = [
        event.t_ns + paths.control_ns(event.site, dropped.site)
        for event in task.all(TaskCompleted, TaskAbandoned)
    ]
    if not told_ns:
        yield fail(f"{_member(task, dropped)} gave up, but no controller ended the task")
    else:
        yield from _after(dropped.t_ns, min(told_ns), f"{_member(task, dropped)} gave up")


def _judge_reports(task: Task, paths: Paths, losses: Losses, stop_ns: int) -> Iterator[Finding]:
    """A site reports its traffic when a controller ends the task, or when the run ends.

    A site without a controller reports when it gives the task up.
    """
    reported_ns = {e.site: e.t_ns for e in reversed(task.all(Sent))}
    reported_ns |= {e.site: e.t_ns for e in reversed(task.all(Received))}
    for site, t_ns in sorted(reported_ns.items()):
        ends = task.all(TaskCompleted, TaskAbandoned)
        told_ns = [event.t_ns + paths.control_ns(event.site, site) for event in ends]
        if any(told <= t_ns + CLOCK_NS for told in told_ns) or t_ns >= stop_ns:
            yield judged()
        elif lost := losses.find(losses.without_controller(site), task.started.t_ns, t_ns):
            text = f"{task}: {site} reported its traffic; {losses.explain(lost)}"
            yield excused("the site had no controller", text)
        else:
            yield judged()
            at = f"{t_ns / 1e9:.6f} s"
            yield fail(f"{task}: {site} reported its traffic at {at}, before its end")


def _judge_departures(history: History, rules: Rules, paths: Paths) -> Iterator[Finding]:
    """A worker finishes when it has done its rounds, is excluded, or a controller stops the run."""
    iterations: dict[str, int] = {}
    limit = rules.stop.rounds
    stops = history.all(Stopping)
    excluded = history.all(SiteExcluded)
    for event in history.events:
        if isinstance(event, ComputeStarted):
            iterations[event.site] = event.iteration + 1
        elif isinstance(event, WorkerFinished):
            if limit is not None and iterations.get(event.site, 0) >= limit:
                yield judged()
                continue
            orders = [*stops, *(each for each in excluded if each.worker == event.site)]
            told_ns = [order.t_ns + paths.control_ns(order.site, event.site) for order in orders]
            if not told_ns:
                yield fail(f"{event.site} finished, but no controller stopped it or the run")
            else:
                yield from _after(event.t_ns, min(told_ns), f"{event.site} finished")


def _list_sizes(task: Task) -> tuple[int, ...]:
    """The sizes of a model's chunks, ascending."""
    cut = task.cut
    return tuple(sorted({cut.size(index) for index in range(cut.count)}))


def _judge_span(task: Task, event: Sent | Received, sizes: tuple[int, ...]) -> Iterator[Finding]:
    if not event.start_ns <= event.end_ns <= event.t_ns + CLOCK_NS:
        yield fail(f"{task}: payload at {event.site} ended before it began or later")
    least, most = sizes[0], sizes[-1]
    fits = event.chunks * least <= event.bytes <= event.chunks * most
    if len(sizes) == 2:  # all chunks are equal but the last one
        fits &= (event.bytes - event.chunks * least) % (most - least) == 0
    if not fits or not event.chunks:
        yield fail(f"{task}: {event.bytes} B in {event.chunks} chunks at {event.site}")


def _excuse_sender(task: Task, into: Received, losses: Losses) -> Iterator[Finding]:
    """Excuse a sender that did not report.

    It was killed before its report, or it sent early and was lost before it learned of the task. Or
    it was amid one chunk when it gave the task up, or when it heard of the task's end, and the
    receiver, which had no controller then, did not hear of it.
    """
    lost = losses.before_report(task, into.src)
    text = f"{task} on {into.src} -> {into.site}"
    if lost is None and into.chunks == 1:
        away = _find_given_up(task, into, losses)
        report_ns = min((e.t_ns for e in task.all(Sent) if e.site == into.src), default=into.end_ns)
        if away is None and report_ns < into.end_ns:
            away = losses.find(losses.without_controller(into.site), report_ns, report_ns)
        if away is not None:
            yield excused(AMID_A_CHUNK, f"{text}: {losses.explain(away)}")
            return
    if lost is None and into.phase == "early":
        lost = losses.lost_before_joining(task, into.src)
    if lost is None:
        yield fail(f"{text}: {into.bytes} bytes arrived, and {into.src} does not report them")
    else:
        yield excused(
            "the sender was lost before it reported, or forgot an offer",
            f"{text}: {losses.explain(lost)}",
        )


def _find_given_up(task: Task, into: Received, losses: Losses) -> Span | None:
    """Why the sender of a chunk gave the task up by itself before all of it had arrived.

    It reports no chunk that it has not handed over. The receivers hear that it takes no part after
    the chunk, so they report it.
    """
    drops_ns = [event.t_ns for event in task.all(TaskDropped) if event.site == into.src]
    alone = losses.without_controller(into.src)
    spans = (losses.find(alone, t_ns, t_ns) for t_ns in drops_ns if t_ns < into.end_ns)
    return next(filter(None, spans), None)


def _member(task: Task, event: TaskDropped) -> str:
    return f"{task}: {event.site}"
