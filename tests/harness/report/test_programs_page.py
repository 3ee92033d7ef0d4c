"""The page of a run of programs: their lives, exits, output, and the bytes on links over time."""

from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from test_pages import Page

from trunkline.agents.events.causes import Broken, ProgramFailed
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.fault_events import AgentChanged
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    SyncFinished,
    SyncStarted,
)
from trunkline.agents.events.run_events import (
    AgentExited,
    LinkBytes,
    LinksCounted,
    LinkTotals,
    NetworkReady,
    ProgramsStarted,
    ProgramStarted,
    RunFinished,
    Stopping,
)
from trunkline.harness.live import progress
from trunkline.harness.live.live_state import RunState
from trunkline.harness.report import outputs, plots
from trunkline.harness.report.overlay.link_load import compute_counted_loads
from trunkline.harness.report.pages import run_page
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import load, parse

SCENARIO = """\
name: mine
topology: {builder: full_mesh, sites: 2, rates: 80 Mbit/s, delays: 10 ms}
workload: {kind: program, command: [sh, -c, exit 3]}
outputs: {plots: false}
"""
ROLES = """\
topology: {builder: full_mesh, sites: 2, rates: 8 Mbit/s, delays: 10 ms}
workload: {kind: program, programs: {a: {command: [a], sites: [n1]}, b: {command: [b]}}}
"""
SECOND = 10**9

BROKEN = Broken(("the program of n2 exited with code 3",), interrupted=False)


def list_events(size: int = 1_000_000):
    """Two programs: n1 sends for the second of two seconds, then n2 fails."""
    totals = (LinkTotals("n1", "n2", size, 1000, 0), LinkTotals("n2", "n1", 0, 0, 0))
    return [
        NetworkReady(0, "runner"),
        ProgramsStarted(0, "runner"),
        ProgramStarted(0, "runner", "n1", 0),
        ProgramStarted(0, "runner", "n2", 0),
        LinksCounted(1 * SECOND, "runner", (LinkBytes("n1", "n2", 500_000),)),
        AgentExited(2 * SECOND, "runner", "n2", 3, 0, asked=False),
        Stopping(2 * SECOND, "runner", ProgramFailed()),
        AgentExited(2 * SECOND, "runner", "n1", 0, 15, asked=True),
        RunFinished(2 * SECOND, "runner", BROKEN, totals),
    ]


def build(folder: Path, events, scenario: str = SCENARIO) -> tuple[str, list[str]]:
    """The verdict and its problems, of a run folder with these events."""
    (folder / "resolved.yaml").write_text(scenario)
    header = make_header(load(folder / "resolved.yaml"))
    (folder / "events.jsonl").write_bytes(b"".join(map(to_line, [header, *events])))
    verdict = outputs.build(folder)
    return verdict.outcome, list(verdict.problems)


def test_lines_of_pytorch_that_say_nothing_about_a_failure_are_folded(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    noise = [
        "[W1128 13:01:02.123456 socket.cpp:752] [c10d] The hostname of the client is unknown",
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7f in libc10.so)",
        "<omitting python frames>",
    ]
    said = ["Traceback (most recent call last):", "RuntimeError: Connection closed by peer"]
    (tmp_path / "log" / "n2.err").write_text("\n".join([noise[0], *said, *noise[1:]]) + "\n")
    build(tmp_path, list_events())
    made = Page((tmp_path / "report.html").read_text())
    assert "\n".join(said) in made.texts["pre"]
    assert "\n".join(noise) in made.texts["pre"]
    assert "3 lines of PyTorch that say nothing about the failure" in made.texts["summary"]


def test_programs_that_wrote_the_same_share_a_text_and_outputs_stand_by_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "log").mkdir()
    for name, text in (("n1.out", "first"), ("n2.out", "second")):
        (tmp_path / "log" / name).write_text(text)
    for site in ("n1", "n2"):
        (tmp_path / "log" / f"{site}.err").write_text("a warning")
    well = [AgentExited(2 * SECOND, "runner", who, 0, 0, asked=False) for who in ("n1", "n2")]
    events = [event for event in list_events() if not isinstance(event, AgentExited)]
    build(tmp_path, [*events[:-2], *well, *events[-2:]])
    page = Page((tmp_path / "report.html").read_text())
    assert [text for text in page.texts["p"] if ": the end of " in text] == [
        "n1: the end of its standard output",
        "n1, n2: the end of their standard error, the same for each",
        "n2: the end of its standard output",
    ]
    assert page.texts["pre"].count("a warning") == 1


