"""The table of updates at servers, its summary, and the distributions that are drawn of it."""

import pandas as pd
import pytest
from three_sites import without
from two_servers import SERVERS, Line, history, make_log
from two_servers import _Run as Run

from trunkline.harness.record.warm_up import Counted
from trunkline.harness.report.updates import update_plots, updates_section
from trunkline.harness.report.updates.update_tables import (
    UpdateRow,
    UpdatesOfRun,
    distribute,
    summarize,
    tabulate_updates,
)


def make_longer_log() -> list[Line]:
    """The good log, and another update of kyiv, which pulled before bern's update was there."""
    more = Run()
    more.push(4, "kyiv", 500, 560)
    return sorted([*make_log(), *more.log], key=lambda line: line["t_ns"])


def updates(gaps: list[float]) -> pd.DataFrame:
    row = {"t_s": 1.0, "task": 0, "site": "kyiv", "iteration": 0, "staleness": 2, "push_s": 0.1}
    return UpdateRow.frame(UpdateRow(**row, gap_s=gap, pull_s=0.5) for gap in gaps)


def test_updates_have_gaps_staleness_and_the_times_of_their_transfers() -> None:
    table = UpdateRow.frame(tabulate_updates(history(of=make_longer_log()), SERVERS))
    assert table.to_csv(index=False, float_format="%.3f").splitlines() == [
        "t_s,task,site,iteration,staleness,gap_s,push_s,pull_s",
        "0.300,0,kyiv,0,0,,0.090,",
        "0.350,1,bern,0,1,0.050,0.070,",
        "0.560,4,kyiv,0,1,0.210,0.060,0.080",
    ]


def test_an_update_counts_when_all_servers_have_it() -> None:
    assert (
        len(
            UpdateRow.frame(
                tabulate_updates(history(without("model_merged", site="rome", task=1)), SERVERS)
            )
        )
        == 1
    )
    assert not len(UpdateRow.frame(tabulate_updates(history(), ())))


def test_gaps_count_as_zero_below_a_tenth_of_the_mean() -> None:
    found = summarize(updates([0.0, 0.0, 0.09, 0.11, 4.8]))  # the mean is 1
    assert found == UpdatesOfRun(
        zero_gaps_percent=pytest.approx(60.0),
        staleness=2.0,
        staleness_most=2.0,
        push_s=0.1,
        pull_s=0.5,
    )
    assert summarize(None) is summarize(updates([])) is None


def test_a_distribution_has_the_share_of_values_up_to_each() -> None:
    values, shares = distribute(pd.Series([3.0, None, 1.0]))
    assert values.tolist() == [1.0, 3.0]
    assert shares.tolist() == [50.0, 100.0]


def test_the_page_and_the_figure_show_three_distributions() -> None:
    table = updates([0.0, 0.1, 0.2])
    _, figure = updates_section.write_section(table)
    assert str(figure).count("stroke-blue") == 3
    assert updates_section.write_section(updates([])) == []
    labels = [axes.get_xlabel() for axes in update_plots.draw_updates(table).axes]
    assert labels == ["gap between updates (s)", "time of a pull (s)", "staleness (updates)"]


def test_distributions_of_updates_leave_out_the_warm_up():
    table = updates([0.0, 0.1, 0.2, 0.3]).assign(t_s=[0.0, 0.1, 0.3, 0.6])
    words, _ = updates_section.write_section(table, Counted(1, 10**8))
    assert str(words).startswith("<p>3 updates of workers.")
    assert str(words).endswith(" Left out: 1 update of the warm-up.</p>")
