"""Computing takes the modelled time (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import CommandTyped
from trunkline.agents.events.round_events import BranchComputed, ComputeFinished, ComputeStarted
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, TYPED_NS
from trunkline.harness.checks.verdict import Finding, fail, judged, note
from trunkline.harness.record.history import History
from trunkline.workloads.layered.model import LayeredModel

LONGER_S = 1e-3
"""An iteration may take this much longer than modelled on a virtual clock, in seconds: agents wait
to the tick, and 0.02 ms were seen with a thousand sites."""


def computing_takes_time(history: History, rules: Rules) -> Iterator[Finding]:
    """An iteration takes the time of its model; on a real clock it may take longer.

    Time in which the agent was stopped is added. Branches that were computed before the iteration
    began are not counted.
    """
    slack = Slack.of(history, rules)
    branches = _list_branches(history)
    begun: dict[tuple[str, int | None], ComputeStarted] = {}
    spent_s = 0.0
    for event in history.events:
        if isinstance(event, ComputeStarted):
            begun[event.site, event.process] = event
        elif isinstance(event, ComputeFinished) and (event.site, event.process) in begun:
            start = begun.pop((event.site, event.process))
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
        most_s = modelled_s + LONGER_S
        if not self.is_virtual or took_s <= most_s:
            return True
        most_s += self.losses.paused_s(start_ns, end.t_ns, end.site)
        near_ns = start_ns - 10**9, end.t_ns
        most_s += TYPED_NS / 1e9 * sum(near_ns[0] <= t_ns <= near_ns[1] for t_ns in self.typed_ns)
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