COMPUTING = [ComputeStarted(SECOND, "n1", 0), ComputeFinished(SECOND + 9, "n1", 0)]
SYNCS = [SyncStarted(SECOND + 10, "n1", 0, 9, "mine"), SyncFinished(SECOND + 19, "n1", 0)]
ADDED = "Computing is the time that workload.compute adds, and what programs report."
REPORTED = "Synchronizations are as the programs reported them."


@pytest.mark.parametrize(
    ("events", "adds", "caption"),
    [
        (COMPUTING, True, ADDED),
        ([*COMPUTING, *SYNCS], True, f"{ADDED} {REPORTED}"),
        (COMPUTING, False, "Computing is as the programs reported it."),
        (SYNCS, False, REPORTED),
        ([*COMPUTING, *SYNCS], False,
         "Synchronizations and computing are as the programs reported them."),
    ],
)  # fmt: skip
def test_the_timeline_says_where_computing_is_known_from(
    tmp_path: Path, events: list[Event], adds: bool, caption: str
) -> None:
    every = list_events()
    scenario = SCENARIO.replace("exit 3]", "exit 3], compute: 0.1 s") if adds else SCENARIO
    build(tmp_path, [*every[:5], *events, *every[5:]], scenario)
    page = Page((tmp_path / "report.html").read_text())
    assert caption in page.text("figcaption")
    assert ("Synchronizations" in page.text("figcaption")) is ("Synchronizations" in caption)


def test_the_example_of_loading_a_table_is_one_with_rows(tmp_path: Path) -> None:
    build(tmp_path, list_events())
    page = Page((tmp_path / "report.html").read_text())
    assert 'pandas.read_csv("tables/programs.csv")' in page.text("code")
    assert "tasks.csv" not in page.text("code")


def test_the_rates_are_those_of_the_whole_run_if_no_program_synchronized(tmp_path: Path) -> None:
    build(tmp_path, list_events())
    caption = "Bytes that interfaces counted, headers included, over "
    page = Page((tmp_path / "report.html").read_text())
    assert f"{caption}the whole run." in page.text("figcaption")
    spans = [SyncStarted(SECOND, "n1", 0, 9, "mine"), SyncFinished(SECOND + 9, "n1", 0)]
    events = list_events()
    build(tmp_path, [*events[:5], *spans, *events[5:]])
    page = Page((tmp_path / "report.html").read_text())
    assert f"{caption}the time in which any site synchronized." in page.text("figcaption")


def test_a_page_of_programs_says_how_each_ended_and_shows_its_last_output(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "n2.err").write_text("a line\n" * 40 + "no <such> file\n")
    (tmp_path / "log" / "n2.out").write_text("")
    outcome, problems = build(tmp_path, list_events())
    assert outcome == "fail"
    assert problems == ["every program exited cleanly: the program of n2 exited with code 3"]
    made = Page((tmp_path / "report.html").read_text())
    assert {"sent (MB)", "carried (Mbit/s)"} <= set(made.texts["th"])
    assert "payload (MB)" not in made.texts["th"]
    tiles = made.texts["dt"]
    assert tiles[:2] == ["programs ended", "bytes on links"]
    assert "tasks completed" not in tiles
    assert made.texts["small"][0] == "1 was told to end, 1 failed"
    assert "Programs" in made.texts["h2"]
    assert "Sites" not in made.texts["h2"]
    assert {"exit code 3", "by signal 15, told to end"} <= {*made.texts["td"]}
    assert "the program runs" in made.texts["li"]
    assert "The programs reported no steps." in made.text("figcaption")
    assert made.texts["h3"][0] == "n2: the end of its standard error"
    order = ["Summary", "Programs", "Timeline", "Network"]
    assert [title for title in made.texts["h2"] if title in order] == order
    shown = next(text for text in made.texts["pre"] if "no <such> file" in text)
    assert shown.count("a line") == outputs.LAST_LINES - 1
    assert not [text for text in made.texts["summary"] if "n2: " in text]
    console = Console(width=100, file=StringIO())
    console.print(progress.summary(tmp_path, outputs.read(tmp_path).verdict))
    said = console.file.getvalue().splitlines()
    assert said[0].strip().split(maxsplit=1) == ["programs", "1 told to end, 1 with exit code 3"]
    traffic = pd.read_csv(tmp_path / "tables" / "traffic.csv")
    assert traffic.to_dict("records") == [{"t_s": 1.0, "src": "n1", "dst": "n2", "bytes": 500_000}]


