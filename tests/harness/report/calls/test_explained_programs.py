"""`trunkline explain` of runs of programs, with timed calls and without."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from finished_runs import make_programs_run

from trunkline.agents.events.call_events import CallFinished, CallStarted
from trunkline.agents.events.causes import ProgramFailed, TimeUp
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.run_events import (
    AgentExited,
    ProgramStarted,
    RunFinished,
    Stopping,
)
from trunkline.harness.commands import main
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.calls.calls_in_faults import (
    describe_calls_in_faults,
    find_calls_in_faults,
    find_fault_times,
)
from trunkline.harness.report.calls.steps.step_tables import describe_delay

MS = 10**6


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    return make_programs_run(tmp_path / "mine" / "first")


@pytest.fixture
def untimed(timed: Path) -> Path:
    """The same run without calls, and with a fault."""
    scenario = timed / "resolved.yaml"
    scenario.write_text(scenario.read_text().replace(", time_calls: true", ""))
    log = timed / "events.jsonl"
    lines = [line for line in log.read_bytes().splitlines(True) if b'"call_' not in line]
    pause = FaultStarted(600 * MS, "runner", 0, "pause", "pause n2 for 200 ms", ("n2",))
    faults = [to_line(pause), to_line(FaultEnded(800 * MS, "runner", 0))]
    log.write_bytes(b"".join([*lines[:-4], *faults, *lines[-4:]]))
    outputs.build(timed)
    return timed


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    assert main.main(["explain", *words]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_programs_without_timed_calls_are_explained_as_far_as_is_known(capsys, untimed) -> None:
    said = explain(capsys, str(untimed))
    text = [" ".join(line) for line in said]
    assert text[0] == "No call was timed, so nothing says how the programs spent their time."
    assert text[1].startswith("For programs that use torch.distributed, workload.time_calls: true")
    heads = ["program", "started", "ended", "how", "processes", "sent", "received"]
    assert said[2] == heads
    assert text[3] == "n1 0.000 s 1.000 s exit code 0 1 3 MB 0 B"
    assert text[4] == "n2 0.000 s 1.000 s exit code 0 1 0 B 3 MB"
    assert text[-1] == "Fault 0 (pause n2 for 200 ms) lasted from 0.600 s to 0.800 s."


def test_what_is_known_without_timed_calls_is_an_object_too(capsys, untimed) -> None:
    assert main.main(["explain", str(untimed), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["timed"] is False
    assert [(row["program"], row["end_s"], row["signal"]) for row in found["programs"]] == [
        ("n1", 1.0, None), ("n2", 1.0, None),
    ]  # fmt: skip
    assert [row["bytes_sent"] for row in found["sites"]] == [3_000_000, 0]
    assert [row["text"] for row in found["faults"]] == ["pause n2 for 200 ms"]


def test_programs_that_make_no_call_are_not_told_to_time_calls(capsys, untimed) -> None:
    scenario = untimed / "resolved.yaml"
    scenario.write_text(scenario.read_text().replace("exit 0]", "exit 0], time_calls: true"))
    outputs.build(untimed)
    first, *others = explain(capsys, str(untimed))
    assert " ".join(first[:7]) == "The programs made no call of torch.distributed,"
    assert not any("workload.time_calls:" in " ".join(line) for line in others)


def test_timed_programs_have_a_row_each(capsys, timed) -> None:
    said = [" ".join(line) for line in explain(capsys, str(timed))]
    assert "0.133 s of a program's time, on average, passed before its first step." in said
    rows = said[-3:]
    assert [row.rpartition(" 1 ")[0] for row in rows] == ["n1 (process 2)", "n1 (process 3)", "n2"]
    assert main.main(["explain", str(timed), "--json"]) == 0
    programs = json.loads(capsys.readouterr().out)["programs"]
    assert [row["before_s"] for row in programs] == pytest.approx([0.1, 0.15, 0.15])


def test_a_call_that_a_program_never_began_is_named(capsys, timed) -> None:
    """In what `explain` prints, as an object, and on the page."""
    log = timed / "events.jsonl"
    lines = [line for line in log.read_bytes().splitlines(True) if b'"call_finished"' not in line]
    kept = [line for line in lines if not (b'"call_started"' in line and b'"site": "n2"' in line)]
    assert len(kept) == len(lines) - 1
    log.write_bytes(b"".join(kept))
    outputs.build(timed)
    said = "n2 never began all_reduce number 0, in which n1 waited from 0.3 s on."
    assert said in [" ".join(line) for line in explain(capsys, str(timed))]
    page = (timed / "report.html").read_text()
    assert said in re.sub(r'<span class="whole">([^<]*)</span>', r"\1", page)
    assert main.main(["explain", str(timed), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["waited_for"] == {"n2": pytest.approx(0.7)}
    assert found["hangs"] == [
        {"call": "all_reduce", "number": 0, "missing": ["n2"], "waiting": ["n1"],
         "start_s": 0.3, "end_s": 1.0},
    ]  # fmt: skip


def fault(number: int, begin: int, end: int | None, verb: str = "pause") -> list[Event]:
    began = FaultStarted(begin * MS, "runner", number, verb, f"{verb} n2", ("n2",))
    return [began] + ([] if end is None else [FaultEnded(end * MS, "runner", number)])


def call(site: str, number: int, begin: int, end: int | None, failed: bool = False) -> list[Event]:
    started = CallStarted(begin * MS, site, 2, number, 0, "barrier", 0, "0", (0, 1), 0, None, True)
    ended = [] if end is None else [CallFinished(end * MS, site, 2, number, failed)]
    return [started, *ended]


UNKNOWN = "has a cost that the log does not tell: no such call ended without a fault."


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            fault(0, 500, 900),
            "Fault 0 (pause n2) cost the programs nothing in calls: none was under way.",
        ),
        (
            [*fault(0, 150, 900), *call("n1", 0, 100, 400), *call("n2", 0, 300, 1500)],
            f"Fault 0 (pause n2), from 0.150 s to 0.900 s, {UNKNOWN} Meanwhile 2 calls of barrier "
            "at 2 sites were under way; the last one ended at 1.500 s, 0.600 s after the fault.",
        ),
        (
            [*fault(0, 150, 900), *call("n1", 0, 100, 400), *call("n1", 1, 1000, 1100)],
            "Fault 0 (pause n2), from 0.150 s to 0.900 s, cost a program 0.100 s on average. "
            "Meanwhile 1 call of barrier at 1 site was under way; it ended at 0.400 s.",
        ),
        (
            [*fault(0, 150, 200), *call("n1", 0, 100, 205), *call("n1", 1, 1000, 1100)],
            "Fault 0 (pause n2), from 0.150 s to 0.200 s, cost no time that the log shows: calls "
            "took no longer than without a fault. Meanwhile 1 call of barrier at 1 site was under "
            "way; it ended at 0.205 s, 0.005 s after the fault.",
        ),
        (
            [
                *fault(0, 150, None, "kill"),
                *call("n1", 0, 100, 400, True),
                *call("n2", 0, 90, None),
            ],
            f"Fault 0 (kill n2), from 0.150 s on, {UNKNOWN} Meanwhile 2 calls of barrier at 2 "
            "sites were under way; 1 failed and 1 never ended.",
        ),
        (
            [*fault(0, 150, None, "kill"), *call("n1", 0, 100, None), *call("n2", 0, 90, None)],
            f"Fault 0 (kill n2), from 0.150 s on, {UNKNOWN} Meanwhile 2 calls of barrier at 2 "
            "sites were under way; none of them ended.",
        ),
    ],
)
def test_a_fault_has_a_cost_if_calls_can_be_compared(events, said: str) -> None:
    log = [*events, RunFinished(2000 * MS, "runner", TimeUp(2.0), ())]
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    assert list(describe_calls_in_faults(history, ("n1", "n2"), 2)) == [said]


def fail(name: str, at: int) -> list[Event]:
    """A program fails, and ends the run, and with it the one at n2."""
    return [
        ProgramStarted(0, "runner", "n2", 0),
        AgentExited(at * MS, "runner", name, 1, 0, asked=False),
        Stopping(at * MS, "runner", ProgramFailed()),
        AgentExited(at * MS, "runner", "n2", 0, 15, asked=True),
    ]


@pytest.mark.parametrize(
    ("events", "how", "ends"),
    [
        (
            [*call("n1", 1, 490, 520, True), *call("n2", 1, 480, None), *fail("n1", 530)],
            "ended the run",
            "1 failed and 1 never ended",
        ),
        (
            [*call("n1", 1, 490, 900, True), *call("n2", 1, 480, None), *fail("n1", 910)],
            "cost a program 0.320 s on average and ended the run",
            "1 failed and 1 never ended",
        ),
        (
            [*call("n1", 1, 490, 520, True), *call("n1", 2, 1000, 1010), *fail("n1", 1400)],
            "has a cost that the log does not tell: no call was completed meanwhile",
            "1 failed",
        ),
        (
            [*call("n1", 1, 490, 520, True), *call("n2", 1, 490, 520)],
            "cost no time that the log shows: completed calls took no longer than without a fault",
            "1 failed",
        ),
    ],
)
def test_a_fault_that_ended_the_run_did_not_cost_nothing(events, how: str, ends: str) -> None:
    """Not one after which the site went on, or where no program failed."""
    began = fault(0, 500, 600 if "not tell" in how else None, "kill")
    log = [*call("n1", 0, 100, 200), *events, *began]
    log.append(RunFinished(2000 * MS, "runner", TimeUp(2.0), ()))
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    (said,) = describe_calls_in_faults(history, ("n1", "n2"), 2)
    assert f" s, {how}. " in said.replace(" s on, ", " s, ")
    assert f"under way; {ends}" in said
    (found,) = find_calls_in_faults(history, ("n1", "n2"), 2)
    assert found.to_json()["ended_run"] is how.endswith("ended the run")


def test_of_many_faults_the_costliest_ones_are_described() -> None:
    faults = [each for number in range(12) for each in fault(number, 10 * number, 10 * number + 5)]
    log = [
        *faults,
        *fault(12, 111, None, "heal"),
        *call("n1", 0, 112, 300),
        *call("n1", 1, 400, 410),
        RunFinished(2000 * MS, "runner", TimeUp(2.0), ()),
    ]
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    first, *_, last = describe_calls_in_faults(history, ("n1",), 1)
    assert first.startswith("Fault 11 ") and " cost a program 0.178 s on average. " in first
    assert last == (
        "2 other faults cost a program 0.000 s on average; calls were under way during 0."
    )


def test_late_calls_are_compared_with_the_median_and_shared_by_their_faults() -> None:
    """Of each program, from the fault until its calls ended; two at once count once."""
    log = [
        *fault(0, 150, 400),
        *fault(1, 600, 700),
        *call("n1", 0, 100, 900),
        *call("n1", 1, 120, 800),
        *call("n2", 0, 500, 620),
        *call("n2", 1, 1000, 1010),
        *call("n2", 2, 1100, 1130),
        *call("n2", 3, 1200, 1220),
        RunFinished(2000 * MS, "runner", TimeUp(2.0), ()),
    ]
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    found = find_fault_times(history, ("n1", "n2"))
    assert found.measure_s(2) == pytest.approx((0.75 + 0.02) / 2)
    assert found.divide_s(2) == pytest.approx({0: 0.45 / 2, 1: (0.3 + 0.02) / 2})
    assert (found.since_ns["n1", 2, 0], found.unknown) == (150 * MS, frozenset())
    alone = find_fault_times(
        History.of([each for each in history.events if each.site != "n2"]), ("n1",)
    )
    assert (alone.measure_s(1), len(alone.unknown)) == (0.0, 2)


@pytest.mark.parametrize(
    ("second", "costs"),
    [
        (fault(1, 1200, 1400), {0: 0.95, 1: 0.235}),
        (fault(1, 1200, None), {0: 0.95, 1: 0.235}),
        (fault(1, 400, 1400), {0: 0.15 + 0.25, 1: 0.25 + 0.535}),
        (fault(1, 190, 200), {0: 1.185}),
        (fault(1, 260, 260), {0: 1.185}),
        ([*fault(1, 900, 1000), *fault(2, 950, 1000)], {0: 0.65, 1: 0.2925, 2: 0.2425}),
    ],
)
def test_each_moment_that_a_call_is_late_belongs_to_the_faults_of_that_moment(
    second: list[Event], costs: dict[int, float]
) -> None:
    """A fault gets no time before it began: it cannot cost more than was left of the call."""
    log = [
        *fault(0, 180, 900 if second[0].t_ns == 400 * MS else 600),
        *second,
        *call("n1", 0, 100, 1435),
        *call("n2", 0, 20, 170),
        RunFinished(2000 * MS, "runner", TimeUp(2.0), ()),
    ]
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    found = find_fault_times(history, ("n1",))
    assert found.divide_s(1) == pytest.approx(costs)
    assert found.measure_s(1) == pytest.approx(sum(costs.values())) == 1.185
    numbers = {2: "0 and 1", 3: "0, 1 and 2"}.get(len(costs))
    beside = f" (each moment shared by faults {numbers})" if numbers else ""
    for each in find_calls_in_faults(history, ("n1",), 1):
        (said,) = each.describe()
        number = each.fault.started.fault
        assert (
            f"cost a program {costs[number]:.3f} s on average{beside}. "
            if number in costs
            else "cost no time that the log shows: calls took longer than usual only during other "
            "faults or after them. Meanwhile "
        ) in said


@pytest.mark.parametrize(("begin", "cost_s"), [(3100, 0.5), (3000, 0.6), (3400, 0.35)])
def test_the_calls_of_a_program_are_compared_with_its_own(begin: int, cost_s: float) -> None:
    """n2 begins 100 ms after n1, and then bytes move for 100 ms; a fault adds 500 ms.

    If n2 begins earlier, a call needs no more time from then on. If n2 begins later because of the
    fault, n1 waits longer, which is a cost, and n2 is late in its call for a shorter time.
    """
    log = []
    for number in range(5):
        start, end = 1000 * number, 1000 * number + (700 if number == 3 else 200)
        log += call("n1", number, start, end)
        log += call("n2", number, begin if number == 3 else start + 100, end)
    ranked = [
        replace(each, rank=1) if isinstance(each, CallStarted) and each.site == "n2" else each
        for each in [*fault(0, 3050, 3600), *log]
    ]
    ranked.append(RunFinished(6000 * MS, "runner", TimeUp(6.0), ()))
    history = History.of(sorted(ranked, key=lambda event: event.t_ns))
    found = find_fault_times(history, ("n1", "n2"))
    assert found.divide_s(2) == pytest.approx({0: cost_s})


def test_a_call_that_never_ended_lasts_until_its_program_did() -> None:
    log = [
        ProgramStarted(0, "runner", "n1", 0),
        *call("n1", 0, 10, 60),
        *call("n1", 1, 100, None),
        *fault(0, 170, None, "kill"),
        AgentExited(500 * MS, "runner", "n1", 1, 0, asked=False),
        RunFinished(2000 * MS, "runner", TimeUp(2.0), ()),
    ]
    found = find_fault_times(History.of(log), ("n1",))
    assert found.measure_s(1) == pytest.approx(0.33)


def disturb(log: Path, began: Event, ended: Event) -> None:
    lines = log.read_bytes().splitlines(True)
    place = next(n for n, line in enumerate(lines) if b'"t_ns": 490000000' in line)
    usual = [
        each
        for site, rank in (("n1", 0), ("n2", 1))
        for each in (
            CallStarted(
                600 * MS, site, 2, 9, 0, "all_reduce", 4_000_000, "0", (0, 1), rank, None, True
            ),
            CallFinished(620 * MS, site, 2, 9, False),
        )
    ]
    usual.sort(key=lambda event: event.t_ns)
    more = [*lines[:place], to_line(began), to_line(ended), *lines[place:-4]]
    log.write_bytes(b"".join([*more, *map(to_line, usual), *lines[-4:]]))
    outputs.build(log.parent)


def test_bytes_do_not_move_while_a_fault_holds_calls_up(capsys, timed) -> None:
    """The programs are in a call that a fault made longer than the other one of its kind."""
    log = timed / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"bytes": 3000000', b'"bytes": 30000'))
    outputs.build(timed)
    moves = [" ".join(line) for line in explain(capsys, str(timed))]
    assert moves[0].startswith("A program ran for ")
    assert " moving bytes, " in moves[0]
    assert any(" % of its rate while calls moved bytes" in line for line in moves)
    disturb(log, *fault(0, 410, 450))
    said = [" ".join(line) for line in explain(capsys, str(timed))]
    assert " held up by faults in calls, " in said[0]
    assert said[1].startswith("Faults cost a program at least ")
    assert said[2].startswith("Without faults the run would have ended at least 0.0")
    assert "killed program" not in said[2]
    assert said[3].startswith("Fault 0 (pause n2), from 0.410 s to 0.450 s, cost a program 0.0")
    assert "3 calls" not in said[3]
    assert (
        said[3]
        .partition("Meanwhile ")[2]
        .startswith(
            "2 calls of all_reduce and 1 call of send at 2 sites were under way, 1 of them without "
            "others to compare; "
        )
    )
    rows = outputs.read(timed).tables["steps"]
    assert rows["held_s"].sum() == pytest.approx(0.08 + 0.09)
    sums = rows[["computing_s", "waiting_s", "moving_s", "held_s", "stopped_s", "rest_s"]]
    assert sums.sum(axis=1).tolist() == pytest.approx(rows["duration_s"].tolist())


def test_how_much_earlier_the_run_would_have_ended_has_its_error(timed) -> None:
    """A call takes 0.3 s during a fault, and 0.1 s without."""
    log = [
        *call("n1", 0, 100, 200),
        *call("n1", 1, 300, 600),
        *fault(0, 310, 350),
        RunFinished(1000 * MS, "runner", TimeUp(1.0), ()),
    ]
    history = History.of(sorted(log, key=lambda event: event.t_ns))
    sums, stop = pd.DataFrame({"duration_s": [1.0]}), outputs.read(timed).scenario.stop
    assert list(describe_delay(history, ("n1",), sums, stop)) == [
        "Without faults the run would have ended about 0.20 s earlier (in four measured runs this "
        "was wrong by 0.2 s on average, and by 0.4 s at most), as programs wait for each other in "
        "calls."
    ]


def test_the_faults_of_timed_programs_are_explained(capsys, timed) -> None:
    log = timed / "events.jsonl"
    lines = log.read_bytes().splitlines(True)
    place = next(n for n, line in enumerate(lines) if b'"t_ns": 490000000' in line)
    began, ended = map(to_line, fault(0, 410, 450))
    log.write_bytes(b"".join([*lines[:place], began, ended, *lines[place:]]))
    outputs.build(timed)
    said = [" ".join(line) for line in explain(capsys, str(timed))]
    assert [line for line in said if line.startswith("Fault 0 (pause n2), from 0.410 s to ")]
    assert main.main(["explain", str(timed), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["earlier_s"] == pytest.approx(whole["faults_s"])
    assert whole["busiest"]["ends"] == ["n1", "n2"]
    (found,) = whole["faults"]
    assert found["calls"] == {"all_reduce": 2, "send": 1}
    assert (found["outcomes"], found["last_ended_s"]) == ({"completed": 2, "unfinished": 1}, None)
