"""The tables of a run, number by number."""

import io
import math
from dataclasses import replace

import pandas as pd
import pytest
from three_sites import SITES, TOPOLOGY, added, altered, history, without

from trunkline.agents.events.fault_events import FaultEnded
from trunkline.agents.events.round_events import ComputeFinished, ComputeStarted, Ready
from trunkline.agents.events.task_events import TaskStarted
from trunkline.harness.record.history import History
from trunkline.harness.record.transfers import Transfer, transfers, union
from trunkline.harness.record.warm_up import WHOLE
from trunkline.harness.report.pages import tasks_section
from trunkline.harness.report.parts.accuracy_part import AccuracyRow, tabulate_accuracy
from trunkline.harness.report.tables.forecasts import Forecast
from trunkline.harness.report.tables.link_table import LinkRow, tabulate_links
from trunkline.harness.report.tables.run_table import RunRow, tabulate_run
from trunkline.harness.report.tables.task_tables import (
    MemberRow,
    TaskRow,
    tabulate_members,
    tabulate_tasks,
)
from trunkline.harness.report.tables.worker_table import WorkerRow, tabulate_workers
from trunkline.harness.scenario.settings import Stop

MS = 1_000_000

NO_SERVERS = (
    "zero_gaps_percent", "staleness", "staleness_most", "push_s", "pull_s", "server_in_mbps",
    "server_in_peak_mbps", "server_out_mbps", "server_out_peak_mbps", "stall_s", "step_s",
    "stall_percent",
)  # fmt: skip


def forecast(started: TaskStarted) -> Forecast:
    return Forecast(1.0 + started.task, 0.5, 0.03)


def csv(table: pd.DataFrame) -> list[str]:
    return table.to_csv(index=False, float_format="%.3f").splitlines()


def test_tasks_are_timed_from_the_controllers_start_to_the_last_members_end() -> None:
    assert csv(TaskRow.frame(tabulate_tasks(history(), forecast))) == [
        "task,plan,policy,group,bytes,bytes_sent,bytes_discarded,start_s,end_s,"
        "duration_s,estimate_s,latency_s,bound_s,outcome,warm_up",
        "0,h.py,preduce,oslo rome,1000000,2000000,0,0.210,1.480,1.270,1.000,0.030,0.500,completed,"
        "False",
        "1,h.py,preduce,rome kyiv,1000000,3000000,0,1.510,2.290,0.780,2.000,0.030,0.500,completed,"
        "False",
        "2,h.py,preduce,oslo rome,1000000,250000,0,2.400,4.400,2.000,3.000,0.030,0.500,abandoned,"
        "False",
    ]


def test_a_task_that_never_ended_has_no_end() -> None:
    last = TaskRow.frame(tabulate_tasks(history(without("task_abandoned")), forecast)).iloc[2]
    assert last["outcome"] == "unfinished"
    assert pd.isna(last["end_s"])
    assert pd.isna(last["duration_s"])


def test_a_programs_own_synchronization_is_a_task_whose_payload_is_unknown() -> None:
    begin = {"task": 0, "operation": "allreduce", "bytes": 4000}
    log = [
        *(
            added(t_ms, site, "sync_started", **begin)
            for t_ms, site in ((10, "rome"), (20, "oslo"))
        ),
        *(
            added(t_ms, site, "sync_finished", task=0)
            for t_ms, site in ((30, "rome"), (50, "oslo"))
        ),
    ]
    found = TaskRow.frame(tabulate_tasks(history(*log), forecast, lambda sync: 0.01)).iloc[-1:]
    assert csv(found)[1] == (
        "0,allreduce,program,oslo rome,4000,,,0.010,0.050,0.040,,,0.010,completed,False"
    )
    assert "<td>completed</td>" in str(tasks_section.list_tasks(found)[0])


def test_each_member_of_a_task_has_its_own_times() -> None:
    assert csv(MemberRow.frame(tabulate_members(history()))) == [
        "task,site,contributes,receives,joined_s,contributed_s,finished_s,dropped_s,sync_s",
        "0,oslo,True,True,0.210,0.210,1.480,,1.270",
        "0,rome,True,True,0.220,0.220,1.220,,1.000",
        "1,rome,True,True,1.520,1.520,2.290,,0.770",
        "1,kyiv,True,True,1.520,1.520,2.290,,0.770",
        "2,oslo,True,True,2.400,2.400,,4.400,",
        "2,rome,True,True,2.410,2.410,,4.410,",
    ]


