"""Checks of models that are computed branch by branch, while their parameters arrive (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import (
    BranchArrived,
    BranchComputed,
    ComputeFinished,
    ComputeStarted,
)
from trunkline.agents.events.task_events import Contributed, Received, TaskDropped, TaskFinished
from trunkline.harness.checks.computing.compute_checks import Slack
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.network.rate_limits import RATE_TOLERANCE
from trunkline.harness.checks.payload.byte_checks import count_own
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged, note
from trunkline.harness.record.history import History
from trunkline.harness.record.link_history import Conditions
from trunkline.topologies.links import PACKET_BYTES
from trunkline.workloads.layered.model import LayeredModel


def branches_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """Each iteration computes every branch once, base after base, with parameters that are here.

    A branch takes the time of its table, one after the other. The backward computation follows the
    last one. A task that is given up takes the branches with it that were computed by its model.
    """
    slack = Slack.of(history, rules)
    batches = {(each.site, each.iteration): each.batch for each in history.all(ComputeStarted)}
    sites = {
        site: _Site(site, rules, slack, batches)
        for site in rules.topology.site_names
        if site not in rules.servers
    }
    stray = 0
    for event in history.events:
        name = event.who if isinstance(event, AgentChanged) else event.site
        if name in sites:
            yield from sites[name].take(event)
        elif isinstance(event, BranchArrived | BranchComputed):
            stray += 1
    if stray:
        yield fail(f"{stray} branches at sites that compute none")
    yield from _judge_bytes(history, rules)
    if rules.layers is not None:
        yield note(f"{sum(site.judged for site in sites.values())} branches")


def _judge_bytes(history: History, rules: Rules) -> Iterator[Finding]:
    """No branch arrives before so many bytes can have come, by the rates of links.

    A site that was killed has not reported the bytes that it received.
    """
    conditions, losses = Conditions.to_judge(history, rules.topology), Losses.of(history, rules)
    for task in history.tasks:
        own, needed = count_own(task), Counter[str]()
        for event in sorted(task.all(BranchArrived), key=lambda each: each.t_ns):
            needed[event.site] += dict(enumerate(task.started.tensor_bytes)).get(event.branch, 0)
            came = [into for into in task.all(Received) if into.site == event.site]
            if not came or losses.before_report(task, event.site) is not None:
                continue
            first = task.started.chunk_bytes
            most = sum(_count_most(conditions, rules, into, event.t_ns, first) for into in came)
            if needed[event.site] > own[event.site] + most:
                yield fail(
                    f"{event.site} at {format_time(event.t_ns)}: branch {event.branch} of {task}"
                    " arrived before its bytes"
                )


def _count_most(
    conditions: Conditions, rules: Rules, into: Received, until_ns: int, first_bytes: int
) -> float:
    """The most bytes of a payload that can have arrived by a time.

    It starts when all of its first chunk has arrived, of at most `first_bytes`, and ends with its
    last byte.
    """
    if until_ns >= into.end_ns - CLOCK_NS:
        return into.bytes
    if until_ns < into.start_ns - CLOCK_NS:
        return 0
    span = into.start_ns, until_ns + CLOCK_NS
    hops = pairwise(rules.topology.path(into.src, into.site))
    moved = min(conditions.capacity_bytes(hop, [span]) for hop in hops)
    return min(into.bytes - 1, first_bytes + moved * (1 + RATE_TOLERANCE) + PACKET_BYTES)


@dataclass(slots=True)
class _Step:
    """A forward computation: the ends of its branches by their table, in nanoseconds."""

    iteration: int
    task: int | None
    end_ns: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Site:
    """One worker: its step, what arrived for each of its tasks, and its latest iterations."""

    name: str
    rules: Rules
    slack: Slack
    batches: dict[tuple[str, int], int | None]
    step: _Step | None = None
    arrived_ns: defaultdict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    joined: set[int] = field(default_factory=set)
    computing: int | None = None
    finished: int | None = None
    judged: int = 0

    def take(self, event: object) -> Iterator[Finding]:
        """Take in the next event of the site."""
        match event:
            case AgentChanged(do="kill"):
                self.step = self.computing = self.finished = None
                self.joined.clear()
                self.arrived_ns.clear()
            case Contributed(task=task):
                self.joined.add(task)
            case ComputeStarted(iteration=iteration):
                self.computing = iteration
            case BranchArrived():
                yield from self._arrive(event)
            case BranchComputed():
                yield from self._compute(event)
                self.judged += 1
                yield judged()
            case ComputeFinished():
                yield from self._finish(event)
            case TaskFinished(task=task) if task in self.arrived_ns:
                yield from self._check_arrivals(task)
                self.joined.discard(task)
            case TaskDropped(task=task):
                self.joined.discard(task)
                if self.step is not None and self.step.task == task:
                    self.step = None

    def _layers(self, iteration: int) -> LayeredModel | None:
        """The branches of an iteration; None if its batch is not known."""
        if self.rules.layers is None:
            return None
        if (self.name, iteration) in self.batches:
            batch = self.batches[self.name, iteration]
            return self.rules.layers(self.name, iteration, *([] if batch is None else [batch]))
        any_batch = any(batch is not None for batch in self.batches.values())
        return None if any_batch else self.rules.layers(self.name, iteration)

    def _wrong(self, event: BranchArrived | BranchComputed | ComputeFinished, why: str) -> Finding:
        what = f"branch {event.branch}" if not isinstance(event, ComputeFinished) else "iteration"
        return fail(f"{self.name} at {format_time(event.t_ns)}: {what}: {why}")

    def _arrive(self, event: BranchArrived) -> Iterator[Finding]:
        if event.task not in self.joined:
            yield self._wrong(event, f"arrived for task {event.task}, in which it is not")
        if event.branch in self.arrived_ns[event.task]:
            yield self._wrong(event, f"arrived for task {event.task} before")
        self.arrived_ns[event.task].setdefault(event.branch, event.t_ns)

    def _check_arrivals(self, task: int) -> Iterator[Finding]:
        """A site that has the result of a task has all of its branches."""
        if self.rules.layers is None:
            return
        layers = self.rules.layers(self.name, 0)
        missing = set(range(len(layers.branches))) - self.arrived_ns[task].keys()
        if missing:
            yield fail(f"{self.name}: branches {sorted(missing)} of task {task} did not arrive")

    def _compute(self, event: BranchComputed) -> Iterator[Finding]:
        step = self.step
        if step is None or (step.iteration, step.task) != (event.iteration, event.task):
            if step is not None:
                yield self._wrong(event, f"iteration {step.iteration} had not been computed")
            if self.finished is not None and event.iteration != self.finished + 1:
                yield self._wrong(event, f"is of iteration {event.iteration} already")
            if event.task is None and self.computing != event.iteration:
                yield self._wrong(event, f"iteration {event.iteration} had not begun")
            step = self.step = _Step(event.iteration, event.task)
        here_ns = 0
        if event.task is not None:
            here_ns = self.arrived_ns[event.task].get(event.branch, -1)
            if here_ns < 0 or event.start_ns < here_ns - CLOCK_NS:
                yield self._wrong(event, "was computed before it had arrived")
        if event.branch in step.end_ns:
            yield self._wrong(event, "was computed before")
        layers = self._layers(event.iteration)
        if layers is None:
            return
        if event.branch >= len(layers.branches):
            yield self._wrong(event, f"the model has {len(layers.branches)} branches")
            return
        yield from self._check_order(event, step, layers, here_ns)

    def _check_order(
        self, event: BranchComputed, step: _Step, layers: LayeredModel, here_ns: int
    ) -> Iterator[Finding]:
        """Earlier bases are done, and the branch begins as soon as it can."""
        base = layers.base_of[event.branch]
        before = {branch for number in layers.numbers[:base] for branch in number}
        if before - step.end_ns.keys():
            yield self._wrong(event, "an earlier base had not been computed")
        free_ns = max(step.end_ns.values(), default=here_ns)
        if step.end_ns and event.start_ns < free_ns - CLOCK_NS:
            yield self._wrong(event, "began before the branch before it had ended")
        if event.task is not None and event.start_ns > max(free_ns, here_ns) + CLOCK_NS:
            yield self._wrong(event, "did not begin when it could")
        took_s = layers.branches[event.branch].forward_s
        if abs(event.end_ns - event.start_ns - 1e9 * took_s) > 2:
            modelled = f"modelled are {took_s:.6f} s"
            yield self._wrong(
                event, f"took {(event.end_ns - event.start_ns) / 1e9:.6f} s; {modelled}"
            )
        yield from self._check_time(event, event.start_ns, took_s, "forward")
        step.end_ns[event.branch] = event.end_ns

    def _check_time(
        self, event: BranchComputed | ComputeFinished, start_ns: int, modelled_s: float, what: str
    ) -> Iterator[Finding]:
        took_s = (event.t_ns - start_ns) / 1e9
        if not self.slack.is_modelled(took_s, modelled_s, start_ns, event):
            yield self._wrong(event, f"{what} took {took_s:.6f} s; modelled are {modelled_s:.6f} s")

    def _finish(self, event: ComputeFinished) -> Iterator[Finding]:
        self.finished, self.computing = event.iteration, None
        step, self.step = self.step, None
        layers = self._layers(event.iteration)
        if layers is None:
            return
        if step is None or step.iteration != event.iteration:
            yield self._wrong(event, f"{event.iteration} ended without its branches")
            return
        if len(step.end_ns) < len(layers.branches):
            missing = set(range(len(layers.branches))) - step.end_ns.keys()
            yield self._wrong(event, f"{event.iteration} lacks branches {sorted(missing)}")
        last_ns = max(step.end_ns.values(), default=0)
        yield from self._check_time(event, last_ns, layers.backward_s, "backward")
