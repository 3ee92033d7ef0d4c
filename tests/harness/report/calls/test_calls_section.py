"""Timed calls in the table, on the page and in the printed lines of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pandas as pd
from matplotlib.colors import to_rgb
from rich.console import Console

from trunkline.agents.events.call_events import CallFinished, CallStarted, TimingStopped
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted
from trunkline.agents.events.run_events import (
    AgentExited,
    NetworkReady,
    ProgramsStarted,
    RunFinished,
    Stopping,
)
from trunkline.harness.live import progress
from trunkline.harness.report import outputs
from trunkline.harness.report.calls import call_plots, calls_section
from trunkline.harness.report.calls.call_tables import summarize
from trunkline.harness.report.pages import run_page
from trunkline.harness.report.parts import calls_part
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import load

SCENARIO = """\
name: mine
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh, -c, exit 0], time_calls: true}
outputs: {plots: false}
"""
MS = 10**6
REDUCE = CallStarted(
    100 * MS, "n1", 2, 0, 0, "all_reduce", 4_000_000, "0", (0, 1), 0, None, True
)  # fmt: skip
SEND = replace(REDUCE, t_ns=400 * MS, call=1, name="send", peer=1, blocks=False)
CALLS = (
    REDUCE,
    replace(REDUCE, t_ns=120 * MS, site="n2", rank=1),
    CallFinished(300 * MS, "n1", 2, 0, False),
    CallFinished(320 * MS, "n2", 2, 0, False),
    SEND,
)


def build(folder: Path, calls) -> tuple[str, list[str], str]:
    """The verdict, its problems and the page of a run with these events of calls."""
    (folder / "resolved.yaml").write_text(SCENARIO)
    header = make_header(load(folder / "resolved.yaml"))
    events = [
        header,
        NetworkReady(0, "runner"),
        ProgramsStarted(0, "runner"),
        *calls,
        AgentExited(500 * MS, "runner", "n1", 0, 0, asked=False),
        AgentExited(500 * MS, "runner", "n2", 0, 0, asked=False),
        Stopping(500 * MS, "runner", "the programs at every site exited"),
        RunFinished(500 * MS, "runner", "the programs at every site exited", ()),
    ]
    (folder / "events.jsonl").write_bytes(b"".join(map(to_line, events)))
    verdict = outputs.build(folder)
    return verdict.outcome, list(verdict.problems), (folder / "report.html").read_text()


def test_each_call_is_a_row_of_the_table(tmp_path: Path) -> None:
    build(tmp_path, CALLS)
    found = pd.read_csv(tmp_path / "tables" / "calls.csv")
    assert found[["site", "call", "start_s", "duration_s", "outcome"]].values.tolist()[:2] == [
        ["n1", "all_reduce", 0.1, 0.2, "completed"],
        ["n2", "all_reduce", 0.12, 0.2, "completed"],
    ]
    last = found.iloc[2]
    assert (last["call"], last["outcome"], last["peer"]) == ("send", "unfinished", 1)
    assert (last["ranks"], last["group"], bool(last["blocks"])) == ("0 1", 0, False)
    assert pd.isna(last["duration_s"])


def test_figures_show_calls_and_where_the_time_of_programs_went(tmp_path: Path) -> None:
    build(tmp_path, CALLS)
    found = dict(calls_part.PART.figures(outputs.read(tmp_path), {"width_in": 3.4}))
    assert [*found] == ["calls", "steps"]
    assert {figure.get_size_inches()[0] for figure in found.values()} == {3.4}
    (calls,), (steps,) = (figure.axes for figure in found.values())
    assert [len(each.get_paths()) for each in calls.collections if each.get_paths()] == [2, 1]
    assert {text.get_text() for text in found["calls"].legends[0].get_texts()} == {
        "all_reduce", "send"
    }  # fmt: skip
    table = pd.read_csv(tmp_path / "tables" / "steps.csv")
    for row, program in enumerate(table["program"]):
        bars = [bar for bar in steps.patches if round(bar.get_y() + bar.get_height() / 2) == row]
        took_s = table["duration_s"][table["program"] == program].sum()
        assert abs(sum(bar.get_width() for bar in bars) - took_s) < 1e-6


def test_calls_in_a_row_can_be_told_apart(tmp_path: Path) -> None:
    again = (replace(REDUCE, t_ns=300 * MS, call=1), CallFinished(450 * MS, "n1", 2, 1, False))
    _, _, page = build(tmp_path, (REDUCE, CallFinished(300 * MS, "n1", 2, 0, False), *again))
    section = page[page.index('id="calls"') :]
    path = re.search(r'<path d="([^"]*)" class="fill-blue">', section)
    assert path is not None
    bars = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", path[1])
    (start, width), (following, _) = ((float(x), float(w)) for x, w in bars)
    assert 0.9 < following - (start + width) < 1.1


def test_the_page_shows_when_each_site_was_in_which_call(tmp_path: Path) -> None:
    page = build(tmp_path, CALLS)[2]
    section = page[page.index('id="calls"') :]
    section = section[: section.index("</section>")]
    found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", section)
    cells = [re.sub("<[^>]*>", "", cell).replace("\u00a0", " ") for cell in found]
    assert cells[8:16] == ["all_reduce", "4 MB", "2", "0.2000", "0.2000", "0.2000", "0.4000", "0"]
    assert cells[16:] == ["send", "4 MB", "1", "", "", "", "0.0000", "1"]
    assert 'class="fill-blue"' in section
    assert "A call that never ended is drawn until the end." in section


def test_the_printed_lines_count_calls(tmp_path: Path) -> None:
    build(tmp_path, CALLS)
    console = Console(width=100, file=StringIO())
    console.print(progress.summary(tmp_path, outputs.read(tmp_path).verdict))
    assert "2 all_reduce (200 ms on average), 1 send" in console.file.getvalue()
    assert " moving bytes, " in console.file.getvalue()


def test_the_printed_time_of_a_run_with_faults_does_not_say_that_bytes_moved(
    tmp_path: Path,
) -> None:
    outage = FaultStarted(200 * MS, "runner", 0, "outage", "outage n1 n2", ("n1 -> n2",))
    build(tmp_path, [*CALLS[:2], outage, *CALLS[2:]])
    console = Console(width=200, file=StringIO())
    console.print(progress.summary(tmp_path, outputs.read(tmp_path).verdict))
    assert " moving bytes or perhaps held up, " in console.file.getvalue()


def test_the_printed_time_agrees_with_explain_if_calls_can_be_compared(tmp_path: Path) -> None:
    """Also if the fault held none of them up."""
    outage = FaultStarted(310 * MS, "runner", 0, "outage", "outage n1 n2", ("n1 -> n2",))
    first = (REDUCE, CallFinished(300 * MS, "n1", 2, 0, False))
    again = (replace(REDUCE, t_ns=305 * MS, call=1), CallFinished(400 * MS, "n1", 2, 1, False))
    build(tmp_path, [*first, again[0], outage, again[1]])
    console = Console(width=200, file=StringIO())
    console.print(progress.summary(tmp_path, outputs.read(tmp_path).verdict))
    assert " moving bytes, " in console.file.getvalue()
    assert "held up" not in console.file.getvalue()


def test_a_page_without_calls_says_so_and_why(tmp_path: Path) -> None:
    stopped = TimingStopped(5 * MS, "n1", 2, "this PyTorch is too old")
    outcome, problems, page = build(tmp_path, [stopped])
    assert "No program made a call of torch.distributed that could be timed." in page
    assert "n1, process 2: this PyTorch is too old." in page
    assert outcome == "unknown" or problems


def test_calls_of_a_few_sizes_have_a_row_each_and_those_of_many_sizes_share_one() -> None:
    row = {"site": "n1", "start_s": 0.0, "outcome": "completed"}
    few = [{"call": "send", "bytes": size, "duration_s": 9.0} for size in (70, 1, 1)]
    many = [{"call": "recv", "bytes": size, "duration_s": 1.0} for size in range(9)]
    table = summarize(pd.DataFrame([row | each for each in (*few, *many)]))
    assert table[["call", "low_bytes", "high_bytes", "calls", "sum_s"]].to_numpy().tolist() == [
        ["send", 1, 1, 2, 18.0],
        ["send", 70, 70, 1, 9.0],
        ["recv", 0, 8, 9, 9.0],
    ]


def test_many_calls_are_merged_and_the_page_says_so() -> None:
    many = [replace(REDUCE, t_ns=number * 2 * MS, call=number) for number in range(20_000)]
    rows = [
        {
            "site": each.site,
            "call": each.name,
            "bytes": each.bytes,
            "start_s": each.t_ns / 1e9,
            "duration_s": 0.001,
            "outcome": "completed",
        }
        for each in many
    ]
    parts = calls_section.write_section(pd.DataFrame(rows), (), ("n1",), 40.0, "virtual")
    assert "Bars that are close to each other are drawn as one." in str(parts[0])
    assert len(str(parts[0])) < 500_000


def test_faults_are_named_above_the_calls_and_below_the_steps(tmp_path: Path) -> None:
    outage = FaultStarted(
        200 * MS, "runner", 0, "outage", "outage n1 n2 for 50 ms", ("n1 -> n2", "n2 -> n1")
    )
    pause = FaultStarted(260 * MS, "runner", 1, "pause", "pause n2", ("n2",))
    begun = [REDUCE, replace(REDUCE, t_ns=120 * MS, site="n2", rank=1), outage]
    ended = [FaultEnded(250 * MS, "runner", 0), pause, *CALLS[2:]]
    _, _, page = build(tmp_path, [*begun, *ended])
    calls = page[page.index('<section id="calls"') : page.index('<section id="steps"')]
    assert re.findall(r'class="lane[ end]*">([^<]*)<', calls) == [
        f"← 0: {outage.text}",
        f"1: {pause.text}",
    ]
    assert 'class="fill-band"' in calls
    assert "Hatched: its programs were stopped (one direction) or dead (crossed)." in calls
    steps = page[page.index('<section id="steps"') :]
    assert '<span class="whole">0.250 s' in steps  # no line break within it
    steps = re.sub("</?span[^>]*>", "", steps)
    assert "moving bytes, or held up in calls that cannot be compared with others" in steps
    assert "Fault 0 (outage n1 n2 for 50 ms), from 0.200 s to 0.250 s, has a cost that " in steps
    assert "Meanwhile 2 calls of all_reduce at 2 sites were under way; the last one " in steps


def test_a_caption_explains_only_the_marks_of_its_faults(tmp_path: Path) -> None:
    outage = FaultStarted(200 * MS, "runner", 0, "outage", "outage n1 n2", ("n1 -> n2",))
    _, _, page = build(tmp_path, [*CALLS[:2], outage, *CALLS[2:]])
    assert page.count("A line above a row: a link of that site was disturbed.") == 2
    assert "Hatched:" not in page


def test_a_call_has_one_colour_in_the_figure_and_on_the_page() -> None:
    """Those of the page are shades of their own: each is nearest to its own one of the figure."""
    style = (Path(run_page.__file__).parent / "style.css").read_text()
    drawn = [*call_plots.COLOURS, call_plots.OTHERS]
    shown = [*calls_section.COLOURS, calls_section.OTHERS]
    assert len(drawn) == len(shown)
    for colour, name in zip(drawn, shown, strict=True):
        found = re.search(rf"--{name.removeprefix('fill-')}: (#\w+);", style)
        assert found is not None
        own = to_rgb(found[1])
        apart = [sum(abs(a - b) for a, b in zip(to_rgb(each), own, strict=True)) for each in drawn]
        assert drawn[apart.index(min(apart))] == colour
