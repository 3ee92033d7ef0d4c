"""The progress of a sweep, as a value and as what a terminal or a log shows."""

import io

import pytest
from rich.console import Console

from trunkline.harness.live import sweep_view
from trunkline.harness.live.sweep_progress import Running, SweepProgress, VariantProgress


def make(variants=2, trials=2):
    names = [f"v{number}" for number in range(variants)]
    runs = {f"{name}-{trial}": [name] for name in names for trial in range(trials)}
    return SweepProgress(dict.fromkeys(names, trials), runs)


def test_the_line_counts_what_is_done_failed_running_and_lost():
    sweep = make(variants=2, trials=20)
    assert sweep.describe() == "0 of 40 done"
    sweep.note_before("v0-0", "pass")
    sweep.note_before("v0-1", "fail")
    sweep.note_running([Running("v1-0"), Running("v1-1", 0.5), Running("v1-2")], 10.0)
    for run, outcome in (("v1-0", "error"), ("v1-2", "unknown")):
        sweep.note_finished(run, outcome, starts=3 if outcome == "error" else 1)
    assert sweep.describe() == (
        "4 of 40 done (2 from before, 1 failed, 1 unknown, 1 error), 2 started again, 1 running"
    )
    assert sweep.share == 4.5 / 40


def test_rate_and_end_are_of_the_work_of_this_command_while_runs_were_in_progress():
    sweep = make(variants=1, trials=11)
    for trial in range(5):
        sweep.note_before(f"v0-{trial}", "pass")
    sweep.note_running([], 0.0)
    sweep.note_running([], 3601.0)  # an hour without a machine
    sweep.note_running([Running("v0-5")], 3601.0)
    sweep.note_running([Running("v0-5", 0.1)], 3611.0)
    assert sweep.describe() == "5 of 11 done (5 from before), 1 running"  # too early
    sweep.note_running([Running("v0-5", 0.5)], 3631.0)
    assert sweep.describe().endswith("1 running, about 6 min left")
    sweep.note_running([Running("v0-5", 1.0)], 3661.0)
    sweep.note_finished("v0-5", "pass")
    sweep.note_running([Running("v0-6")], 3661.0)
    assert sweep.describe().endswith("1 running, 1.0 runs a minute, about 5 min left")


def test_runs_that_begin_and_end_between_two_looks_have_a_rate():
    sweep = make(variants=1, trials=4)
    sweep.note_running([], 0.0)
    for trial, now_s in enumerate((1.0, 2.0)):
        sweep.note_finished(f"v0-{trial}", "pass")
        sweep.note_running([], now_s)
    assert sweep.describe() == "2 of 4 done, 60 runs a minute, about 2 s left"


@pytest.mark.parametrize(
    ("took_s", "said"),
    [(0.5, "120 runs a minute"), (12, "5.0 runs a minute"), (600, "6.0 runs an hour"),
     (7200, "12 runs a day"), (864_000, "0.1 runs a day")],
)  # fmt: skip
def test_rates_have_a_period_with_at_least_one_run(took_s, said):
    sweep = make(variants=1, trials=2)
    sweep.note_running([Running("v0-0")], 0.0)
    sweep.note_running([Running("v0-0")], took_s)
    sweep.note_finished("v0-0", "pass")
    assert said in sweep.describe().split(", ")


def test_a_run_that_was_lost_is_counted_once_for_each_new_start():
    sweep = make()
    sweep.note_running([Running("v0-0", 0.5, starts=1)], 0.0)
    assert "started again" not in sweep.describe()
    sweep.note_running([Running("v0-0", 0.0, starts=2)], 1.0)
    sweep.note_running([], 2.0)  # lost again, and not started yet
    assert sweep.describe() == "0 of 4 done, 1 started again"
    sweep.note_finished("v0-0", "pass", starts=3)
    assert sweep.describe().startswith("1 of 4 done, 2 started again")


def test_the_whole_is_done_only_when_every_run_has_ended():
    sweep = make(variants=1, trials=1)
    sweep.note_running([Running("v0-0", 1.0)], 0.0)
    assert sweep.share == 0.99
    sweep.note_finished("v0-0", "pass")
    assert sweep.share == 1.0


def test_a_run_stands_for_all_variants_with_its_scenario():
    sweep = SweepProgress({"crew": 1, "crew, even": 1}, {"a": ["crew", "crew, even"]})
    sweep.note_running([Running("a")], 0.0)
    assert [each.running for each in sweep.list_variants()] == [1, 1]
    sweep.note_finished("a", "pass")
    assert (sweep.done, sweep.total, sweep.share) == (2, 2, 1.0)


