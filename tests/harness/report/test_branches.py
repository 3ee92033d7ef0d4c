"""The table, the section and the bars of branches, of a run in memory."""

import asyncio

import pandas as pd
import pytest
from wan import Wan, mesh

from trunkline.agents.events.task_events import (
    Contributed,
    TaskAbandoned,
    TaskDropped,
    TaskFinished,
)
from trunkline.agents.policies import ps
from trunkline.harness.record.branches import list_computed, list_waits
from trunkline.harness.report import activity
from trunkline.harness.report.branches import branches_section
from trunkline.harness.report.branches.branch_tables import BranchRow, summarize, tabulate_branches
from trunkline.harness.report.pages import gantt_section
from trunkline.harness.report.tables.worker_table import WorkerRow, tabulate_workers
from trunkline.workloads.layered.model import Base, Branch, LayeredModel

SITES = ("n1", "n2", "n3")
MODEL = LayeredModel(
    (
        Base("stem", (Branch("only", 8000, 0.05, 0.1),)),
        Base("mixed", (Branch("left", 4000, 0.03, 0.06), Branch("right", 12000, 0.08, 0.16))),
    )
)


@pytest.fixture(scope="module")
def history():
    policy = ps.create(SITES[1:], servers=SITES[:1])
    wan = Wan(mesh(SITES), "ps", policy, servers=SITES[:1], layers=MODEL, rounds=3)
    wan.run()
    return wan.history(wan.events)


def test_every_computation_has_a_row_with_the_wait_before_it(history):
    table = BranchRow.frame(tabulate_branches(history, MODEL))
    assert len(table) == 2 * 3 * 3
    assert list(table["name"][:3].unique()) == ["stem", "mixed/left"]
    first = table[table["iteration"] == 0]
    assert first["task"].isna().all() and first["arrived_s"].isna().all()
    assert (first["stall_s"] == 0).all()
    step = table[(table["iteration"] == 1) & (table["site"] == "n2")]
    assert (step["arrived_s"] <= step["start_s"] + 1e-6).all()
    assert list((step["end_s"] - step["start_s"]).round(6)) == [0.05, 0.03, 0.08]
    joined_s = next(
        event.t_ns / 1e9
        for task in history.tasks
        for event in task.all(Contributed)
        if (event.site, task.number) == ("n2", step["task"].iloc[0])
    )
    waits = [step["start_s"].iloc[0] - joined_s, *(step["start_s"] - step["end_s"].shift())[1:]]
    assert list(step["stall_s"]) == pytest.approx(waits, abs=1e-6)


def test_a_branch_that_is_computed_while_the_model_arrives_counts_as_computing_only(history):
    workers = WorkerRow.frame(tabulate_workers(history, SITES)).set_index("site")
    spent = workers.loc["n2"]
    assert spent["compute_s"] == pytest.approx(3 * (0.16 + 0.32), abs=1e-6)
    in_tasks_ns = sum(
        phase.end_ns - phase.start_ns
        for phase in history.phases["n2"]
        if phase.doing == "in a task"
    )
    had_ns = {
        task.number: event.t_ns
        for task in history.tasks
        for event in task.all(TaskFinished)
        if event.site == "n2"
    }
    during_ns = sum(
        max(0, min(each.end_ns, had_ns[each.task]) - each.start_ns)
        for each in list_computed(history)
        if each.site == "n2" and each.task is not None
    )
    assert during_ns > 0
    assert spent["sync_s"] == pytest.approx((in_tasks_ns - during_ns) / 1e9, abs=1e-6)


def test_the_run_has_the_mean_of_its_steps(history):
    table = BranchRow.frame(tabulate_branches(history, MODEL))
    found = summarize(table, history)
    brought = table[table["task"].notna()]
    assert found.stall_s == pytest.approx(brought["stall_s"].sum() / 4)
    assert found.step_s == pytest.approx(found.stall_s + 0.16 + 0.32, abs=1e-6)
    assert found.stall_percent == pytest.approx(100 * found.stall_s / found.step_s)
    nothing = summarize(table[table["task"].isna()], history)
    assert nothing is summarize(None, history) is None


