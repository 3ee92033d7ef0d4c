"""Background traffic in whole runs, what checks say of changed logs, garbage at a receiver."""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from broken_receiver import run_also_broken

from trunkline.agents.events import event_reading
from trunkline.harness.background.endpoint import FILE_HEADER, MAGIC, PACKET_HEADER, PORT, STOP
from trunkline.harness.background.sink import Sink
from trunkline.harness.checks import judging
from trunkline.harness.checks.rules import Rules
from trunkline.harness.processes.fork import fork
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.scenario.loading import load, parse, resolve

TEXT = """
name: busy
topology:
  builder: full_mesh
  sites: 3
  rates: 50 Mbit/s
  delays: 10 ms
  access: [{sites: [n1], up: 50 Mbit/s, down: 50 Mbit/s, delay: 1 ms}]
workload: {kind: synthetic, model: 400 kB, compute: 200 ms}
scheme: {policy: bsp, plan: ring, chunk: 64 KiB}
background:
  - {src: n1, dst: n2, rate: 10 Mbit/s}
  - {src: n2, dst: n1, kind: on-off, rate: 20 Mbit/s, busy: 200 ms, idle: 300 ms}
  - {src: n3, dst: n2, kind: tcp, rate: 5 Mbit/s, size: web-search, size_factor: 0.02}
  - {src: n3, dst: n1, rate: 1 Mbit/s, packet: 200 B, start: 1 s, stop: 2 s}
stop: {time: 4 s}
"""
NAME = "background traffic matches its schedule"


def folder(home: Path, name: str, text: str = TEXT) -> None:
    (home / name / "log").mkdir(parents=True)
    (home / name / "resolved.yaml").write_text(resolve(parse(text, "test.yaml")))


@pytest.fixture(scope="module")
def home(embedded, tmp_path_factory):
    home = tmp_path_factory.mktemp("background")
    for name, more in {"first": "", "broken": "outputs: {plots: false}\n"}.items():
        folder(home, name, TEXT + more)
    done = embedded.call(run_also_broken, str(home), visible=[home])
    assert done == {"codes": {"first": 0, "broken": 1}, "left": []}
    assert outputs.build(home / "first").problems == ()
    return home


def test_tables_account_for_background_traffic_apart(home):
    flows = pd.read_csv(home / "first/tables/background.csv")
    assert flows["kind"].tolist() == ["constant", "on-off", "tcp", "constant"]
    assert flows["goodput_mbps"][0] == pytest.approx(10 * 1472 / 1514, rel=0.05)
    assert flows["bytes_sent"][3] == pytest.approx(1e6 / 8 * 172 / 214, rel=0.01)
    assert flows["goodput_mbps"][3] == pytest.approx(172 / 214, rel=0.05)  # it stops before the run
    assert flows["files"][2] > 3 and flows["file_median_s"][2] > 0.01
    links = pd.read_csv(home / "first/tables/links.csv").set_index(["src", "dst"])
    to_n2, from_n1 = links.loc[("n1-gw", "n2")], links.loc[("n1", "n1-gw")]
    received = flows["bytes_received"]
    assert to_n2["background_bytes"] == from_n1["background_bytes"] == received[0]
    assert links.loc[("n1-gw", "n1"), "background_bytes"] == received[1] + received[3]
    assert links.loc[("n2", "n3"), "background_bytes"] == 0
    assert to_n2["interface_bytes"] > to_n2["bytes"] + to_n2["background_bytes"]
    assert (home / "first/plots/background.png").stat().st_size > 10_000
    assert "Background traffic" in (home / "first/report.html").read_text()


def test_a_run_fails_if_a_process_of_its_background_traffic_ends(home):
    problems = " ".join(outputs.build(home / "broken").problems)
    assert "background-to-" in problems and "ended before its time" in problems
    assert "planted" in "".join(file.read_text() for file in (home / "broken/log").iterdir())


Lines = list[dict]
Change = Callable[[Lines], Lines]


def of_kind(kind: str, change: Callable[[dict], dict | None], which: int = 0) -> Change:
    """Change the event with this number among those of its kind; None removes it."""

    def apply(lines: Lines) -> Lines:
        places = [number for number, line in enumerate(lines) if line["event"] == kind]
        new = change(lines[places[which]])
        rest = [new] if new else []
        return lines[: places[which]] + rest + lines[places[which] + 1 :]

    return apply


def without(kind: str) -> Change:
    return lambda lines: [line for line in lines if line["event"] != kind]


def delay_a_file(lines: Lines) -> Lines:
    """The first file that arrives is reported 1.5 s later."""
    first = next(line for line in lines if line["event"] == "background_file")
    late = first | {"t_ns": first["t_ns"] + 1_500_000_000}
    return sorted([late if line is first else line for line in lines], key=lambda x: x["t_ns"])


