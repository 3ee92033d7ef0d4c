"""The checks of results, computed from the event log alone (pure).

A result is the weighted sum of its contributions, the same at all members, and each contribution
counts once.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from trunkline.agents.events.round_events import ComputeFinished
from trunkline.agents.events.task_events import (
    Contributed,
    TaskDropped,
    TaskFinished,
    TaskRearranged,
    TaskReplanned,
)
from trunkline.agents.planning.plan import Chunks
from trunkline.harness.checks.losses import Losses, Span
from trunkline.harness.checks.model_replay import Replay
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import Finding, doubt, excused, fail, judged
from trunkline.harness.record.history import History, Task
from trunkline.workloads.base import FINGERPRINT_BUCKETS

SUM_TOLERANCE = 256 * 2.0**-24
"""Allowed error of a result's fingerprint per term, relative to the sizes of its terms.

Float32 rounds each addition by at most 2**-24 of the element. A fingerprint sums elements of either
sign, so it is smaller than the elements and its relative error larger: hence the factor 256. Only
one pair of contributions in 100 000 needs more. A chunk that is lost or summed twice is off by
hundreds of times more.
"""

CANCELLED = 2.0**-20
"""Below this, all sums of a fingerprint are what rounding leaves of elements that cancel.

Models and gradients have elements of about one, of which float32 rounds off 2**-24. The gradients
of a network that learns nothing any more are zero but for biases whose sum is zero.
"""

CANCEL = "contributions cancel but for rounding, so a sum of them tells nothing"
UNLOGGED = "a site was killed that had sent its contribution, but had not logged it"


def results_are_one(history: History, rules: Rules) -> Iterator[Finding]:
    """All members that installed a task's result hold the same bytes.

    Servers that hold different shards have different results.
    """
    for task in history.tasks:
        if task.all(TaskFinished):
            shards = task.shards
            digests: defaultdict[Chunks | None, set[str]] = defaultdict(set)
            for event in task.all(TaskFinished):
                digests[shards.get(event.site)].add(event.digest)
            most = max(map(len, digests.values()))
            if most > 1:
                yield fail(f"{task}: members hold {most} different results")
            yield judged()


def results_are_sums(history: History, rules: Rules) -> Iterator[Finding]:
    """Every installed result is the weighted sum of exactly the contributors' inputs.

    Fingerprints are compared: they are linear.
    """
    losses = Losses.of(history, rules)
    for task in history.tasks:
        if not task.all(TaskFinished):
            continue
        if lost := _find_lost_shard(task, losses):
            what = f"{task}: {losses.explain(lost)}"
            yield excused("a loss kept a server from its part of the result", what)
            continue
        unlogged = task.started.weights.keys() - {event.site for event in task.inputs}
        kills = [losses.killed_after_offer(task, site) for site in sorted(unlogged)]
        if kills and kills[0] and all(kills):
            yield excused(UNLOGGED, f"{task}: {losses.explain(kills[0])}")
            continue
        found = [*_check_sum(task)]
        if not any(finding.rule for finding in found):
            yield judged()
        yield from found


def results_are_exact(history: History, rules: Rules) -> Iterator[Finding]:
    """Every installed result is to the byte the sum of the contributions that the seed gives.

    Only some workloads have contributions that can be computed again.
    """
    if history.has_roles:
        if rules.replay is not None:
            yield from _judge_replayed_results(history, rules.replay(history))
        return
    if rules.expected_digest is None:
        return
    for task in history.tasks:
        sites = Counter(event.site for event in task.inputs)
        if not task.all(TaskFinished) or sites != Counter(list(task.started.weights)):
            continue
        expected = rules.expected_digest(task)
        if expected is None:
            why = "chunks moved to a block that adds in another order"
            yield excused(why, f"{task}: {_describe_changes(task)}")
            continue
        yield judged()
        for event in task.all(TaskFinished):
            if event.digest != expected:
                yield fail(f"{task}: the result at {event.site} is not the exact sum")


def inputs_are_exact(history: History, rules: Rules) -> Iterator[Finding]:
    """Every contribution is to the byte the one that the seed gives.

    Only some workloads have contributions that can be computed again.
    """
    if history.has_roles:
        if rules.replay is not None:
            yield from _judge_replayed_inputs(history, rules.replay(history))
        return
    if rules.expected_input is None:
        return
    for event in history.all(Contributed):
        yield judged()
        right = rules.expected_input(event.site, event.iteration)
        if (event.digest, event.fingerprint) != right:
            text = f"iteration {event.iteration} of {event.site} is not what the seed gives"
            yield fail(f"task {event.task}: {text}")


def contributions_count_once(history: History, rules: Rules) -> Iterator[Finding]:
    """Each contributor is in its task once with its weight, and no iteration is in two results.

    One exception: a site that gave up a task that others finished contributes again. The rule of
    iterations is for workers of policies that promise it (`agents.policies.policy.Traits`).
    """
    losses = Losses.of(history, rules)
    once = "once" in rules.traits.promises
    computed = {(event.site, event.iteration) for event in history.all(ComputeFinished)}
    uses: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for task in history.tasks:
        if not task.all(TaskFinished):
            continue
        weights = task.started.weights
        gave_up = {event.site for event in task.all(TaskDropped)}
        sites = Counter(event.site for event in task.inputs)
        for site in sorted({*sites, *weights}):
            if sites[site] == (site in weights):
                continue
            if not sites[site] and (kill := losses.killed_after_offer(task, site)):
                yield excused(UNLOGGED, f"{task}: {losses.explain(kill)}")
            else:
                text = f"{site} contributed {sites[site]} times, not {int(site in weights)}"
                yield fail(f"{task}: {text}")
        for event in task.inputs:
            if not once or event.site in rules.servers:
                yield judged()
            elif event.site in gave_up:
                text = f"{task}: iteration {event.iteration} of {event.site}"
                yield excused("the site gave up a result that others have", text)
            else:
                uses[event.site, event.iteration].append(task.number)
                yield judged()
            asked = weights.get(event.site, event.weight)
            if event.weight != asked:
                text = f"{event.site} has weight {event.weight}, not {asked}"
                yield fail(f"{task}: {text}")
            worked = not task.is_passive(event.site)
            if worked and (event.site, event.iteration) not in computed:
                what = f"{event.site} contributed iteration {event.iteration}"
                yield fail(f"{what}, which it did not compute")
    for (site, iteration), tasks in uses.items():
        if len(tasks) > 1:
            where = ", ".join(map(str, tasks))
            yield fail(f"iteration {iteration} of {site} is in tasks {where}")


def _judge_replayed_inputs(history: History, right: Replay) -> Iterator[Finding]:
    for event in history.all(Contributed):
        text = f"task {event.task}: iteration {event.iteration} of {event.site}"
        wanted = right.contributions.get((event.task, event.site))
        if wanted is None:
            yield excused("what the site had is not known after an earlier loss", text)
            continue
        yield judged()
        if (event.digest, event.fingerprint) != wanted:
            yield fail(f"{text} is not what the seed gives")


def _judge_replayed_results(history: History, right: Replay) -> Iterator[Finding]:
    for task in history.tasks:
        wrong = unknown = False
        for event in task.all(TaskFinished):
            wanted = right.results.get((task.number, event.site))
            unknown |= wanted is None
            if wanted is not None and (event.digest, event.fingerprint) != wanted:
                wrong = True
                yield fail(f"{task}: the result at {event.site} is not the exact sum")
        if unknown and not wrong:
            why = "a contribution or the order of the sum is not known after a loss"
            yield excused(why, f"{task}: {_describe_changes(task)}")
        elif task.all(TaskFinished):
            yield judged()


def _find_lost_shard(task: Task, losses: Losses) -> Span | None:
    """The loss that kept a receiver from the part of the result that only this receiver holds."""
    finished = {event.site for event in task.all(TaskFinished)}
    missing = [s for s in task.started.receivers if s in task.shards and s not in finished]
    return losses.of_part(task, missing[0]) if missing else None


def _list_results(task: Task) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The fingerprints of whole results: of each receiver of it all, and of all shards together."""
    shards = task.shards
    parts: dict[Chunks, tuple[str, tuple[float, ...]]] = {}
    for event in task.all(TaskFinished):
        if event.site in shards:
            parts[shards[event.site]] = event.site, event.fingerprint
        else:
            yield event.site, event.fingerprint
    if parts:
        where = " and ".join(site for site, _ in parts.values())
        prints = zip(*(values for _, values in parts.values()), strict=True)
        yield where, tuple(map(math.fsum, prints))


