"""What iperf3 reports, and the tables of two kernels."""

import json
from dataclasses import replace

import crosscheck
import pytest
from crosscheck_results import AGAIN, KERNEL, OURS, Case, Store, read_cases
from crosscheck_tables import compare, draw, draw_flows
from iperf_meter import Flow, read_flows
from run_result import Result

SENDER = {"mean_rtt": 59307, "retransmits": 5, "bits_per_second": 9.9e6}
CASES = read_cases(crosscheck.CASES.read_text(), crosscheck.CASES.parent)
PAIR = Case("meter", crosscheck.CASES.parent / "iperf3.yaml", 2, 2, (KERNEL, AGAIN), ())


def report(*senders: dict[str, float]) -> str:
    streams = [{"sender": sender} for sender in senders]
    return json.dumps({"end": {"streams": streams, "sum_received": {"bits_per_second": 9.5e6}}})


def make(*flows: Flow) -> Result:
    return Result("pass", (), 1000, 10, flows)


def test_a_report_has_what_arrived_and_what_the_sender_saw():
    assert Flow.of(report(SENDER)) == Flow(9.5, 59.307, 5)


def test_streams_of_one_client_are_one_flow():
    assert Flow.of(report(SENDER, {**SENDER, "mean_rtt": 61307})) == Flow(9.5, 60.307, 10)


@pytest.mark.parametrize("text", ["", "{}", '{"error": "refused", "end": {}}', report()])
def test_a_client_without_a_report_has_no_flow(text):
    with pytest.raises(ValueError, match="no report of iperf3"):
        Flow.of(text)


def test_the_flows_of_a_run_are_those_of_its_clients(tmp_path):
    (tmp_path / "log").mkdir()
    for name in ("n1.client2", "n1.client3"):
        (tmp_path / "log" / f"{name}.out").write_text(report(SENDER))
    (tmp_path / "log" / "n2.server.out").write_text("listening")
    assert read_flows(tmp_path) == (Flow(9.5, 59.307, 5), Flow(9.5, 59.307, 5))


def test_there_are_twenty_cases_up_to_nine_sites_on_both_kernels():
    metered = [case for case in CASES if case.load(1, OURS).stop.tasks is None]
    assert len(metered) >= 20
    assert max(len(case.load(1, OURS).topology.sites) for case in metered) == 9
    for case in metered:
        assert (case.load(1, OURS).backend, case.load(1, KERNEL).backend) == ("embedded", "host")


def test_means_of_flows_are_compared_seed_by_seed(tmp_path):
    store = Store(tmp_path)
    for seed, ours, theirs in ((1, 9.0, 9.9), (2, 8.0, 8.4)):
        store.write(PAIR, seed, OURS, make(Flow(ours, 20.0, 3), Flow(ours, 30.0, 4)))
        store.write(PAIR, seed, KERNEL, make(Flow(theirs, 25.0, 3), Flow(theirs, 25.0, 2)))
    found = [*compare([PAIR], store, (KERNEL, AGAIN))]
    assert [each.what for each in found] == ["goodput, Mbit/s", "round trip, ms"]
    assert [each.percent for each in found] == pytest.approx([7.5, 0.0])
    rows = draw("summary", found)[1]
    assert [row[1] for row in rows] == ["goodput, Mbit/s", "round trip, ms"]
    (row,) = draw_flows([PAIR, replace(PAIR, name="other")], store)[1]
    assert row[:6] == ["`meter`", "kernel", "2", "8.500", "9.150", "+7.5 ± 31.8"]
    assert row[6:] == ["25.000", "25.000", "+0.0", "7.0", "5.0"]
    assert draw_flows([PAIR], store, [AGAIN])[1] == []


def test_a_result_counts_wherever_the_checkout_is(tmp_path):
    store = Store(tmp_path / "kept")
    here, there = (replace(PAIR, file=tmp_path / name / PAIR.file.name) for name in ("a", "b"))
    for case in (here, there):
        case.file.parent.mkdir()
        case.file.write_text(PAIR.file.read_text())
    store.write(here, 1, OURS, make(Flow(9.0, 20.0, 3)))
    assert store.read(there, 1, OURS) is not None