def test_the_section_draws_the_last_whole_step_in_words_and_bars(history):
    table = BranchRow.frame(tabulate_branches(history, MODEL))
    words, figure = branches_section.write_section(
        table, pd.DataFrame([vars(summarize(table, history))])
    )
    assert "communication that is not hidden" in str(words)
    assert "Iteration 2. Dots" in str(figure) and ">n3<" in str(figure)
    empty = table[table["task"].isna()]
    assert branches_section.write_section(empty, pd.DataFrame([{"step_s": None}])) == []


def test_the_gantt_chart_shows_what_was_computed_during_a_hand_out(history):
    bars = activity.list_bars(history, {site: row for row, site in enumerate(SITES)}, (0, 10))
    computed = sum(end - start for start, end, _, _ in bars["compute a branch"])
    assert computed == pytest.approx(4 * 0.16, abs=1e-6)
    assert bars["wait for a branch"]
    assert "computed while the model arrived" in str(
        gantt_section.draw_gantt(history, SITES, "virtual")
    )


def play(scenario, rounds=3):
    policy = ps.create(SITES[1:], servers=SITES[:1])
    wan = Wan(mesh(SITES), "ps", policy, servers=SITES[:1], layers=MODEL, rounds=rounds)
    wan.run(scenario)
    return wan.history(wan.events)


async def lose_the_server(wan):
    """Kill the server during the first hand-out, when each worker has the first branch."""
    while len(wan.of("branch_arrived")) < 2:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.06)  # both have computed it
    wan.kill("n1")
    await asyncio.sleep(0.5)
    wan.restart("n1")


@pytest.fixture(scope="module")
def given_up():
    return play(lose_the_server)


def test_a_branch_of_a_hand_out_that_was_given_up_is_not_kept(given_up):
    table = BranchRow.frame(tabulate_branches(given_up, MODEL))
    (lost,) = {task.number for task in given_up.tasks if task.all(TaskAbandoned)}
    assert set(table[~table["kept"]]["task"]) == {lost}
    kept = table[table["kept"]]
    assert list(kept.groupby(["site", "iteration"]).size()) == [3] * 6
    assert not kept.duplicated(["site", "iteration", "branch"]).any()
    found = summarize(table, given_up)
    assert found.step_s == pytest.approx(found.stall_s + 0.16 + 0.32, abs=1e-6)
    assert found == summarize(kept, given_up)


def test_an_iteration_that_ended_with_the_model_of_before_has_no_step(given_up):
    table = BranchRow.frame(tabulate_branches(given_up, MODEL))
    forgotten = table[~table["kept"]]
    alone = forgotten.assign(task=pd.NA, kept=True)
    assert summarize(pd.concat([forgotten, alone]), given_up) is None


def test_a_wait_for_a_branch_that_never_came_is_drawn(given_up):
    (lost,) = (task for task in given_up.tasks if task.all(TaskAbandoned))
    (dropped,) = (event for event in lost.all(TaskDropped) if event.site == "n2")
    last_ns = max(
        done.end_ns
        for done in list_computed(given_up)
        if (done.site, done.task) == ("n2", lost.number)
    )
    assert ("n2", (last_ns, dropped.t_ns)) in list(list_waits(given_up))


def test_a_branch_is_never_computed_before_it_arrived(history):
    table = BranchRow.frame(tabulate_branches(history, MODEL))
    brought = table[table["task"].notna()]
    assert (brought["arrived_s"] <= brought["start_s"]).all()


def test_steps_that_began_in_the_warm_up_do_not_count(history):
    table = BranchRow.frame(tabulate_branches(history, MODEL))
    second = table[(table["iteration"] == 2) & (table["branch"] == 0)]
    begin_s = float((second["start_s"] - second["stall_s"]).min()) - 0.001
    amid_s = float(second["end_s"].max())
    assert summarize(table, history, begin_s) == summarize(table[table["iteration"] == 2], history)
    assert summarize(table, history, amid_s) is None