def delay_another_file(lines: Lines) -> Lines:
    """A file in the middle is reported 5 s later."""
    files = [line for line in lines if line["event"] == "background_file"]
    middle = files[len(files) // 2]
    late = middle | {"t_ns": middle["t_ns"] + 5_000_000_000}
    return sorted([late if line is middle else line for line in lines], key=lambda x: x["t_ns"])


def lack_a_byte(lines: Lines) -> Lines:
    """The last byte of the flow of files is still on its way when the run stops."""
    mine = [x for x in lines if x["event"] == "background_received" and x["flow"] == 2]
    last = max((x for x in mine if x["bytes"]), key=lambda line: line["t_ns"])
    return [x | {"bytes": x["bytes"] - 1} if x is last else x for x in lines]


def lose_packets(lines: Lines) -> Lines:
    """What arrived of flow 0 in a report in the middle is not in it."""
    mine = [x for x in lines if x["event"] == "background_received" and x["flow"] == 0]
    gone = mine[len(mine) // 2]
    return [x | {"packets": 0, "bytes": 0} if x is gone else x for x in lines]


FALSIFICATIONS = {
    "all packets of a report are missing, although none was dropped": lose_packets,
    "a file that arrived is reported later": delay_a_file,
    "a file took longer than its path allows": delay_another_file,
    "no file arrived, of one that had begun a byte was on its way": lambda lines: lack_a_byte(
        without("background_file")(lines)
    ),
    "a report of sent packets is missing": of_kind("background_sent", lambda line: None),
    "nothing was sent": without("background_sent"),
    "more packets were sent": of_kind(
        "background_sent", lambda x: x | {"packets": 2 * x["packets"], "bytes": 2 * x["bytes"]}
    ),
    "bytes are not those of the packets": of_kind(
        "background_sent", lambda x: x | {"bytes": x["bytes"] - 1}
    ),
    "more packets arrived than were sent": of_kind(
        "background_received", lambda x: x | {"packets": 2 * x["packets"], "bytes": 2 * x["bytes"]}
    ),
    "a report overlaps the one before it": of_kind(
        "background_received", lambda x: x | {"since_ns": 0}, which=-1
    ),
    "a report is of a flow that does not exist": of_kind(
        "background_received", lambda x: x | {"flow": 9}
    ),
    "a file has another size": of_kind("background_file", lambda x: x | {"bytes": x["bytes"] + 1}),
    "a file began at another time": of_kind(
        "background_file", lambda x: x | {"start_ns": x["start_ns"] - 5_000_000}
    ),
    "a file arrived twice": lambda lines: sorted(
        [*lines, next(x for x in lines if x["event"] == "background_file")],
        key=lambda line: line["t_ns"],
    ),
}


@pytest.mark.parametrize("name", FALSIFICATIONS)
def test_a_changed_log_of_background_traffic_fails(home, name):
    text = (home / "first/events.jsonl").read_text()
    lines = FALSIFICATIONS[name]([json.loads(line) for line in text.splitlines()])
    history = History.of(event_reading.read(map(json.dumps, lines)))
    rules = Rules.of(load(home / "first/resolved.yaml"))
    check = next(c for c in judging.judge(history, rules).checks if c.name == NAME)
    assert check.outcome == "fail", check.detail


def test_a_receiver_ignores_what_is_not_background_traffic(tmp_path):
    address = "127.0.0.9"
    events, events_end = os.pipe()
    commands_end, commands = os.pipe()
    process = fork(lambda: Sink(frozenset({3}), address, events_end, commands_end).run())
    try:
        os.close(events_end)
        assert os.read(events, 100) == b"listening\n"
        os.write(commands, (1).to_bytes(8))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            for packet in (
                b"",
                b"?",
                os.urandom(100),
                PACKET_HEADER.pack(MAGIC, 4) + bytes(50),
                PACKET_HEADER.pack(MAGIC, 3) + bytes(50),
            ):
                out.sendto(packet, (address, PORT))
        for data in (
            b"",
            b"GET / HTTP/1.0\r\n\r\n" * 3,
            FILE_HEADER.pack(MAGIC, 4, 10, 0) + bytes(10),
            FILE_HEADER.pack(MAGIC, 3, 0, 0),
            FILE_HEADER.pack(MAGIC, 3, 10, 0) + bytes(5),
            FILE_HEADER.pack(MAGIC, 3, 10, 7) + bytes(10),
        ):
            with socket.create_connection((address, PORT)) as out:
                out.sendall(data)
                out.settimeout(5)
                with contextlib.suppress(OSError):  # it may have been closed before
                    out.shutdown(socket.SHUT_WR)
                    assert out.recv(1) == b""  # the receiver closes every connection
        os.write(commands, STOP)
        assert process.wait() == 0
    finally:
        process.end()
    said = [json.loads(line) for line in os.read(events, 1 << 16).splitlines()]
    totals = [(x["flow"], x["bytes"], x.get("start_ns")) for x in said]
    assert (3, 10, 7) in totals
    counted = [x for x in said if x["event"] == "background_received"]
    assert sum(x["packets"] for x in counted) == 1
    assert sum(x["bytes"] for x in counted) == 58 + 5 + 10
    assert {flow for flow, *_ in totals} == {3}
