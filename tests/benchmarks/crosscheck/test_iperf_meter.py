"""What iperf3 reports, and the table of two kernels."""

import json
from dataclasses import asdict

import iperf_meter
from crosscheck import KERNEL, OURS, Case, read_cases
from iperf_meter import CASES, Reading, draw

from trunkline.harness.scenario.loading import load

REPORT = {
    "end": {
        "streams": [{"sender": {"mean_rtt": 59307, "retransmits": 5, "bits_per_second": 9.9e6}}],
        "sum_received": {"bits_per_second": 9.5e6},
    }
}


def test_a_report_has_what_arrived_and_what_the_sender_saw():
    assert Reading.of(json.dumps(REPORT)) == Reading(9.5, 59.307, 5)


def test_all_cases_can_be_run_on_both_kernels():
    for case in read_cases(CASES.read_text(), CASES.parent):
        assert load(case.file, case.changes, 1).backend == "embedded"
        assert iperf_meter._load(case, 1, KERNEL).backend == "host"


def test_the_table_has_the_mean_of_the_differences(tmp_path):
    case = Case("pair", CASES, 2, 2, (KERNEL,), ())
    for seed, side, mbps in ((1, OURS, 9.0), (1, KERNEL, 9.1), (2, OURS, 8.0), (2, KERNEL, 8.3)):
        path = tmp_path / "pair" / f"{side}-{seed}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(Reading(mbps, 20.0, 3))))
    rows = [*draw([case], tmp_path)]
    assert rows[0] == ["`pair`", "goodput, Mbit/s", "8.50", "8.70", "+0.20 ± 1.27"]
    assert rows[2] == ["`pair`", "packets sent again", "3.00", "3.00", "+0.00 ± 0.00"]