def summarize(folder: Path) -> list[str]:
    console = Console(width=100, file=StringIO())
    console.print(progress.summary(folder, outputs.read(folder).verdict))
    return [line.strip() for line in console.file.getvalue().splitlines()]


def test_a_program_that_never_started_had_no_process_and_no_exit(tmp_path: Path) -> None:
    events = [event for event in list_events() if getattr(event, "who", "") != "n2"]
    events.insert(-1, AgentExited(2 * SECOND, "runner", "n2", 0, 15, asked=True))
    build(tmp_path, events)
    first, second = pd.read_csv(tmp_path / "tables" / "programs.csv").to_dict("records")
    assert (first["processes"], first["signal"], second["processes"]) == (1, 15, 0)
    assert {second[key] for key in ("asked", "failed")} == {False}
    assert pd.isna([second[key] for key in ("start_s", "end_s", "exit_code", "signal")]).all()
    assert "programs  1 told to end, 1 never started" in summarize(tmp_path)
    page = Page((tmp_path / "report.html").read_text())
    assert page.texts["small"][0] == "1 was told to end, 1 never started"
    assert page.texts["dd"][0].startswith("1 of 2")
    assert "never started" in page.texts["td"]


def test_bytes_belong_to_a_site_and_not_to_each_of_its_programs(tmp_path: Path) -> None:
    started = [ProgramStarted(0, "runner", who, 0) for who in ("n1.a", "n1.b", "n2.b")]
    other = [event for event in list_events() if not isinstance(event, ProgramStarted)]
    build(tmp_path, [*other[:2], *started, *other[2:]], ROLES + "outputs: {plots: false}\n")
    sites = pd.read_csv(tmp_path / "tables" / "sites.csv").to_dict("records")
    assert sites == [
        {"site": "n1", "programs": 2, "bytes_sent": 1_000_000, "bytes_received": 0},
        {"site": "n2", "programs": 1, "bytes_sent": 0, "bytes_received": 1_000_000},
    ]
    assert "bytes_sent" not in pd.read_csv(tmp_path / "tables" / "programs.csv").columns
    page = Page((tmp_path / "report.html").read_text())
    assert page.texts["td"].count("1.00") == 3  # one is that of the link
    assert "headers included, for all of its programs together." in page.text("p")


def test_payload_that_nothing_measured_is_unknown_and_not_zero(tmp_path: Path) -> None:
    build(tmp_path, list_events())
    links = pd.read_csv(tmp_path / "tables" / "links.csv")
    assert links[["bytes", "busy_s"]].isna().all(axis=None)
    assert list(links["interface_bytes"]) == [1_000_000, 0]
    for table, columns in (("workers", ["bytes_sent", "bytes_received"]), ("run", ["bytes_sent"])):
        assert pd.read_csv(tmp_path / "tables" / f"{table}.csv")[columns].isna().all(axis=None)
    words = "1000000 bytes, headers included, on 2 interfaces"
    assert words in (tmp_path / "verdict.json").read_text()


def test_programs_that_reported_no_tasks_have_no_figure_of_tasks(tmp_path: Path) -> None:
    build(tmp_path, list_events())
    outputs.build(tmp_path, width_in=3.4)
    figures = {path.name for path in (tmp_path / "plots").iterdir()}
    assert "links.svg" in figures and "tasks.svg" not in figures
    figure = plots.draw_links(outputs.read(tmp_path).links, ["n1", "n2"], "the run")
    titles = [axes.get_title("left") for axes in figure.axes]
    assert "rate during the run, % of link rate; grey: not used" in titles