def test_workers_compute_wait_and_synchronize() -> None:
    assert csv(WorkerRow.frame(tabulate_workers(history(), SITES))) == [
        "site,rounds,compute_s,wait_s,sync_s,bytes_sent,bytes_received,similarity,excluded_s,"
        "rounds_alone",
        "oslo,1,0.200,0.950,3.270,2250000,2000000,,,0",
        "rome,2,0.580,0.080,3.770,2000000,2250000,,,0",
        "kyiv,1,1.000,2.660,0.770,1000000,1000000,,,0",
    ]


def test_a_worker_that_a_task_holds_after_it_has_computed_synchronizes() -> None:
    """It is ready half a second after it has computed: the task that it helps lasts so long."""
    events = [
        ComputeStarted(0, "oslo", 0),
        ComputeFinished(10**9, "oslo", 0),
        Ready(15 * 10**8, "oslo", 0),
        FaultEnded(2 * 10**9, "runner", 0),
    ]
    (row,) = tabulate_workers(History.of(events), ["oslo"])
    assert (row.compute_s, row.wait_s, row.sync_s) == (1.0, 0.5, 0.5)


def test_workers_have_their_mean_similarity_and_when_they_were_excluded() -> None:
    found = WorkerRow.frame(
        tabulate_workers(
            history(
                added(500, "kyiv", "compared", task=0, similarity=0.5),
                added(600, "kyiv", "compared", task=1, similarity=-0.25),
                added(700, "controller", "site_excluded", worker="kyiv"),
                added(800, "controller", "site_excluded", worker="kyiv"),
            ),
            SITES,
        )
    )
    assert [line.split(",")[-3:-1] for line in csv(found)[1:]] == [
        ["", ""],
        ["", ""],
        ["0.125", "0.700"],
    ]


def test_whoever_is_killed_does_nothing_until_it_is_started_again() -> None:
    killed = history(added(300, "runner", "agent_changed", who="kyiv", do="kill", fault=0))
    first, second, *_ = killed.phases["kyiv"]
    assert (first.doing, first.end_ns) == ("computing", 300 * MS)
    assert second.start_ns > 300 * MS


def test_a_site_that_did_nothing_has_a_row_all_the_same() -> None:
    assert (
        csv(WorkerRow.frame(tabulate_workers(history(), ["bern"])))[1]
        == "bern,0,0.000,0.000,0.000,0,0,,,0"
    )


def test_samples_per_second_are_those_of_finished_rounds() -> None:
    batch = altered("compute_started", {"batch": 30}, site="rome", iteration=1)
    tasks = TaskRow.frame(tabulate_tasks(history(), forecast))
    run = RunRow.frame(
        [tabulate_run(history(batch), tasks, SITES, samples=lambda batch: batch or 10)]
    )
    # The second round of rome ends within 4.4 s, and so do three rounds with batches of 10.
    assert run.iloc[0]["samples_per_s"] == pytest.approx((3 * 10 + 30) / 4.4)


def test_a_run_is_summed_up_in_one_row() -> None:
    events = history()
    row = (
        RunRow.frame([tabulate_run(events, TaskRow.frame(tabulate_tasks(events, forecast)), SITES)])
        .iloc[0]
        .to_dict()
    )
    assert row == {
        "computing_percent": pytest.approx(100 * (0.2 + 0.58 + 1.0) / (3 * 4.4)),
        "tasks": 2,
        "abandoned": 1,
        "task_s": pytest.approx((1.270 + 0.780) / 2),
        "task_median_s": pytest.approx((1.270 + 0.780) / 2),
        "task_warm_s": pytest.approx(0.780),
        "estimate_s": 1.5,
        "latency_s": pytest.approx(0.03),
        "expected_warm_s": pytest.approx(2.03),
        "bound_s": 0.5,
        "warm_up_s": 0.0,
        "window_s": pytest.approx(4.4),
        "rounds": pytest.approx(4 / 3),
        "rounds_least": 1,
        "samples_per_s": pytest.approx(math.nan, nan_ok=True),
        "updates": 2,
        "update_s": pytest.approx(2.2),
        "rho": pytest.approx(0.75),  # of a path of three sites
        "wait_s": pytest.approx((0.95 + 0.08 + 2.66) / 4),
        **dict.fromkeys(NO_SERVERS, pytest.approx(math.nan, nan_ok=True)),
        "bytes_sent": 5_250_000,
        "accuracy_percent": pytest.approx(81.5),
        "target_s": pytest.approx(math.nan, nan_ok=True),
        "target_reached": None,
        **dict.fromkeys(
            ("best_accuracy_percent", "converged_s", "target_rounds"),
            pytest.approx(math.nan, nan_ok=True),
        ),
        "converged": None,
        "target_updates": None,
        "ended": "its time of 4.4 s has passed",
        "by_hand": "",
    }


