"""One step of programs: its calls in order, who waited for whom, the busiest link, faults."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from finished_runs import make_agents_run, make_programs_run

from trunkline.agents.events.call_events import CallStarted
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.harness.commands import main
from trunkline.harness.record.calls import Call, list_calls
from trunkline.harness.report import outputs
from trunkline.harness.report.calls.calls_in_faults import Delayed, FaultTimes
from trunkline.harness.report.calls.steps import one_step
from trunkline.harness.report.calls.steps.one_step import Acted, Joint, OneStep, find_main_fault

MS = 10**6


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    """n2 begins an all-reduce 0.1 s after n1; a pause of n2 has ended by then."""
    folder = make_programs_run(tmp_path / "mine" / "first")
    pause = FaultStarted(360 * MS, "runner", 0, "pause", "pause n2 for 40 ms", ("n2",))
    over = FaultStarted(20 * MS, "runner", 1, "pause", "pause n1 for 20 ms", ("n1",))
    ends = [FaultEnded(400 * MS, "runner", 0), FaultEnded(40 * MS, "runner", 1)]
    log = folder / "events.jsonl"
    lines = [*log.read_bytes().splitlines(True), *map(to_line, (pause, over, *ends))]
    header, *events = lines
    events.sort(key=lambda line: json.loads(line)["t_ns"])
    log.write_bytes(b"".join([header, *events]))
    outputs.build(folder)
    return folder


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main.main(["explain", *words]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_step_has_its_waits_its_busiest_link_its_faults_and_its_calls(capsys, timed) -> None:
    said = explain(capsys, str(timed), "--step", "0")
    assert said[0].startswith("Step 0 lasted from 0.100 s to ")
    assert " s for it on average: " in said[0]
    assert said[1] == "Who waited for whom to begin a call: n1 (process 2) for n2 (0.100 s)."
    assert said[2].startswith("The busiest link, n1 -> n2, carried ")
    assert (
        " of the 80 Mbit/s that it had, on average between the counts of links at 0.1 s and "
        in said[2]
    )
    assert said[3] == (
        "Fault 0 (pause n2 for 40 ms) acted in this step, from 0.360 s to 0.400 s of the run, and "
        "held a program up for 0.010 s of its calls on average."
    )
    assert not any("Fault 1" in line for line in said)  # it was before the step
    place = said.index("begun all begun ended call programs last to begin")
    assert said[place + 1 :] == [
        "0.300 s 0.400 s 0.510 s all_reduce (4 MB) 2 n2, 0.100 s after the first",
        "0.360 s 0.360 s never send (8 B) n1 to n2",
    ]
    assert [line.split(" ")[0] for line in said[place - 3 : place]] == ["n1", "n1", "n2"]


def test_a_step_is_an_object_too(capsys, timed) -> None:
    assert main.main(["explain", str(timed), "--step", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["step"], found["usual_s"], found["faults"]) == (0, None, [0])
    assert [call["programs"] for call in found["calls"]] == [["n1", "n2"], ["n1"]]
    for row in found["programs"]:
        parts = (row[key] for key in one_step.NAMES)
        assert sum(parts) == pytest.approx(row["duration_s"])


def test_a_fault_of_a_step_has_its_cost_in_it_or_no_call_that_used_its_links() -> None:
    acted = Acted(3, "outage n1 n2", (MS, 1500 * MS), cost_s=0.25)
    assert acted.describe() == (
        "Fault 3 (outage n1 n2) acted in this step, from 0.001 s to 1.500 s of the run, and held a "
        "program up for 0.250 s of its calls on average."
    )
    assert replace(acted, unused=True).describe() == (
        "Fault 3 (outage n1 n2) acted meanwhile, but no call used its links."
    )


def test_what_faults_cost_a_step_is_that_of_its_own_times(timed, monkeypatch) -> None:
    """The all-reduce of n1 was late from 0.2 to 0.5 s; the step of n1 lasts from 0.1 s on."""
    data = outputs.read(timed)
    calls = {call.started.site: call for call in list_calls(data.history) if call.finished}
    late = [Delayed(call, 50 * MS, 500 * MS, {0: (40 * MS, 600 * MS)}) for call in calls.values()]
    times = FaultTimes(tuple(late))
    monkeypatch.setattr(one_step, "find_fault_times", lambda *_: times)
    found = OneStep.of(data, 0)
    assert found is not None
    inside_s = sum(
        max(0, min(500 * MS, row.end_ns) - max(50 * MS, row.start_ns)) / 1e9
        for row in found.rows
        if row.process in (None, calls[row.site].key[1])
    )
    (acted,) = found.faults
    assert acted.cost_s == pytest.approx(inside_s / len(found.rows))
    assert 0 < acted.cost_s < times.divide_s(len(found.rows))[0]
    who = next(row.who for row in found.rows if row.process in (None, calls[row.site].key[1]))
    assert find_main_fault(data, 0, who) == ": fault 0, pause n2 for 40 ms"


def test_a_message_names_both_sites() -> None:
    def message(name: str) -> Call:
        values = {"process": 1, "call": 0, "thread": 0, "name": name, "bytes": 8, "group": ""}
        more = {"ranks": (0, 1), "rank": 0, "peer": 1, "blocks": True}
        return Call(CallStarted(MS, "n1", **values, **more), None)

    assert Joint((message("isend"),), ("n1",), "n2").who == "n1 to n2"
    assert Joint((message("recv"),), ("n1",), "n2").who == "n1 from n2"
    assert Joint((message("barrier"), message("barrier")), ("n1", "n2")).who == "2"


def test_of_many_calls_those_that_took_longest_are_listed(timed, monkeypatch) -> None:
    monkeypatch.setattr(one_step, "MOST_CALLS", 1)
    found = OneStep.of(outputs.read(timed), 0)
    assert found is not None
    (longest,), left = found.list_calls()
    assert (longest.what, left) == ("all_reduce (4 MB)", 1)


def test_a_step_that_no_program_did_is_refused(capsys, timed) -> None:
    assert main.main(["explain", str(timed), "--step", "7"]) != 0
    assert "--step 7: expected 0\n" in capsys.readouterr().err


def test_faults_are_a_list_on_the_page(timed) -> None:
    page = re.sub(r'<span class="whole">([^<]*)</span>', r"\1", (timed / "report.html").read_text())
    items = re.findall(r"<li>(Fault \d [^<]*)</li>", page)
    assert [item[:8] for item in items] == ["Fault 0 ", "Fault 1 "]
    assert "<p>Fault " not in page
    assert "<code>trunkline explain RUN --step N</code> explains one of them." in page


def test_steps_are_of_programs_and_tasks_of_agents(capsys, timed, tmp_path) -> None:
    agents = make_agents_run(tmp_path / "agents" / "first")
    for folder, option, said in (
        (agents, "--step", "--step: expected a run of programs; agents have tasks: --task"),
        (timed, "--task", "programs log no transfers, but have steps: --step"),
    ):
        assert main.main(["explain", str(folder), option, "0"]) != 0
        assert said in capsys.readouterr().err
