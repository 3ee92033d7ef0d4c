"""The picture of the tasks that lost most time."""

from __future__ import annotations

import re
from dataclasses import replace

from finished_runs import make_agents_run

from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.explanations.explained_tasks import explain_tasks
from trunkline.harness.report.explanations.explanation import Explanation
from trunkline.harness.report.explanations.time_parts import Part
from trunkline.harness.report.explanations.told import lost_time_bars
from trunkline.harness.report.explanations.told.lost_time_bars import (
    FAULT,
    NONE,
    OTHER,
    OWN,
    TCP,
    TRAFFIC,
    WAIT,
    divide,
    divide_before,
    draw_lost_time,
)
from trunkline.harness.report.explanations.waits import Stretch, Wait

PARTS = (
    Part("rate", 0.5, "a -> b"),
    Part("other tasks", 0.3, "a -> b"),
    Part("background traffic", 0.1, "a -> b"),
    Part("stop", 2.0, "b", 1),
    Part("outage", 1.0, "a -> b", 0),
    Part("cold start", 0.2, "a -> b"),
    Part("loss", 0.25, "a -> b"),
    Part("contribution", 0.05, "a"),
)
WAITED = Wait("b", 0.0, 0.0, 0.75, "it waited", (), (0, 1), ("b", 0))


def make(tmp_path) -> tuple[Explanation, History]:
    """A made-up explanation of a task of a made-up run: 4.4 s, and 0.75 s before it."""
    data = outputs.read(make_agents_run(tmp_path / "run"))
    found, *_ = explain_tasks(data.scenario, data.history, data.tables["tasks"], [0])
    wait = replace(WAITED, stretches=(Stretch(0.25, "x", None, 0), Stretch(0.5, "y", None)))
    made = replace(found, duration_s=4.4, expected_s=0.6, parts=PARTS, wait=wait, lost_s=4.55)
    return made, data.history


def test_a_bar_has_all_of_a_tasks_time_and_the_wait_before_it(tmp_path) -> None:
    found, _ = make(tmp_path)
    assert {key: round(s, 3) for key, s in divide(found).items()} == {
        (OWN, NONE): 0.5,
        (FAULT, 0): 1.0,
        (FAULT, 1): 2.0,
        (TRAFFIC, NONE): 0.4,
        (TCP, NONE): 0.45,
        (OTHER, NONE): 0.05,
    }
    assert divide_before(found) == {(WAIT, NONE): 0.5, (FAULT, 0): 0.25}
    assert divide_before(replace(found, wait=None)) == {(WAIT, NONE): 0.0}


def test_the_picture_has_a_bar_a_mark_and_a_tooltip_for_each_part(tmp_path) -> None:
    found, history = make(tmp_path)
    shown = str(draw_lost_time([found], history))
    assert re.findall(r"<title>(.*?)</title>", shown) == [
        f"0.500 s: {WAIT}",
        "0.250 s: Fault 0 (outage oslo rome for 100 ms)",
        f"0.500 s: {OWN}",
        "1.000 s: Fault 0 (outage oslo rome for 100 ms)",
        "2.000 s: Fault 1 (heal)",
        f"0.400 s: {TRAFFIC}",
        f"0.450 s: {TCP}",
        f"0.050 s: {OTHER}",
    ]
    numbers = re.findall(r'class="number-on middle"[^>]*>(\d+)<', shown)
    assert numbers == ["0", "0", "1"]
    assert "expected time" in shown
    unknown = str(draw_lost_time([replace(found, expected_s=float("nan"))], history))
    assert "expected time" not in unknown


def test_the_tasks_that_lost_most_have_a_bar_in_order_of_start(tmp_path) -> None:
    found, history = make(tmp_path)

    def number(n: int, lost_s: float) -> Explanation:
        started = replace(found.task.started, task=n, t_ns=n)
        return replace(found, task=replace(found.task, started=started), lost_s=lost_s)

    most = lost_time_bars.MOST
    each = [number(n, 1.0 + n) for n in reversed(range(most + 2))]
    shown = re.findall(r">task (\d+)<", str(draw_lost_time(each, history)))
    assert shown == [str(n) for n in range(2, most + 2)]
    assert draw_lost_time([number(0, 0.0), number(1, -1.0)], history) is None
