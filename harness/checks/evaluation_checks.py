"""Evaluations: at equal times, of the models that the sites had; and the stop that follows (pure).

What a model gets right cannot be computed from the log. But the log has the fingerprint of each
model, and fingerprints are linear: so that of the evaluated model is the mean of the workers', or
the sum of the servers', which share the model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trunkline.agents.events.causes import NoProgress, TargetReached
from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.agents.events.event import RUNNER
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import ComputeStarted
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import Evaluated
from trunkline.harness.checks.model_checks import check_linear, models_when_evaluated
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS, Tolerances
from trunkline.harness.checks.verdict import Finding, fail, format_time, judged, note
from trunkline.harness.record.history import History
from trunkline.harness.record.targets import find_end


def evaluations_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """Each evaluation is at its time, of the models that the sites had then, and plausible."""
    if history.all(Evaluated):
        yield fail("a site measured the result of a task, which only programs do")
    evaluated = history.all(ModelEvaluated)
    if evaluated and not rules.scenario.evaluated:
        yield fail("models were evaluated, but those of this workload have no accuracy")
        return
    yield from _check_times(history, rules)
    absent = _Absence.of(history)
    for event in evaluated:
        yield judged()
        yield from _check_values(event)
        yield from _check_sites(event, rules, absent)
        yield from _check_sum(event)
    qualities: dict[str, ModelEvaluated] = {}
    for event in evaluated:
        same = qualities.setdefault(event.digest, event)
        if _quality(same) != _quality(event):
            yield fail(f"{_name(event)} and {_name(same)} differ, but are of the same model")
    for event, each, known in models_when_evaluated(history, rules):
        if each.digest != known:
            yield fail(f"{_name(event)}: {each.site} had another model then")


def evaluations_end_runs(history: History, rules: Rules) -> Iterator[Finding]:
    """The run stopped at the evaluation that completed a row, and at no other.

    That is a row at the target, or one without progress. If another condition ended the run before
    that, there need be none.
    """
    stop = rules.stop
    if not stop.is_evaluated:
        return
    yield judged()
    evaluated = history.all(ModelEvaluated)
    found = find_end(evaluated, stop)
    stops = history.all(Stopping)
    by_row = [event for event in stops if isinstance(event.cause, TargetReached | NoProgress)]
    if found is None:
        for event in by_row:
            yield fail(f"{str(event.cause)!r} was said, but no row of evaluations reached it")
        best = max((event.accuracy_percent for event in evaluated), default=0.0)
        least = min((event.loss for event in evaluated), default=math.nan)
        text = f"best accuracy {best:.2f} %, least loss {least:.3g}"
        text = f"not reached: {text}" if stop.has_target else f"still making progress: {text}"
        yield note(text if evaluated else "no evaluation was due")
        return
    first, last, cause = found
    yield note(f"{cause}, from {format_time(first.t_ns)} on")
    for event in by_row:
        if event.cause != cause:
            yield fail(f"{str(event.cause)!r} was said, but {cause}")
        if event.t_ns < last.t_ns:
            yield fail(f"{str(event.cause)!r} was said before, at {format_time(event.t_ns)}")
    for later in evaluated:
        if later.number > last.number:
            yield fail(f"{cause} at {format_time(last.t_ns)}, but {_name(later)} came later")
    changed = any(event.who in rules.controllers for event in history.all(AgentChanged))
    # A controller hears of it when all agents are connected, and they compute at once then.
    begun_ns = min((event.t_ns for event in history.all(ComputeStarted)), default=0)
    late_ns = max(last.t_ns, begun_ns) + Tolerances.of(history).target_ns
    if stops and history.stop_ns > late_ns and not changed:
        when = format_time(history.stop_ns)
        yield fail(f"{cause} at {format_time(last.t_ns)}, but the run went on until {when}")


def _check_times(history: History, rules: Rules) -> Iterator[Finding]:
    """Evaluation k is at k times the period, from 1 on until the run stops or they end it.

    On a real clock, evaluations are late, and some are missing. Others are missing only while a
    site is down whose model is needed.
    """
    scenario, evaluated = rules.scenario, history.all(ModelEvaluated)
    if history.run is None or not scenario.evaluated:
        return
    real = history.run.clock == "real"
    every_ns = round(scenario.evaluation.every_s * 1e9)
    for event in evaluated:
        due_ns = event.number * every_ns
        if event.t_ns < due_ns or (not real and event.t_ns != due_ns):
            yield fail(f"{_name(event)} was due at {format_time(due_ns)}")
    numbers = [event.number for event in evaluated]
    if numbers != sorted({*numbers}):
        yield fail("the numbers of evaluations do not rise")
    if real:
        return
    # Until the stop; in a log without one, until the last event of an agent.
    by_agents = (event.t_ns for event in history.events if event.site != RUNNER)
    end_ns = min(history.stop_ns, max(by_agents, default=0))
    if (found := find_end(evaluated, rules.stop)) is not None:
        end_ns = min(end_ns, found[1].t_ns)
    absent = _Absence.of(history)
    for number in range(1, end_ns // every_ns + 1):
        if number not in numbers and not _may_be_missing(number * every_ns, rules, absent):
            yield fail(f"evaluation {number} is missing")


@dataclass(frozen=True, slots=True)
class _Absence:
    """When the processes of sites were gone: from each kill to the restart that followed."""

    spans: Mapping[str, list[tuple[int, int]]]
    noticed_ns: int

    @classmethod
    def of(cls, history: History) -> _Absence:
        found = defaultdict[str, list[tuple[int, int]]](list)
        for event in history.all(AgentChanged):
            if event.do == "kill":
                found[event.who].append((event.t_ns, history.end_ns))
            elif event.do == "restart" and found[event.who]:
                found[event.who].append((found[event.who].pop()[0], event.t_ns))
        return cls(found, Tolerances.of(history).kill_ns)

    def is_possible(self, site: str, t_ns: int) -> bool:
        """Whether a site may have had no model then: a kill or a restart takes its time."""
        spans = self.spans.get(site, ())
        return any(a - CLOCK_NS <= t_ns <= b + self.noticed_ns for a, b in spans)

    def is_certain(self, site: str, t_ns: int) -> bool:
        """Whether a site can have had no model then."""
        spans = self.spans.get(site, ())
        return any(a + self.noticed_ns < t_ns < b - CLOCK_NS for a, b in spans)


def _may_be_missing(t_ns: int, rules: Rules, absent: _Absence) -> bool:
    gone = (absent.is_possible(site, t_ns) for site in rules.scenario.evaluated)
    return any(gone) if rules.scenario.evaluation.of == "server" else all(gone)


def _quality(event: ModelEvaluated) -> tuple[float, float | None, int]:
    """What was measured; of training that diverged, the loss is no number."""
    loss = None if math.isnan(event.loss) else event.loss
    return event.accuracy_percent, loss, event.samples


def _check_values(event: ModelEvaluated) -> Iterator[Finding]:
    if not 0 <= event.accuracy_percent <= 100 or event.samples < 1:
        said = f"{event.accuracy_percent:g} % of {event.samples} samples"
        yield fail(f"{_name(event)} found {said}")


def _check_sites(event: ModelEvaluated, rules: Rules, absent: _Absence) -> Iterator[Finding]:
    """The models are of all sites that they must be of, in their order."""
    scenario = rules.scenario
    if event.of != scenario.evaluation.of:
        yield fail(f"{_name(event)} is of {event.of}, not {scenario.evaluation.of}")
    sites = [each.site for each in event.models]
    known = [
        site
        for site in scenario.evaluated
        if site in sites or not absent.is_possible(site, event.t_ns)
    ]
    if event.of == "member":
        known = known[:1]
    if sites != known:
        yield fail(f"{_name(event)} is of {', '.join(sites)}, not of {', '.join(known)}")
    for site in sites:
        if absent.is_certain(site, event.t_ns):
            yield fail(f"{_name(event)} has a model of {site}, which was down")


def _check_sum(event: ModelEvaluated) -> Iterator[Finding]:
    """The evaluated model is the mean or the sum of the models."""
    if not event.models:
        yield fail(f"{_name(event)} is of no model")
        return
    if len(event.models) == 1 and event.digest != event.models[0].digest:
        yield fail(f"{_name(event)} is of another model than the only one")
    share = 1 / len(event.models) if event.of == "average" else 1.0
    terms = [(share, each.fingerprint) for each in event.models]
    yield from check_linear(_name(event), event.fingerprint, terms)


def _name(event: ModelEvaluated) -> str:
    return f"evaluation {event.number}"
