"""The table of faults, and what the page and the terminal make of it."""

import re

import pytest
from three_sites import TOPOLOGY, added, history, without

from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.faults.timeline import Entry
from trunkline.harness.live import progress
from trunkline.harness.report.faults.fault_table import (
    FaultRow,
    find_timeline_start_ns,
    list_missed,
    tabulate_faults,
)
from trunkline.harness.report.pages.faults_section import write_faults
from trunkline.harness.report.tables.worker_table import WorkerRow, tabulate_workers

OUTAGE = "outage oslo rome both blackhole for 400 ms"
FAULTY = history(
    added(500, "runner", "fault_started", fault=0, verb="outage", text=OUTAGE,
          targets=["oslo -> rome", "rome -> oslo"]),
    added(900, "runner", "fault_ended", fault=0),
    added(1000, "runner", "fault_started", fault=1, verb="kill", text="kill kyiv",
          targets=["kyiv"], asked=True),
)  # fmt: skip


def entries(*lines):
    return [Entry(at_s, parse(text, TOPOLOGY)) for at_s, text in lines]


TIMELINE = entries((0.29, OUTAGE), (60, "outage oslo rome for 400 ms"), (70, "kill kyiv"))


def csv(timeline=()):
    table = FaultRow.frame(tabulate_faults(FAULTY, timeline))
    return table.to_csv(index=False, float_format="%.3f").splitlines()


def test_faults_have_their_words_targets_and_times_by_both_clocks():
    assert csv() == [
        "fault,verb,text,targets,at_s,start_s,end_s,by_hand",
        f'0,outage,{OUTAGE},"oslo -> rome, rome -> oslo",0.290,0.500,0.900,False',
        "1,kill,kill kyiv,kyiv,0.790,1.000,,True",
    ]


def test_entries_that_were_due_after_the_end_follow_without_times():
    assert csv(TIMELINE)[3:] == [
        f",outage,{OUTAGE},,60.000,,,False",
        ",kill,kill kyiv,,70.000,,,False",
    ]


def test_without_a_first_task_no_entry_has_begun():
    empty = history(without("task_started"))
    assert find_timeline_start_ns(empty) is None
    assert [entry.at_s for entry in list_missed(empty, TIMELINE)] == [0.29, 60, 70]


@pytest.mark.parametrize("begin", ["first task", "programs"])
def test_the_page_shows_both_clocks_and_what_did_not_begin(begin):
    parts = write_faults(FaultRow.frame(tabulate_faults(FAULTY, TIMELINE)), begin)
    unmarked = re.sub(r'<span class="whole">([^<]*)</span>', r"\1", "".join(map(str, parts)))
    text = re.sub(r"<[^>]+>", "|", unmarked)
    assert (
        f"A timeline and the shell count from the start of the {begin}, 0.210 s after that of the "
        "run; charts, evaluations and tables count from the start of the run."
    ) in text
    assert f"from (s after the {begin})" in text
    row = text[text.index(f"{OUTAGE}|") :]
    assert re.findall(r"\d+\.\d{3}", row)[:4] == ["0.290", "0.690", "0.500", "0.900"]
    assert text.count("did not begin: the run ended before") == 2


def test_one_pair_of_times_is_enough_if_the_programs_began_with_the_run():
    found = FaultRow.frame(tabulate_faults(FAULTY, TIMELINE))
    found["start_s"] = found["at_s"].where(found["start_s"].notna()) + 0.0004
    parts = write_faults(found, "programs")
    text = re.sub(r"<[^>]+>", "|", "".join(map(str, parts)))
    assert "All times count from the start of the run, and the programs began with it." in text
    assert [text.count(f"|{head}|") for head in ("from (s)", "until (s)")] == [1, 1]
    assert "of the run)" not in text
    assert text.count("did not begin: the run ended before") == 2


def test_the_terminal_names_faults_and_sites_that_were_alone(tmp_path):
    (tmp_path / "tables").mkdir()
    FaultRow.frame(tabulate_faults(FAULTY, ())).to_csv(tmp_path / "tables" / "faults.csv")
    cut_off = history(added(3000, "kyiv", "round_alone", iteration=1))
    found = WorkerRow.frame(tabulate_workers(cut_off, ("oslo", "kyiv")))
    found.to_csv(tmp_path / "tables" / "workers.csv")
    said = dict(progress._summary(tmp_path, "measured"))
    assert said["faults"] == f"{OUTAGE} at 290 ms (500 ms of the run)"
    assert said["alone"] == "rounds without a controller: kyiv 1"
