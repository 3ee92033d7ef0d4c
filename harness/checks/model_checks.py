"""What results make of the models that members have (pure).

A result replaces a worker's model, or becomes a part of it; it always becomes a part of a server's
model. A model has a number of its version, which begins with 0 in each life of its site. Every
version is a sum of vectors that the log describes: `keep * base + step`, with `step = momentum *
last step + result`. The base is the model before, or the one with which the site began.
Fingerprints are linear, so they tell without the vectors.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from trunkline.agents.events.evaluation_events import ModelEvaluated, SiteModel
from trunkline.agents.events.event import Event
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import ComputeFinished, Ready, RoundAlone, WorkerFinished
from trunkline.agents.events.task_events import (
    Contributed,
    ModelMerged,
    Roles,
    ServerBegan,
    TaskCompleted,
    TaskDropped,
    TaskFinished,
)
from trunkline.harness.checks.losses import Losses
from trunkline.harness.checks.model_replay import Replay
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.tolerances import CLOCK_NS
from trunkline.harness.checks.verdict import Finding, doubt, excused, fail, format_time, judged
from trunkline.harness.record.history import History, Task
from trunkline.workloads.base import FINGERPRINT_BUCKETS

MERGE_TOLERANCE = 256 * 2.0**-24
"""Allowed error of a fingerprint per term, as `result_checks.SUM_TOLERANCE`."""

Print = tuple[float, ...]
"""A fingerprint."""


@dataclass(slots=True)
class _Model:
    """The latest version of a site's model in one life: what the log says of it.

    Attributes:
        digest, prints: of the model; None if it is not known.
        results: the fingerprints of results that have not been merged, by task.
        last_step: the fingerprint of the last step; None if there was none.
        merged: the tasks whose results it has.
        computed: whether an iteration has been computed that is not in the model yet.
    """

    results: dict[int, Print]
    merged: set[int]
    version: int = 0
    digest: str | None = None
    prints: Print | None = None
    last_step: Print | None = None
    computed: bool = False

    @classmethod
    def new(cls) -> _Model:
        return cls({}, set())


_CHANGING = (
    ServerBegan,
    Ready,
    RoundAlone,
    WorkerFinished,
    Contributed,
    TaskFinished,
    TaskDropped,
    ModelMerged,
)
"""The events at which a site's model may change."""


def server_versions_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """Every version of a server's model is the one before and a result, each result once.

    A server contributes its latest version. It begins again only after a kill. Judged are the
    versions, the contributions, and the results that servers were to get.
    """
    if not rules.servers:
        return
    losses = Losses.of(history, rules)
    yield from _follow(history, rules, frozenset(rules.servers))
    yield from _check_lives(history, rules)
    for task in history.tasks:
        for site in task.started.receivers:
            if task.all(TaskCompleted) and site in rules.servers:
                yield from _judge_merges(task, site, losses)


def models_follow(history: History, rules: Rules) -> Iterator[Finding]:
    """Every model of a worker that tasks merge or take is the one that it had.

    What a worker makes of its model when it computes is not known, unless the seed gives it. So
    judged are merges, and contributions of models that only tasks have changed since they were
    described.
    """
    if any(task.started.roles is not None for task in history.tasks):
        yield from _follow(history, rules, frozenset(rules.topology.site_names) - {*rules.servers})


def models_before(history: History, rules: Rules) -> Mapping[int, str]:
    """The digest of a site's model before an event, by the event's `id`, where it is known.

    Events are contributions of models, drops, and merges.
    """
    return {id(event): model.digest for event, model in _walk(history, rules) if model.digest}