def test_links_have_goodput_while_busy_and_utilisation() -> None:
    assert csv(LinkRow.frame(tabulate_links(history(), TOPOLOGY))) == [
        "src,dst,rate_mbps,delay_ms,bytes,interface_bytes,drops,busy_s,goodput_mbps,"
        "utilisation_percent,background_bytes",
        "oslo,rome,8.000,10.000,1750000,1820000,0,1.750,8.000,100.000,0",
        "oslo,kyiv,8.000,10.000,500000,530000,0,0.500,8.000,100.000,0",
        "rome,oslo,8.000,10.000,1500000,1590000,0,1.500,8.000,100.000,0",
        "rome,kyiv,8.000,10.000,500000,530000,0,0.500,8.000,100.000,0",
        "kyiv,oslo,8.000,10.000,500000,530000,0,0.500,8.000,100.000,0",
        "kyiv,rome,8.000,10.000,500000,530000,0,0.500,8.000,100.000,0",
    ]


def test_a_link_without_traffic_or_counters_has_no_numbers_for_them() -> None:
    changes = [
        without("run_finished"),
        without("sent", site="kyiv", dst="rome"),
        without("received", site="rome", src="kyiv"),
    ]
    assert csv(LinkRow.frame(tabulate_links(history(*changes), TOPOLOGY)))[6] == (
        "kyiv,rome,8.000,10.000,0,,,0.000,,,0"
    )


def test_time_in_which_transfers_overlap_is_busy_once() -> None:
    overlapping = altered("sent", {"start_ns": 1100 * MS}, task=1, site="oslo", dst="rome")
    first = LinkRow.frame(tabulate_links(history(overlapping), TOPOLOGY)).iloc[0]
    assert first["busy_s"] == pytest.approx(2.32)


def test_evaluations_are_listed_in_order_of_time() -> None:
    assert csv(AccuracyRow.frame(tabulate_accuracy(history()))) == [
        "t_s,of,number,site,sites,accuracy_percent,loss,samples",
        "1.450,average,1,,3,41.500,1.625,10000",
        "2.900,average,2,,3,81.500,0.500,10000",
        "4.350,average,3,,3,81.500,0.500,10000",
    ]
    programs = history(
        without("model_evaluated"),
        added(2290, "kyiv", "evaluated", task=1, accuracy_percent=9.5, loss=2.0, samples=1000),
    )
    assert csv(AccuracyRow.frame(tabulate_accuracy(programs)))[1:] == [
        "2.290,task,1,kyiv,1,9.500,2.000,1000"
    ]


@pytest.mark.parametrize(
    ("stop", "reached_s", "reached", "rounds", "updates"),
    [
        (Stop(accuracy_percent=80.0, in_a_row=2), 2.9, 1, 4 / 3, 2),
        (Stop(loss=1.7, in_a_row=3), 1.45, 1, 1 / 3, 0),
        (Stop(accuracy_percent=80.0), math.nan, 0, math.nan, None),
        (Stop(rounds=3), math.nan, None, math.nan, None),
    ],
)
def test_the_time_to_the_target_is_that_of_the_first_evaluation_in_the_row(
    stop: Stop, reached_s: float, reached: int | None, rounds: float, updates: int | None
) -> None:
    events = history()
    tasks = TaskRow.frame(tabulate_tasks(events, forecast))
    row = RunRow.frame([tabulate_run(events, tasks, SITES, stop=stop)]).iloc[0]
    assert row["target_s"] == pytest.approx(reached_s, nan_ok=True)
    assert (None if pd.isna(row["target_reached"]) else row["target_reached"]) == reached
    assert row["target_rounds"] == pytest.approx(rounds, nan_ok=True)
    assert (None if pd.isna(row["target_updates"]) else row["target_updates"]) == updates
    later = replace(WHOLE, begin_ns=1_000 * MS)
    counted = RunRow.frame([tabulate_run(events, tasks, SITES, stop=stop, counted=later)]).iloc[0]
    assert counted["target_s"] == pytest.approx(reached_s - 1, nan_ok=True)