def _check_sum(task: Task) -> Iterator[Finding]:
    """Compare fingerprints: a sum's fingerprint is the sum of fingerprints."""
    started = task.started
    if Counter(event.site for event in task.inputs) != Counter(list(started.weights)):
        yield fail(f"{task}: the sum cannot be recomputed from its contributions")
        return
    prints = {event.site: event.fingerprint for event in task.inputs}
    for site, found in (
        *prints.items(),
        *((e.site, e.fingerprint) for e in task.all(TaskFinished)),
    ):
        if len(found) != FINGERPRINT_BUCKETS:
            yield fail(f"{task}: {len(found)} numbers in a fingerprint at {site}")
            return
    terms = [
        [started.scale * started.weights[event.site] * value for value in event.fingerprint]
        for event in task.inputs
    ]
    expected = [math.fsum(bucket) for bucket in zip(*terms, strict=True)]
    sizes = [math.fsum(map(abs, bucket)) for bucket in zip(*terms, strict=True)]
    if not all(map(math.isfinite, sizes)):
        yield doubt(f"{task}: the contributions are not finite numbers")
        return
    allowed = SUM_TOLERANCE * (len(terms) + 1) * max(sizes, default=0.0)
    errors = {
        where: [abs(got - right) for got, right in zip(found, expected, strict=True)]
        for where, found in _list_results(task)
    }
    off = {k: each for k, each in errors.items() if not all(error <= allowed for error in each)}
    if off and all(value < CANCELLED for value in (*sizes, *itertools.chain(*off.values()))):
        yield excused(CANCEL, f"{task}: no sum is above {max(sizes):.3g}")
        return
    for where, each in off.items():
        yield fail(
            f"{task}: the fingerprint at {where} is off by {max(each):.3g},"
            f" rounding explains {allowed:.3g}"
        )


def _describe_changes(task: Task) -> str:
    moved, anew = len(task.all(TaskRearranged)), len(task.all(TaskReplanned))
    return f"rearranged {moved} times, planned anew {anew} times"
