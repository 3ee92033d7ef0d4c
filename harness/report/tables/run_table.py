"""The table of the whole run, in one row (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pandas as pd

from trunkline.agents.events.evaluation_events import ModelEvaluated
from trunkline.agents.events.lifecycle import Doing
from trunkline.agents.events.round_events import ComputeStarted, RoundFinished
from trunkline.agents.events.task_events import Evaluated
from trunkline.harness.fluid import mixing
from trunkline.harness.record.history import History
from trunkline.harness.record.targets import NO_TARGET
from trunkline.harness.record.warm_up import WHOLE, Counted, select_counted
from trunkline.harness.report import manual_actions
from trunkline.harness.report.branches import branch_tables
from trunkline.harness.report.branches.branch_tables import StallsOfRun
from trunkline.harness.report.tables.evaluation_columns import ConvergenceOfRun, TargetOfRun
from trunkline.harness.report.tables.row import Row, column, columns_of
from trunkline.harness.report.tables.worker_table import list_computing
from trunkline.harness.report.updates import update_tables
from trunkline.harness.report.updates.server_rates import RatesOfRun, summarize_rates
from trunkline.harness.report.updates.update_tables import UpdatesOfRun
from trunkline.harness.scenario.settings import Stop


class RunRow(Row, table="run"):
    """One row: the whole run after its warm-up. Means and medians are over the completed tasks."""

    tasks: int = column("completed tasks")
    abandoned: int = column("abandoned tasks")
    task_s: float | None = column("mean duration")
    task_median_s: float | None = column("median duration")
    task_warm_s: float | None = column(
        "mean duration of the later half; connections that tasks used before are warm then"
    )
    estimate_s: float | None = column("mean estimate")
    latency_s: float | None = column("mean latency")
    expected_warm_s: float | None = column("mean estimate plus latency of the later half")
    bound_s: float | None = column("mean bound")
    warm_up_s: float | None = column(
        "when the warm-up ended and the window began; 0 without a warm-up"
    )
    window_s: float | None = column("the time from there until the run was told to stop")
    rounds: float | None = column("rounds that a worker finished in the window, on average")
    rounds_least: int = column("rounds of the slowest worker")
    samples_per_s: float | None = column(
        "samples of the rounds that workers finished in the window, over the window; empty if the "
        "workload has no batch"
    )
    updates: int = column(
        "completed tasks that changed models in the window: all but those that only hand a "
        "server's model to workers"
    )
    update_s: float | None = column("window over updates: the time per update")
    rho: float | None = column(
        "how slowly models mix: the second largest absolute eigenvalue of the mean synchronization "
        "matrix of the completed tasks whose members are all workers and average their models. It "
        "is 0 if every group has all workers, and 1 if some workers never meet others; empty "
        "without such tasks, and if weights of a task sum to 0"
    )
    wait_s: float | None = column("time that a worker waited per round (`wait_s` of `workers`)")
    computing_percent: float | None = column(
        "share of the window in which a worker computed, on average, from the first computation: "
        "the compute utilization; empty if none computed"
    )
    at_servers: UpdatesOfRun | None = columns_of(UpdatesOfRun)
    server_links: RatesOfRun | None = columns_of(RatesOfRun)
    stalls: StallsOfRun | None = columns_of(StallsOfRun)
    bytes_sent: int | None = column("payload of all tasks on all links; empty for programs")
    accuracy_percent: float | None = column(
        "accuracy of the last evaluation; empty if there was none"
    )
    target: TargetOfRun | None = columns_of(TargetOfRun)
    convergence: ConvergenceOfRun | None = columns_of(ConvergenceOfRun)
    ended: str = column("why it ended")
    by_hand: str = column(
        "actions of a user during the run, with their times by the timeline's clock; ending the "
        "run counts. At most five, and the number of others; empty if there were none"
    )


def tabulate_run(
    history: History,
    tasks: pd.DataFrame,
    workers: Sequence[str],
    updates: pd.DataFrame | None = None,
    servers: pd.DataFrame | None = None,
    branches: pd.DataFrame | None = None,
    samples: Callable[[int | None], int] | None = None,
    counted: Counted = WHOLE,
    stop: Stop | None = None,
    logs_payload: bool = True,
) -> RunRow:
    """The whole run in one row; `tasks`, `updates` and so on are the tables of these names.

    `samples` gives those of an iteration with this batch, or with the workload's own for None.
    `stop` has the run's target, if it has one.

    The `workers` are the sites that compute. The window begins after the warm-up and ends when the
    run was told to stop: other rounds do not count, and neither do tasks of the warm-up.
    """
    begin_ns, begin_s = counted.begin_ns, counted.begin_s
    tasks, done = select_counted(tasks), select_counted(tasks, "completed")
    updates, servers = (None if t is None else counted.select(t) for t in (updates, servers))
    warm = done[len(done) // 2 :]  # the first tasks pay for TCP's slow start
    end_ns = max(begin_ns, history.stop_ns)
    done_ns = [(e.site, e.t_ns) for e in history.all(RoundFinished) if e.t_ns > begin_ns]
    rounds = Counter(site for site, t_ns in done_ns if t_ns <= end_ns)
    each = [rounds[site] for site in workers]
    rounds_ns = [t_ns for site, t_ns in done_ns if site in workers]
    evaluated = history.all(Evaluated, ModelEvaluated)
    models, stop = history.all(ModelEvaluated), stop or NO_TARGET.stop
    measured = [task for task in history.tasks[counted.first_task :] if task.outcome == "completed"]
    groups = (task.started.weights for task in measured if task.mixes)
    changes_ns = [task.end_ns or 0 for task in measured if task.updates]
    changes = sum(t_ns <= end_ns for t_ns in changes_ns)
    waited_ns = sum(
        max(0, span.end_ns - max(begin_ns, span.start_ns))
        for spans in history.phases.values()
        for span in spans
        if span.doing is Doing.WAITING
    )
    return RunRow(
        tasks=len(done),
        abandoned=int((tasks["outcome"] == "abandoned").sum()),
        task_s=done["duration_s"].mean(),
        task_median_s=done["duration_s"].median(),
        task_warm_s=warm["duration_s"].mean(),
        estimate_s=done["estimate_s"].mean(),
        latency_s=done["latency_s"].mean(),
        expected_warm_s=(warm["estimate_s"] + warm["latency_s"]).mean(),
        bound_s=done["bound_s"].mean(),
        warm_up_s=begin_s,
        window_s=(end_ns - begin_ns) / 1e9,
        rounds=sum(each) / len(each),
        rounds_least=min(each),
        samples_per_s=_count_samples(history, begin_ns, end_ns, samples) if samples else None,
        updates=changes,
        update_s=(end_ns - begin_ns) / 1e9 / changes if changes else None,
        rho=mixing.compute_rho(groups, workers),
        wait_s=waited_ns / 1e9 / sum(rounds.values()) if rounds else None,
        computing_percent=_share_computing(history, workers, begin_ns, end_ns),
        at_servers=update_tables.summarize(updates),
        server_links=summarize_rates(servers, end_ns / 1e9),
        stalls=branch_tables.summarize(branches, history, begin_s),
        bytes_sent=int(tasks["bytes_sent"].sum()) if logs_payload else None,
        accuracy_percent=evaluated[-1].accuracy_percent if evaluated else None,
        target=TargetOfRun.of(models, stop, begin_ns, rounds_ns, len(workers), changes_ns),
        convergence=ConvergenceOfRun.of(models, stop, begin_ns),
        ended=manual_actions.describe_end(history),
        by_hand=manual_actions.describe_actions(history),
    )


def _share_computing(
    history: History, workers: Sequence[str], begin_ns: int, end_ns: int
) -> float | None:
    """The percentage of the window in which a worker computed, on average; None without any.

    The time before the first computation does not count: programs start and find each other.
    """
    found = list_computing(history)
    spans = [span for site in workers for span in found.get(site, ())]
    begin_ns = max(begin_ns, min((from_ns for from_ns, _ in spans), default=end_ns))
    computed_ns = sum(max(0, min(end_ns, to) - max(begin_ns, at)) for at, to in spans)
    return 100 * computed_ns / ((end_ns - begin_ns) * len(workers)) if computed_ns else None


def _count_samples(
    history: History, begin_ns: int, end_ns: int, samples: Callable[[int | None], int]
) -> float | None:
    """The samples of the rounds that ended after `begin_ns` and up to `end_ns`, per second."""
    batches: dict[str, int | None] = {}
    total = 0
    for event in history.events:
        if isinstance(event, ComputeStarted):
            batches[event.site] = event.batch
        elif isinstance(event, RoundFinished) and begin_ns < event.t_ns <= end_ns:
            total += samples(batches.get(event.site))
    return total * 1e9 / (end_ns - begin_ns) if end_ns > begin_ns else None
