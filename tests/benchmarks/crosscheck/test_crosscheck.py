"""The table of cases, the results that are kept, and what their tables show."""

from dataclasses import replace
from pathlib import Path

import crosscheck
import crosscheck_results
import pytest
from crosscheck_results import (
    HALF_SPEED,
    KERNEL,
    MACHINES,
    NS3,
    OURS,
    OWN_TCP,
    UNPACED,
    Case,
    Store,
    hash_code,
    list_missing,
    read_all,
    read_cases,
    seeds_of,
)
from crosscheck_tables import (
    compare,
    count_versions,
    draw,
    draw_losses,
    draw_sides,
    draw_versions,
)
from ns3_description import describe
from run_result import Result, read_history

from trunkline.harness.fluid.fluid_run import predict_events
from trunkline.harness.record.history import History

FOLDER = crosscheck.CASES.parent
PAIR = Case("pair", FOLDER / "pair.yaml", 1, 1, (NS3, KERNEL), ("topology.rates=20 Mbit/s",))


def make(*tasks_s: float) -> Result:
    return Result("pass", tasks_s, 1000, 0)


def test_a_line_is_a_scenario_with_changes():
    text = "# words\n\nfast pair.yaml 3 both topology.rates='20 Mbit/s' seed=1  # more\n"
    changes = ("topology.rates=20 Mbit/s", "seed=1")
    expected = Case("fast", Path("f/pair.yaml"), 3, 3, (NS3, OWN_TCP, *MACHINES), changes)
    assert read_cases(text, Path("f")) == [expected]


def test_a_case_can_have_fewer_seeds_on_the_slow_kernel():
    (case,) = read_cases("fast pair.yaml 3/1 both\n", Path("f"))
    found = [[*seeds_of(case, side)] for side in (NS3, OWN_TCP, UNPACED, KERNEL, OURS)]
    assert found == [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1], [1]]


def test_a_case_can_run_at_half_the_speed_too_beside_the_same_runs_of_ours():
    (case,) = read_cases("fast pair.yaml 3/2 speeds\n", Path("f"))
    assert case.sides == (NS3, OWN_TCP, *MACHINES, HALF_SPEED)
    assert [*seeds_of(case, HALF_SPEED)] == [1, 2]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--only", "nosuch"), "--only nosuch: no case has such a name"),
        (("--sides", "kernl,ns-3"), "--sides: kernl: expected trunkline, "),
        (("--table", "ns-3,kernl"), "--table ns-3,kernl: expected summary, "),
        (("--jobs", "0"), "--jobs 0: expected 1 or more"),
        (("--minutes", "0"), "--minutes 0.0: expected more than 0"),
        (("--minutes", "nan"), "--minutes nan: expected more than 0"),
    ],
)
def test_a_wrong_argument_is_refused(words, why, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["crosscheck.py", *words])
    with pytest.raises(SystemExit):
        crosscheck.main()
    assert why in capsys.readouterr().err


def test_results_say_whose_they_are_and_those_of_others_can_be_missing(tmp_path):
    Store(tmp_path, "0.1 old").write(PAIR, 1, KERNEL, make(2.0))
    new = Store(tmp_path, "0.1 new")
    code = hash_code(KERNEL)
    assert new.read(PAIR, 1, KERNEL) == replace(make(2.0), version="0.1 old", code=code)
    results = (result for *_, result in read_all([PAIR], new, [KERNEL, OURS]))
    assert count_versions(results) == {("0.1 old", code): 1}
    assert draw_versions([PAIR], new, [KERNEL])[1] == [["kernel", "1", "old", "", "yes"]]
    strict = replace(new, reads="version")
    assert [*list_missing([PAIR], new, [KERNEL])] == []
    assert [*list_missing([PAIR], strict, [KERNEL])] == [(PAIR, 1, KERNEL)]
    strict.write(PAIR, 1, KERNEL, make(2.0))
    assert [*list_missing([PAIR], strict, [KERNEL])] == []


