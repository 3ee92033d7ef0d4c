"""Plans that know all rates exactly: what awareness would find if it made no error (pure).

The rates are those that the timeline sets, so they are known only if nothing else changes links.
What users change by hand during a run stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from trunkline.agents.events.event import Kind, Log, P
from trunkline.agents.events.task_events import TaskStarted
from trunkline.agents.planning.plan import Directed
from trunkline.harness.faults.fault_steps import LinkStep
from trunkline.harness.faults.fault_types import Redraw, SetLink
from trunkline.harness.faults.recorded.recorded_faults import Trace
from trunkline.harness.faults.timeline import Timeline
from trunkline.harness.scenario.settings import Scenario


def find_refusal(scenario: Scenario) -> tuple[str, str] | None:
    """The key of the scheme that does not go with exact rates, and why; None if all do."""
    scheme = scenario.scheme
    if scheme.rates != "exact":
        return None
    if scheme.rate_error_percent:
        return "rate_error", "expected 0 % with rates: exact"
    others = [e for e in scenario.timeline if not isinstance(e.fault, Redraw | SetLink | Trace)]
    others += [e for e in scenario.timeline if isinstance(e.fault, Trace) and e.fault.has_outages]
    if others:
        allowed = f"{Redraw.VERB}, {SetLink.VERB} and {Trace.VERB} without outages"
        return "rates", f"only with a timeline of {allowed}; it has {others[0].fault.VERB}"
    if scenario.failover.backup:
        return "rates", "only without failover.backup, which does not know when the timeline began"
    return None


class ExactRates:
    """The rates that the timeline has set by now. The timeline begins with the first task."""

    def __init__(self, scenario: Scenario, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._timeline = Timeline(scenario.topology, scenario.timeline, scenario.seed)
        self._links_mbps = scenario.topology.rates_mbps()
        own = {link: (link,) for link in scenario.topology.overlay.rates_mbps()}
        self._paths = scenario.topology.overlay_paths() or own
        self._start_ns: int | None = None

    def watch(self, log: Log) -> Log:
        """A log that passes events on to `log`, and learns from them when the timeline begins."""

        def note(kind: Kind[P], *values: P.args, **fields: P.kwargs) -> None:
            if kind is TaskStarted and self._start_ns is None:
                self._start_ns = self._now_ns()
            log(kind, *values, **fields)

        return note

    def latest_mbps(self) -> dict[Directed, float]:
        """The rate of each link of the overlay in Mbit/s."""
        if self._start_ns is not None:
            for step in self._timeline.advance(self._now_ns() - self._start_ns):
                if isinstance(step, LinkStep):
                    self._links_mbps[step.after.src, step.after.dst] = step.after.rate_mbps
        return {
            pair: min(self._links_mbps[link] for link in path) for pair, path in self._paths.items()
        }
