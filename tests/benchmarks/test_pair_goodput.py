"""The goodput that a benchmark reads from what iperf3 prints."""

from pathlib import Path

from pair_goodput import read, read_goodput_mbps

ONE = """\
Connecting to host n1, port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-60.00  sec   130 MBytes  18.1 Mbits/sec   21             sender
[  5]   0.00-60.06  sec   129 MBytes  18.0 Mbits/sec                  receiver

iperf Done.
"""
TWO = """\
[  5]   0.00-10.07  sec  26.6 MBytes  22.2 Mbits/sec                  receiver
[  7]   0.00-10.07  sec  27.6 MBytes  23.0 Mbits/sec                  receiver
[SUM]   0.00-10.07  sec  54.2 MBytes  45.2 Mbits/sec                  receiver
"""


def test_the_goodput_is_that_of_the_receiver_and_of_all_connections() -> None:
    assert read_goodput_mbps(ONE) == 18.0
    assert read_goodput_mbps(TWO) == 45.2


def test_a_run_is_read_at_the_site_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "n1.out").write_text(TWO)
    (tmp_path / "log" / "n2.out").write_text(ONE)
    assert read(tmp_path) == 18.0