def test_the_first_seeds_come_first_on_all_sides_until_the_time_is_up(
    tmp_path, monkeypatch, capsys
):
    cases = [replace(PAIR, name=name, seeds=2) for name in ("one", "two")]
    done, up = [], []

    def measure_each(missing, store, side, limits):
        done.append((side, [(case.name, seed) for case, seed in missing]))
        for case, seed in missing:
            store.write(case, seed, side, make(2.0))
        if len(done) == 3:
            up.append(side)

    monkeypatch.setattr(crosscheck, "_measure_each", measure_each)
    monkeypatch.setattr(crosscheck.Limits, "left_s", property(lambda self: float(not up)))
    store = Store(tmp_path, reads="code")
    assert crosscheck.measure_all(cases, store, [UNPACED, NS3], crosscheck.Limits())
    firsts, seconds = ([(name, seed) for name in ("one", "two")] for seed in (1, 2))
    assert done == [(UNPACED, firsts), (NS3, firsts), (UNPACED, seconds)]
    assert "ns-3: the time was up before 2 results; the same command goes on" in (
        capsys.readouterr().err
    )
    up.clear()
    assert crosscheck.measure_all(cases, store, [UNPACED, NS3], crosscheck.Limits())
    assert done[3:] == [(NS3, seconds)]


def test_what_other_code_made_is_measured_again_and_shown_until_then(tmp_path, monkeypatch):
    store, careful = Store(tmp_path), Store(tmp_path, reads="code")
    store.write(PAIR, 1, OURS, make(2.0))
    assert [*list_missing([PAIR], careful, [OURS])] == []
    monkeypatch.setattr(crosscheck_results, "hash_code", lambda side: "other")
    assert [*list_missing([PAIR], careful, [OURS])] == [(PAIR, 1, OURS)]
    assert [*list_missing([PAIR], store, [OURS])] == []


def test_comments_and_docstrings_are_no_code(tmp_path):
    texts = 'def f():\n    """What it does."""\n    return 1\n', "def f():  # why\n  return 1", "x"
    files = [tmp_path / f"{number}.py" for number in range(3)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    first, second, third = map(crosscheck_results._strip, files)
    assert first == second != third
    assert hash_code(OURS) != hash_code(KERNEL) != hash_code(NS3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fast pair.yaml 3\n", "expected NAME FILE SEEDS"),
        ("fast pair.yaml many ns3\n", "expected NAME FILE SEEDS"),
        ("fast pair.yaml 1 here\n", "expected NAME FILE SEEDS"),
        ("fast pair.yaml 1/3 both\n", "more seeds on Debian's kernel than in all"),
        ("a pair.yaml 1 ns3\na pair.yaml 1 ns3\n", "a: given twice"),
    ],
)
def test_a_wrong_table_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        read_cases(text, Path())


def test_all_cases_can_be_run_and_described():
    cases = read_cases(crosscheck.CASES.read_text(), FOLDER)
    assert sum(NS3 in case.sides for case in cases) >= 50
    assert sum(KERNEL in case.sides for case in cases) >= 20
    for case in cases:
        if NS3 in case.sides:
            describe(case.load(1, NS3))
        if KERNEL in case.sides:
            assert case.load(1, KERNEL).clock == "real"


def test_a_result_of_another_scenario_does_not_count(tmp_path):
    store = Store(tmp_path)
    store.write(PAIR, 1, OURS, make(2.0, 1.0))
    assert store.read(PAIR, 1, OURS) == replace(make(2.0, 1.0), code=hash_code(OURS))
    other = Case("pair", PAIR.file, 1, 1, (NS3,), ("topology.rates=30 Mbit/s",))
    assert store.read(other, 1, OURS) is None