def models_when_evaluated(
    history: History, rules: Rules
) -> Iterator[tuple[ModelEvaluated, SiteModel, str]]:
    """Each model of an evaluation with the digest that its site's model had, where it is known.

    It is known from the events before, or from what the site contributes next.

    It is not judged if the model changed at that moment, or on a real clock, where models and the
    log are not of one moment.
    """
    if history.run is None or history.run.clock == "real":
        return
    changes = defaultdict[str, list[int]](list)
    for event in history.events:
        if isinstance(event, _CHANGING):
            changes[event.site].append(event.t_ns)
    waiting = defaultdict[str, list[tuple[ModelEvaluated, SiteModel]]](list)
    for event, model in _walk(history, rules):
        match event:
            case ModelEvaluated(t_ns=t_ns, models=(each,)):
                times = changes[each.site]
                near = bisect_left(times, t_ns - CLOCK_NS) < bisect_right(times, t_ns + CLOCK_NS)
                if model.digest is not None and not near:
                    yield event, each, model.digest
                elif not near:
                    waiting[each.site].append((event, each))
            case Contributed():
                for before, each in waiting.pop(event.site, ()):
                    yield before, each, event.digest
            case Ready() | RoundAlone() | WorkerFinished():
                waiting.pop(event.site, None)
            case AgentChanged():
                waiting.pop(event.who, None)


def _walk(history: History, rules: Rules) -> Iterator[tuple[Event, _Model]]:
    """Every event that says something of a model, with what was known of the model before."""
    tasks = {task.number: task for task in history.tasks}
    models: defaultdict[str, _Model] = defaultdict(_Model.new)
    for event in history.events:
        model = models[event.site]
        match event:
            case AgentChanged(who=who, do="kill"):
                yield event, models.pop(who, model)
            case ModelEvaluated():
                for each in event.models:
                    yield replace(event, models=(each,)), models[each.site]
            case ServerBegan():
                model = models[event.site] = _Model.new()
                yield event, model
                model.digest, model.prints = event.digest, event.fingerprint
            case ComputeFinished():
                model.computed = True
            case Ready() | RoundAlone() | WorkerFinished() if model.computed:
                model.computed = False
                if not rules.gives_updates:
                    yield event, model
                    model.digest = model.prints = None
            case Contributed(task=number) if number in tasks:
                if _gives_model(event, tasks[number], rules):
                    yield event, model
                    model.digest, model.prints = event.digest, event.fingerprint
            case TaskDropped(digest=digest):
                yield event, model
                if digest != model.digest:
                    model.digest, model.prints = digest, None
            case TaskFinished(task=number) if number in tasks:
                if event.site in rules.servers or tasks[number].merges:
                    model.results[number] = event.fingerprint
                else:
                    model.digest, model.prints = event.digest, event.fingerprint
            case ModelMerged(task=number):
                yield event, model
                model.version, model.last_step = event.version, event.step
                model.digest, model.prints = event.digest, event.fingerprint
                model.results.pop(number, None)
                model.merged.add(number)


def _gives_model(event: Contributed, task: Task, rules: Rules) -> bool:
    """Whether a contribution is the site's model: workers may give updates instead."""
    if event.site in rules.servers or event.site not in task.started.weights:
        return True
    return not rules.gives_updates


def _follow(history: History, rules: Rules, sites: frozenset[str]) -> Iterator[Finding]:
    tasks = {task.number: task for task in history.tasks}
    replayed = None if rules.replay is None else rules.replay(history)
    initial: dict[str, tuple[str, Print]] = {}
    for event, model in _walk(history, rules):
        if event.site not in sites:
            continue
        match event:
            case ModelMerged(task=number) if number in tasks:
                yield judged()
                yield from _check_base(event, model, tasks[number], initial)
                yield from _check_merge(event, model, tasks[number], replayed)
            case Contributed() if event.site in rules.servers or model.digest is not None:
                yield judged()
                yield from _check_contribution(event, model, event.site in rules.servers)


def _check_contribution(event: Contributed, model: _Model, is_server: bool) -> Iterator[Finding]:
    place = f"task {event.task}: {event.site}"
    if is_server and event.iteration != model.version:
        text = f"contributed version {event.iteration}, but had version {model.version}"
        yield fail(f"{place} {text}")
    is_same = model.prints is None or _are_same(model.prints, event.fingerprint)
    if event.digest != model.digest or not is_same:
        yield fail(f"{place} contributed another model than it had")