def test_loads_of_programs_are_what_interfaces_counted(tmp_path: Path) -> None:
    build(tmp_path, list_events())
    data = outputs.read(tmp_path)
    found = compute_counted_loads(data.history, data.scenario.topology, 4)
    assert found.step_s == 0.5
    assert np.allclose(found.share[:, found.links.index(("n1", "n2"))], 0.05)
    assert not found.share[:, found.links.index(("n2", "n1"))].any()


def test_counts_that_do_not_fit_the_totals_are_noticed(tmp_path: Path) -> None:
    outcome, problems = build(tmp_path, list_events(size=400_000))
    assert outcome == "fail"
    assert any("500000 bytes during the run, 400000 at its end" in text for text in problems)
    events = list_events()
    again = LinksCounted(SECOND + 1, "runner", (LinkBytes("n1", "n2", 500_000),))
    _, problems = build(tmp_path, [*events[:5], again, *events[5:]])
    assert any("its bytes did not grow" in text for text in problems)
    strange = LinksCounted(SECOND + 1, "runner", (LinkBytes("n1", "n9", 5),))
    _, problems = build(tmp_path, [*events[:3], strange, *events[3:]])
    assert any("n1 -> n9: expected links of the topology" in text for text in problems)


def test_a_run_whose_links_were_not_counted_is_doubted(tmp_path: Path) -> None:
    events = list_events(size=1_000_001)
    _, problems = build(tmp_path, [*events[:4], *events[5:]])
    assert "links kept their rates: no count of links, which carried 1000001 bytes" in problems
    events = list_events()
    _, problems = build(tmp_path, [*events[:2], *events[3:]])
    assert not any("no count" in text for text in problems)


def test_a_live_run_shows_each_program_of_a_site_as_faults_and_restarts_leave_it() -> None:
    state = RunState(parse(ROLES, "x.yaml").topology)
    awaited = RunState(parse(ROLES, "x.yaml").topology, awaited=("n1.b", "n2.b"))
    for event in (
        ProgramsStarted(0, "runner"),
        ProgramStarted(0, "runner", "n1.a", 0),
        ProgramStarted(0, "runner", "n1.b", 0),
        ProgramStarted(0, "runner", "n2.b", 0),
        AgentExited(1, "runner", "n1.a", 0, 0, asked=False),
        AgentChanged(2, "runner", "n1.b", "kill", 0),
        AgentExited(2, "runner", "n1.b", 0, 9, 0, asked=False),
        AgentChanged(2, "runner", "n2.b", "leave", 1),
    ):
        state.update(event)
        awaited.update(event)
    assert state.activity_of("n1")[0] == "a ended, b dead"
    assert awaited.progress().ended == 0  # nobody waits for n1.a
    awaited.update(AgentExited(3, "runner", "n2.b", 0, 0, asked=True))
    assert awaited.progress().ended == 1
    assert state.activity_of("n2")[0] == "b has left"
    assert state.ended == 1
    for event in (
        AgentChanged(3, "runner", "n1.b", "restart", 0),
        ProgramStarted(3, "runner", "n1.b", 1),
        ProgramStarted(4, "runner", "n1.a", 1),
    ):
        state.update(event)
    assert state.activity_of("n1")[0] == "a running, b running"
    assert state.ended == 0


def test_the_environment_is_told_in_words(tmp_path: Path) -> None:
    environment = {
        "processor_matters": ["programs may use its random numbers"],
        "host": {"cpus": 2},
    }
    made = Page(str(run_page._write_environment(environment)))
    assert made.texts["th"][2:] == [
        "on another processor, results may differ, because",
        "host.cpus",
    ]
    assert made.texts["td"] == ["programs may use its random numbers", "2"]


def test_a_live_run_of_programs_shows_its_bytes_and_its_busiest_link(tmp_path: Path) -> None:
    build(tmp_path, list_events())
    scenario = load(tmp_path / "resolved.yaml")
    state = RunState(scenario.topology)
    assert [state.update(event) for event in list_events()[:5]] == [False, True, False, False, True]
    assert state.loads_mbps() == [(("n1", "n2"), 4.0)]
    words = progress.describe(state.progress(), scenario.whole_stop, 2)
    assert words == "1.0 s, programs ended 0 of 2, 500 kB on the links"