def test_differences_are_those_of_the_first_and_of_the_later_tasks(tmp_path):
    store = Store(tmp_path)
    store.write(PAIR, 1, UNPACED, make(2.0, 9.0, 1.0, 1.0))
    store.write(PAIR, 1, NS3, make(2.1, 9.0, 1.0, 0.9))
    found = [*compare([PAIR], store, (NS3, KERNEL))]
    assert [each.write() for each in found] == [
        ["`pair`", "ns-3", "first task", "2.000", "2.100", "+5.0"],
        ["`pair`", "ns-3", "later tasks", "1.000", "0.950", "-5.0"],
        ["`pair`", "ns-3", "task 1", "2.000", "2.100", "+5.0"],
        ["`pair`", "ns-3", "task 2", "9.000", "9.000", "+0.0"],
        ["`pair`", "ns-3", "task 3", "1.000", "1.000", "+0.0"],
        ["`pair`", "ns-3", "task 4", "1.000", "0.900", "-10.0"],
    ]
    assert [row[2] for row in draw("worst", found)[1]] == ["first task", "later tasks"]
    assert draw("tasks", found)[1][0][2] == "task 4"


def test_a_table_of_sides_has_a_row_for_each_case(tmp_path):
    case = Case("pair", PAIR.file, 2, 2, (NS3, OWN_TCP), ())
    store = Store(tmp_path)
    for seed, side, times in (
        (1, UNPACED, (2.0, 1.0)),
        (1, NS3, (2.1, 1.0)),
        (1, OWN_TCP, (2.2, 0.9)),
    ):
        store.write(case, seed, side, make(*times))
    found = [*compare([case], store, (NS3, OWN_TCP))]
    titles, rows = draw_sides((NS3, OWN_TCP), found)
    sides = "ns-3", "difference, %", "ns-3 with its TCP", "difference, %"
    expected = ["case", "first task, s: Trunkline", *sides, "later tasks, s: Trunkline", *sides]
    assert titles == expected
    first, later = ["2.000", "2.100", "+5.0", "2.200", "+10.0"], ["1.000", "1.000", "+0.0"]
    assert rows == [["`pair`", *first, *later, "0.900", "-10.0"]]
    store.write(case, 2, UNPACED, make(4.0, 1.0))
    store.write(case, 2, NS3, make(4.2, 1.0))  # the other side has not measured this seed yet
    (row,) = draw_sides((NS3, OWN_TCP), compare([case], store, (NS3, OWN_TCP)))[1]
    assert row[1] == "3.000 / 2.000"
    (row,) = draw_sides((NS3, KERNEL), compare([case], store, (NS3, KERNEL)))[1]
    assert row[4:6] == ["", ""]


def test_seeds_are_compared_one_by_one_and_give_an_interval(tmp_path):
    case = Case("pair", PAIR.file, 3, 3, (NS3,), ())
    store = Store(tmp_path)
    for seed, ours, other in ((1, 1.0, 1.1), (2, 2.0, 2.1)):
        store.write(case, seed, UNPACED, make(ours))
        store.write(case, seed, NS3, make(other))
    store.write(case, 3, UNPACED, make(9.0))  # the other side has not measured it yet
    first, *_ = compare([case], store, (NS3,))
    assert (first.ours, first.other) == ("1.500", "1.600")
    assert first.percent == pytest.approx(7.5)  # 10 and 5 %
    assert first.half == pytest.approx(12.706 * 2.5, rel=1e-3)


def test_tables_have_the_worst_first_and_the_percentiles(tmp_path):
    store = Store(tmp_path)
    cases = [Case(f"c{n}", PAIR.file, 1, 1, (NS3, KERNEL), ()) for n in range(1, 21)]
    for number, case in enumerate(cases, 1):
        for side in (OURS, KERNEL, UNPACED):
            store.write(case, 1, side, make(1.0))
        store.write(case, 1, NS3, make(1.0 + number / 100))
    found = [*compare(cases, store, (NS3, KERNEL))]
    assert draw("worst", found)[1][0][:2] == ["`c20`", "ns-3"]
    numbers = [*["10.5", "19.0", "20.0"] * 2, "19.0", "20.0"]
    rows = {(side, what): row for side, what, *row in draw("summary", found)[1]}
    assert rows["ns-3", "first task"] == rows["ns-3", "single tasks"] == ["20", *numbers]
    together = [*["0.5", "18.0", "20.0"] * 2, "18.0", "20.0"]
    assert rows["both", "first task"] == ["40", *together]
    of_one = [row[0] for row in draw("summary", [*compare(cases, store, (NS3,))])[1]]
    assert {*of_one} == {"ns-3"}