@pytest.mark.parametrize(("without", "converged_s", "converged"), [(1, 2.9, 1), (2, math.nan, 0)])
def test_a_run_has_converged_when_its_best_accuracy_stayed_the_best(
    without, converged_s, converged
):
    events, stop = history(), Stop(time_s=9.0, without_progress=without)
    tasks = TaskRow.frame(tabulate_tasks(events, forecast))
    row = RunRow.frame([tabulate_run(events, tasks, SITES, stop=stop)]).iloc[0]
    assert (row["best_accuracy_percent"], row["converged"]) == (81.5, converged)
    assert row["converged_s"] == pytest.approx(converged_s, nan_ok=True)


def test_an_empty_log_gives_empty_tables_with_the_same_columns_and_types() -> None:
    empty = History.of([])
    for got, full in (
        (
            TaskRow.frame(tabulate_tasks(empty, forecast)),
            TaskRow.frame(tabulate_tasks(history(), forecast)),
        ),
        (
            AccuracyRow.frame(tabulate_accuracy(empty)),
            AccuracyRow.frame(tabulate_accuracy(history())),
        ),
        (
            LinkRow.frame(tabulate_links(empty, TOPOLOGY)),
            LinkRow.frame(tabulate_links(history(), TOPOLOGY)),
        ),
        (
            WorkerRow.frame(tabulate_workers(empty, SITES)),
            WorkerRow.frame(tabulate_workers(history(), SITES)),
        ),
    ):
        assert got.dtypes.equals(full.dtypes)
    assert len(TaskRow.frame(tabulate_tasks(empty, forecast))) == 0


def test_a_table_survives_being_written_and_read() -> None:
    table = TaskRow.frame(tabulate_tasks(history(), forecast))
    again = pd.read_csv(io.StringIO(table.to_csv(index=False, float_format="%.6f")))
    pd.testing.assert_frame_equal(again, table, check_dtype=False)


def test_phases_follow_each_other_and_the_last_ends_with_the_log() -> None:
    kyiv = history(without("worker_finished", site="kyiv")).phases["kyiv"]
    assert [(p.doing, p.start_ns // MS, p.end_ns // MS, p.task) for p in kyiv] == [
        ("computing", 0, 900, None),
        ("waiting", 900, 1520, None),
        ("in a task", 1520, 2290, 1),
        ("computing", 2290, 2390, None),
        ("waiting", 2390, 4600, None),
    ]


def test_a_transfer_lasts_until_its_last_byte_has_left_the_link() -> None:
    moved = transfers(history().tasks[:1], {("oslo", "rome"): 10.0, ("rome", "oslo"): 30.0})
    assert moved == (
        Transfer(0, "oslo", "rome", "in", 1_000_000, 210 * MS, 1210 * MS),
        Transfer(0, "rome", "oslo", "out", 1_000_000, 470 * MS, 1450 * MS),
    )


def test_relayed_bytes_arrive_as_the_phase_that_they_belong_to() -> None:
    relayed = altered("sent", {"phase": "relay"}, task=0, site="oslo")
    first, *_ = transfers(history(relayed).tasks, TOPOLOGY.delays_ms())
    assert (first.phase, first.end_ns) == ("relay", 1210 * MS)


def test_what_was_sent_and_never_arrived_lasts_as_long_as_its_sender_says() -> None:
    lost = without("received", task=0, site="rome")
    first, *_ = transfers(history(lost).tasks, TOPOLOGY.delays_ms())
    assert first.end_ns == 1150 * MS


def test_events_of_unknown_tasks_and_second_starts_are_strays() -> None:
    start = {"policy": "", "plan": "", "group": [], "weights": {}, "scale": 1.0}
    sizes = {"bytes": 1, "chunk_bytes": 1, "forest": {}}
    again = added(500, "controller", "task_started", task=0, **start, **sizes)
    unknown = added(600, "rome", "task_joined", task=9)
    found = history(again, unknown)
    assert [type(event).__name__ for event in found.strays] == ["TaskStarted", "TaskJoined"]
    assert len(found.tasks) == 3


def test_intervals_that_overlap_or_touch_are_one() -> None:
    assert union([(5, 6), (0, 2), (1, 3), (3, 4)]) == ((0, 4), (5, 6))
    assert union([(0, 9), (2, 3)]) == ((0, 9),)
    assert union([]) == ()
