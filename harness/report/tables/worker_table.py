"""The table of workers: what each site did with its time (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from statistics import fmean

from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import RoundAlone, RoundFinished
from trunkline.agents.events.task_events import Compared, Received, Sent, SiteExcluded
from trunkline.harness.record.branches import list_computed
from trunkline.harness.record.history import History
from trunkline.harness.record.lives import Interval
from trunkline.harness.record.transfers import union
from trunkline.harness.report.tables.row import Row, column, to_s


class WorkerRow(Row, table="workers"):
    """One row per site, in order of rank."""

    site: str = column("its name")
    rounds: int = column("iterations computed and synchronized")
    compute_s: float = column("time spent computing, also while a model arrived")
    wait_s: float = column("time from ready, or from a task to the next one, until it continued")
    sync_s: float = column(
        "time from its contribution until the task's end or until it continued, and from the end "
        "of computing until it was ready, if a task held it meanwhile; without the time in which "
        "it computed branches"
    )
    bytes_sent: int | None = column("payload sent, also for tasks of others; empty for programs")
    bytes_received: int | None = column(
        "payload received, also for tasks of others; empty for programs"
    )
    similarity: float | None = column(
        "mean cosine similarity of its updates with those of the model, from -1 to 1; empty if the "
        "policy does not compare them"
    )
    excluded_s: float | None = column("when the policy excluded it; empty if it did not")
    rounds_alone: int = column(
        "rounds that it did without a controller: they synchronize nothing, but count for "
        "`stop.rounds`"
    )


def tabulate_workers(
    history: History, sites: Iterable[str], logs_payload: bool = True
) -> Iterator[WorkerRow]:
    """One row per site, in the given order.

    A worker computes, waits (from ready until it contributes or continues) and synchronizes (from
    its contribution until it installs the result, gives up or continues). If it went on before the
    task had ended, it also synchronizes from the end of computing until it is ready. Branches that
    it computes while a model arrives count as computing only. A server does none of these, and a
    worker may take part in other tasks meanwhile. Bytes include work for others' tasks; programs do
    not log theirs.
    """
    spent_ns = _count_spent_ns(history)
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for task in history.tasks:
        for out in task.all(Sent):
            sent[out.site] += out.bytes
        for into in task.all(Received):
            received[into.site] += into.bytes
    rounds = Counter(event.site for event in history.all(RoundFinished))
    alone = Counter(event.site for event in history.all(RoundAlone))
    similar: defaultdict[str, list[float]] = defaultdict(list)
    for compared in history.all(Compared):
        similar[compared.site].append(compared.similarity)
    excluded_ns: dict[str, int] = {}
    for event in history.all(SiteExcluded):
        excluded_ns.setdefault(event.worker, event.t_ns)
    for site in sites:
        yield WorkerRow(
            site=site,
            rounds=rounds[site],
            compute_s=spent_ns[site, Doing.COMPUTING] / 1e9,
            wait_s=spent_ns[site, Doing.WAITING] / 1e9,
            sync_s=spent_ns[site, Doing.IN_TASK] / 1e9,
            bytes_sent=sent[site] if logs_payload else None,
            bytes_received=received[site] if logs_payload else None,
            similarity=fmean(similar[site]) if similar[site] else None,
            excluded_s=to_s(excluded_ns.get(site)),
            rounds_alone=alone[site],
        )


def list_computing(history: History) -> dict[str, list[Interval]]:
    """When each site computed, also branches while a model arrived; the intervals are disjoint."""
    spans: defaultdict[str, list[Interval]] = defaultdict(list)
    for site, done in history.phases.items():
        computed = (phase for phase in done if phase.doing is Doing.COMPUTING)
        spans[site] += ((phase.start_ns, phase.end_ns) for phase in computed)
    for branch in list_computed(history):
        spans[branch.site].append((branch.start_ns, branch.end_ns))
    return {site: list(union(intervals)) for site, intervals in spans.items()}


def _count_spent_ns(history: History) -> Counter[tuple[str, Doing]]:
    """The time that each site computed, and that it waited or synchronized without computing."""
    spans: defaultdict[tuple[str, Doing], list[Interval]] = defaultdict(list)
    for site, done in history.phases.items():
        for phase in done:
            spans[site, phase.doing].append((phase.start_ns, phase.end_ns))
    for site, held in history.lives.phases(Doing.COMPUTED).items():
        spans[site, Doing.IN_TASK] += ((phase.start_ns, phase.end_ns) for phase in held)
    computing = list_computing(history)
    spent_ns = Counter({(s, Doing.COMPUTING): _measure_ns(own) for s, own in computing.items()})
    for (site, doing), intervals in spans.items():
        if doing is not Doing.COMPUTING:
            own = computing[site]
            spent_ns[site, doing] = _measure_ns([*intervals, *own]) - _measure_ns(own)
    return spent_ns


def _measure_ns(intervals: Iterable[Interval]) -> int:
    return sum(end_ns - start_ns for start_ns, end_ns in union(intervals))