def test_a_failed_run_is_not_compared_and_an_unknown_one_is_marked(tmp_path):
    store = Store(tmp_path)
    twice = replace(PAIR, seeds=2)
    for seed, verdict in ((1, "unknown"), (2, "fail")):
        store.write(twice, seed, UNPACED, make(2.0, 1.0))
        store.write(twice, seed, NS3, replace(make(2.2, 1.0), verdict=verdict))
    first, *_ = compare([twice], store, (NS3,))
    assert (first.other, len(first.singles)) == ("2.200 (unknown)", 1)


def test_what_is_wrong_with_cases_is_said_before_anything_is_measured(tmp_path):
    good = Case("good", PAIR.file, 1, 1, (NS3,), ())
    key = Case("key", PAIR.file, 1, 1, (KERNEL,), ("topology.nosuch=3",))
    gone = Case("gone", tmp_path / "gone.yaml", 1, 1, (NS3,), ())
    jitter = Case("jitter", PAIR.file, 1, 1, (NS3,), ("topology.jitter=1 ms",))
    said = [*crosscheck.list_problems([good, key, gone, jitter])]
    assert [each.partition(":")[0] for each in said] == ["key", "gone", "jitter"]
    assert "nosuch" in said[0] and "gone.yaml" in said[1]
    for line in ("a pair.yaml 0 ns3", "a pair.yaml one ns3", "a pair.yaml 1 ns3 'x", "a pair.yaml"):
        with pytest.raises(ValueError, match=r"a pair\.yaml"):
            read_cases(line, tmp_path)
    assert [*list_missing([good], Store(tmp_path), (NS3,))] == [(good, 1, NS3)]


def test_lost_packets_are_shown_beside_those_of_the_other_kernel(tmp_path):
    store = Store(tmp_path)
    case = Case("lossy", PAIR.file, 1, 1, (KERNEL,), ("topology.loss=1 %",))
    store.write(case, 1, OURS, Result("pass", (2.0,), packets=990, drops=10))
    store.write(case, 1, KERNEL, Result("pass", (2.0,), packets=990, drops=12))
    store.write(PAIR, 1, OURS, make(2.0))
    store.write(PAIR, 1, KERNEL, make(2.0))  # nothing is lost
    row = ["`lossy`", "1", "1000", "10", "12", "+2", "10"]
    assert draw_losses([PAIR, case], store)[1] == [row]


def test_the_kernel_is_compared_by_the_tasks_that_it_has_carried_out(tmp_path):
    store = Store(tmp_path)
    store.write(PAIR, 1, OURS, make(2.0, 1.0, 1.0, 1.0, 7.0, 7.0, 7.0, 7.0))
    store.write(PAIR, 1, KERNEL, make(2.0, 1.0, 1.0, 1.1))
    found = [*compare([PAIR], store, (KERNEL,))]
    assert [each.percent for each in found] == pytest.approx([0.0, 5.0, 0.0, 0.0, 0.0, 10.0])


def test_moving_times_leave_out_what_processors_take():
    history = History.of(predict_events(PAIR.load(1, OURS)))
    moving = read_history(history, "pass", moving=True)
    whole = read_history(history, "pass", moving=False)
    # n1, the controller's site, sends at once, and n2 when the message is there, after 10 ms.
    differences = [a - b for a, b in zip(whole.tasks_s, moving.tasks_s, strict=True)]
    assert differences[:2] == pytest.approx([0.0, 0.010], abs=1e-6)