def _are_same(one: Print, other: Print) -> bool:
    """Whether two fingerprints are equal. Those of a model that has diverged are nan, in both."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs
    )


def _check_base(
    event: ModelMerged, model: _Model, task: Task, initial: dict[str, tuple[str, Print]]
) -> Iterator[Finding]:
    """A site keeps a share of the model before, or of its `initial` one, which never changes."""
    place = f"task {event.task} at {event.site}"
    if task.started.roles is not None and task.started.roles.kept == "initial":
        described = event.base, event.base_fingerprint
        if initial.setdefault(event.site, described) != described:
            yield fail(f"{place}: version {event.version} is made of another initial model")
    elif model.digest is not None and event.base != model.digest:
        yield fail(f"{place}: version {event.version} is not made of the model before")
    elif model.prints is not None and not _are_same(event.base_fingerprint, model.prints):
        yield fail(f"{place}: the model before has another fingerprint")


def _check_merge(
    event: ModelMerged, model: _Model, task: Task, replayed: Replay | None
) -> Iterator[Finding]:
    place = f"task {event.task} at {event.site}"
    if event.version != model.version + 1:
        yield fail(f"{place}: version {event.version} came after version {model.version}")
    if event.task in model.merged:
        yield fail(f"{place}: the result was merged twice")
    result = model.results.get(event.task)
    if result is None:
        yield fail(f"{place}: version {event.version} has no result")
        return
    roles = task.started.roles or Roles((), (), 0.0, 0.0, "proceed")
    steps = [(1.0, result)]
    if roles.momentum and model.last_step is not None:
        steps.append((roles.momentum, model.last_step))
    yield from check_linear(f"{place}: the step", event.step, steps)
    whole = [(1.0, event.step)]
    if roles.keep:
        whole.append((roles.keep, event.base_fingerprint))
    yield from check_linear(f"{place}: version {event.version}", event.fingerprint, whole)
    wanted = None if replayed is None else replayed.merges.get((event.task, event.site))
    if wanted is not None:
        found = (event.base, event.base_fingerprint), event.step, (event.digest, event.fingerprint)
        if found != (wanted.base, wanted.step, wanted.model):
            yield fail(f"{place}: version {event.version} is not exact to the byte")


def check_linear(
    what: str, found: Print, terms: Sequence[tuple[float, Print]]
) -> Iterator[Finding]:
    """Compare a fingerprint with a sum of others, each with its factor."""
    if any(len(each) != FINGERPRINT_BUCKETS for each in (found, *(each for _, each in terms))):
        yield fail(f"{what} has another number of fingerprints than its terms")
        return
    parts = [[factor * value for value in each] for factor, each in terms]
    wanted = [math.fsum(bucket) for bucket in zip(*parts, strict=True)]
    sizes = [math.fsum(map(abs, bucket)) for bucket in zip(*parts, strict=True)]
    if not all(map(math.isfinite, sizes)):
        yield doubt(f"{what}: the terms are not finite numbers")
        return
    allowed = MERGE_TOLERANCE * (len(terms) + 1) * max(sizes)
    errors = [abs(got - right) for got, right in zip(found, wanted, strict=True)]
    if not all(error <= allowed for error in errors):
        yield fail(f"{what} is off by {max(errors):.3g}, rounding explains {allowed:.3g}")


def _check_lives(history: History, rules: Rules) -> Iterator[Finding]:
    """A server begins once in each life, always with the same model."""
    for site in rules.servers:
        began = [event for event in history.all(ServerBegan) if event.site == site]
        changes = history.all(AgentChanged)
        kills = [e.t_ns for e in changes if e.who == site and e.do == "kill"]
        yield judged(len(began))
        if not began and not kills:
            yield fail(f"{site} did not begin")
        for before, event in pairwise(began):
            when = format_time(event.t_ns)
            if not any(before.t_ns <= t_ns <= event.t_ns for t_ns in kills):
                yield fail(f"{site} began again at {when}, but was not killed")
            if (event.digest, event.fingerprint) != (before.digest, before.fingerprint):
                yield fail(f"{site} began again at {when} with another model")


def _judge_merges(task: Task, site: str, losses: Losses) -> Iterator[Finding]:
    """A task that was completed is a part of each receiving server's model, once."""
    who = f"{task}: {site}"
    times = Counter(event.site for event in task.all(ModelMerged))[site]
    if times == 1:
        yield judged()
    elif not times and (lost := losses.of_part(task, site)):
        rule = "a loss kept the result from the server"
        yield excused(rule, f"{who}: {losses.explain(lost)}")
    else:
        yield judged()
        yield fail(f"{who} merged the result {times} times")