def test_one_variant_has_no_line_of_its_own():
    sweep = SweepProgress({"soak": 3})
    sweep.note_finished("any", "fail")
    assert sweep.describe() == "1 of 3 done (1 failed)"
    assert sweep.list_variants() == []


def variant(name, running=0, **outcomes):
    return VariantProgress(name, 2, running, outcomes)


def test_of_many_variants_those_that_run_come_first_then_those_that_failed():
    many = [variant(f"done {n}", **{"pass": 2}) for n in range(5)]
    many += [variant("failed", fail=2), variant("waits"), variant("runs", running=1)]
    assert [each.name for each in sweep_view.choose(many, 4)] == ["failed", "waits", "runs"]
    assert [each.name for each in sweep_view.choose(many, 3)] == ["failed", "runs"]
    assert sweep_view.choose(many, 8) == many


def draw(sweep, width, lines=12):
    screen = io.StringIO()
    Console(file=screen, width=width).print(sweep_view.draw(sweep, "", lines))
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_a_terminal_shows_a_bar_and_the_variants():
    sweep = make(variants=3, trials=10)
    sweep.note_running([Running("v0-0"), Running("v1-0")], 0.0)
    sweep.note_finished("v2-0", "fail")
    sweep.note_finished("v2-1", "pass")
    whole, *variants = draw(sweep, 80)
    assert whole.endswith("  7 % 2 of 30 done (1 failed), 2 running")
    assert variants == [
        "v0  0 of 10  1 running",
        "v1  0 of 10  1 running",
        "v2  2 of 10  1 failed",
    ]


def test_two_hundred_variants_fit_into_a_small_terminal():
    sweep = make(variants=200, trials=3)
    sweep.note_running([Running("v150-0"), Running("v7-0")], 0.0)
    for number in range(20, 100):
        sweep.note_finished(f"v{number}-0", "fail")
    lines = draw(sweep, 40, lines=4)
    assert all(len(line) <= 40 for line in lines)
    assert [line.split()[0] for line in lines[-4:]] == ["v7", "v20", "v150", "and"]
    assert lines[-1] == "and 197 more"


def test_a_terminal_is_left_clean_and_gets_nothing_before_the_first_run():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=24, color_system=None)
    times = iter([0.0, 0.1, 0.3])
    with sweep_view.show(console, "share 1/2: ", lambda: next(times)) as show:
        assert screen.getvalue() == ""
        sweep = make()
        for share in (0.1, 0.5, 0.9):  # the second one comes too early to be drawn
            sweep.note_running([Running("v0-0", share)], 0.0)
            show(sweep)
    shown = screen.getvalue()
    assert "  2 % share 1/2: 0 of 4 done, 1 running" in shown
    assert " 12 % " not in shown and " 22 % " in shown
    assert shown.endswith("\x1b[2K")


def test_a_log_has_lines_of_the_whole_and_one_of_each_variant_when_it_is_complete():
    screen, times = io.StringIO(), iter([0.0, 10.0, 20.0, 30.0])
    sweep = make(variants=2, trials=2)
    with sweep_view.show(Console(file=screen, width=40), clock=lambda: next(times)) as show:
        for run in ("v0-0", "v1-0", "v1-1", "v0-1"):
            sweep.note_finished(run, "fail" if run == "v1-1" else "pass")
            show(sweep)
    assert screen.getvalue().splitlines() == [
        " 25% 1 of 4 done",
        " 50% 2 of 4 done",
        "     v1: 2 of 2 done (1 failed)",
        " 75% 3 of 4 done (1 failed)",
        "     v0: 2 of 2 done",
        "100% 4 of 4 done (1 failed)",
    ]


def test_a_log_of_many_variants_names_only_those_with_runs_that_did_not_pass():
    screen = io.StringIO()
    sweep = make(variants=200, trials=1)
    with sweep_view.show(Console(file=screen, width=40), clock=lambda: 0.0) as show:
        for number in range(200):
            sweep.note_finished(f"v{number}-0", "error" if number == 7 else "pass")
            show(sweep)
    assert screen.getvalue().splitlines() == [
        "  0% 1 of 200 done",
        "     v7: 1 of 1 done (1 error)",
        "100% 200 of 200 done (1 error)",
    ]


def test_quiet_shows_nothing():
    screen = io.StringIO()
    for terminal in (True, False):
        console = Console(file=screen, quiet=True, force_terminal=terminal)
        with sweep_view.show(console) as show:
            show(make())
    assert screen.getvalue() == ""
