"""What files of traces and of availability say, and how others are refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.faults import trace_notes
from trunkline.harness.faults.fault_parts import FaultError
from trunkline.harness.faults.fault_syntax import parse
from trunkline.harness.faults.fault_writing import write
from trunkline.harness.faults.timeline import Entry
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology

TOPOLOGY = Topology(
    "mesh",
    tuple(map(Site, ("n1", "n2", "n3"))),
    tuple(Link(f"n{a}", f"n{b}", 100.0, 10.0) for a, b in itertools.permutations((1, 2, 3), 2)),
)
GROWING = "\n".join(map(str, range(1, 101)))  # 100 packets in 100 ms


def read(text, hints="", name="f"):
    return parse(f"trace n1 n2 {name} {hints}", TOPOLOGY, lambda _: text)


def steps(text, hints="", name="f"):
    return write(read(text, hints, name)).split()[3]


@pytest.mark.parametrize(
    ("text", "hints", "wanted"),
    [
        # what a column says
        ("0,20,30,1,2", "", "0s:20Mbit/s:30ms:1%:2ms"),
        ("time,rate,loss\n0,20,1\n2,30", "", "0s:20Mbit/s::1%,2s:30Mbit/s"),
        ("Rate, Time\n20,0", "", "0s:20Mbit/s"),
        ("time,delay\n0,20\n2.5,30", "", "0s::20ms,2.5s::30ms"),
        ("time,loss\n0,0\n5,100 %", "", "0s:::0%,5s:::100%"),
        ("time,rate,jitter\n0,20,1\n2,,3", "", "0s:20Mbit/s:::1ms,2s::::3ms"),
        ("timestamp,rtt_ms,loss_rate\n0,40,0.01", "", "0s::20ms:1%"),
        ("Time (s),Throughput (Mbps),Latency [ms],Packet Loss (%)\n0,5,6,7", "",
         "0s:5Mbit/s:6ms:7%"),
        ("time_ms,bandwidth_kbps\n0,5000\n500,0", "", "0s:5Mbit/s,500ms:0Mbit/s"),
        ("t,bw,delay,rtt\n0,5,10,40", "", "0s:5Mbit/s:10ms"),
        ("time,avg_rtt,min_rtt,mdev\n0,30,20,3", "", "0s::15ms"),
        ("time,uplink_mbps,downlink_mbps\n0,1,2", "rate=downlink_mbps", "0s:2Mbit/s"),
        ("time,download (kbps),upload (kbps)\n0,1000,2000", "rate=upload_kbps", "0s:2Mbit/s"),
        ("1,2,3,4", "columns=-,time,-,rate", "2s:4Mbit/s"),
        ("0,5000", "unit=kbit/s", "0s:5Mbit/s"),
        ("time,download\n0,9e6", "unit=bit/s", "0s:9Mbit/s"),
        # times
        ("1709294400.5,20\n1709294401.75,30", "", "0s:20Mbit/s,1.25s:30Mbit/s"),
        ("1709294400123456789,5\n1709294401123456789,6", "", "0s:5Mbit/s,1s:6Mbit/s"),
        ("timestamp_ms,rate\n1709294400500,5\n1709294401500,6", "", "0s:5Mbit/s,1s:6Mbit/s"),
        ("2024-03-01T23:59:59.5Z,5\n2024-03-02 02:00:00+02:00,6", "", "0s:5Mbit/s,500ms:6Mbit/s"),
        ("time;rate\n01.03.2024 12:00:00;5,5\n01.03.2024 12:00:01;6", "",
         "0s:5.5Mbit/s,1s:6Mbit/s"),
        ("Date,Time,rate\n2024-03-01,12:00:00,5\n2024-03-01,12:00:02,6", "",
         "0s:5Mbit/s,2s:6Mbit/s"),
        ("12:00:00,5\n12:00:02.5,6", "", "0s:5Mbit/s,2.5s:6Mbit/s"),
        ("300,20\n310,30", "", "300s:20Mbit/s,310s:30Mbit/s"),
        ("Test Date;rate\n01.03.2024 12:00;5\n01.03.2024 12:01;6", "", "0s:5Mbit/s,60s:6Mbit/s"),
        ("eventTimeMs,round_trip_time\n5,10\n", "", "5ms::5ms"),
        ("300,20\n310,30", "from=first", "0s:20Mbit/s,10s:30Mbit/s"),
        ("300,20,5\n310,30\n320,40", "from=315 s", "0s:30Mbit/s:5ms,5s:40Mbit/s"),
        ("2024-03-01T12:00:00Z,5\n2024-03-01T12:00:10Z,6", "from=4 s", "0s:5Mbit/s,6s:6Mbit/s"),
        ("2024-03-01 12:00,5\n2024-03-01 12:01,6", "from=2024-03-01T12:00:20",
         "0s:5Mbit/s,40s:6Mbit/s"),
        ("10\n0\n30", "unit=Mbit/s step=1s", "0s:10Mbit/s,1s:0Mbit/s,2s:30Mbit/s"),
        ("10\n20", "unit=ms step=500 ms", "0s::10ms,500ms::20ms"),
        ("rtt,loss\n10,1\n20,2", "step=1s", "0s::5ms:1%,1s::10ms:2%"),
        # forms
        ("\ufefftime\trate\r\n\r\n0\t5\r\n1\t6\r\n", "", "0s:5Mbit/s,1s:6Mbit/s"),
        ("time;rate\n0;1.000,5\n0,5;6", "", "0s:1.0005Gbit/s,500ms:6Mbit/s"),
        ("time | rate\n0 | 5", "", "0s:5Mbit/s"),
        ('"time","rate"\n"0","1,000"\n', "", "0s:1Gbit/s"),
        ("0,5 1,23\n1,5 2,3", "", "500ms:1.23Mbit/s,1.5s:2.3Mbit/s"),
        ("2024-03-01 12:00:00 5\n2024-03-01 12:00:01 6", "", "0s:5Mbit/s,1s:6Mbit/s"),
        ("# Starlink\n# time delay\n0 40", "", "0s::40ms"),
        ("# mean rate\n0 40", "", "0s:40Mbit/s"),
        ("# seconds, Mbit/s\n0,20,,1", "", "0s:20Mbit/s::1%"),
        ("sep=;\ntime;rate\n0;5", "", "0s:5Mbit/s"),
        (",timestamp,rate\n0,5,100\n1,6,90", "", "5s:100Mbit/s,6s:90Mbit/s"),
        ("time,rate\n0,nan\n1,5\n2,-\n,,\n3,6", "", "1s:5Mbit/s,3s:6Mbit/s"),
        # mahimahi
        (GROWING, "", "0s:12Mbit/s"),
        ("1\n2\n3", "unit=mahimahi", "0s:12Mbit/s"),
    ],
)  # fmt: skip
def test_a_file_says(text, hints, wanted):
    assert steps(text, hints) == wanted


@pytest.mark.parametrize(
    ("text", "hints", "message"),
    [
        ("", "", "f: empty: expected a row or more"),
        ("# nothing\n", "", "f: empty: expected a row or more"),
        ("time,rate", "", "f:1: no rows: expected one or more"),
        ('{"a": 1}', "", "f: JSON or XML: expected rows with cells"),
        ("a,b\n1,2", "", "f:1: columns a,b: expected time and at least one of rate, delay or rtt"),
        ("Zeit;rate\n0;1", "", "f:1: no time: expected a column time (columns=NAME,... names"),
        ("time,rate\n0,20,1", "", "f:2: 3 cells: expected 2 as in the header row"),
        ("1,2,3,4,5,6", "", "f:1: 6 columns: expected time,rate,delay,loss,jitter, a header row"),
        ("time,rate,rate\n0,20,1", "", "f:1: 'rate' and 'rate' both say a rate: expected one"),
        ("time,up,down\n0,20,1", "", "f:1: 'up' and 'down' both say a rate: expected one, chosen"),
        ("time,rate\n0,1", "rate=x", "rate=x: expected a column of f:1: time, rate"),
        ("0,20\n1", "", "f:2: no value: expected time and at least one of"),
        ("0,20\n,20", "", "f:2: no time: expected time"),
        ("\n# x\n0,20\n\n0,30", "", "f:5: 0 s after 0 s: expected times that grow"),
        ("time,rate\n5,20\n\n3,30", "", "f:4: 3 s after 5 s: expected times that grow"),
        ("time,rate\n0,20\n1,x", "", "f:3: rate 'x': expected a rate of 0 or more in Mbit/s"),
        ("time,rate\n0,20 ms", "", "f:2: rate '20 ms': expected a rate"),
        ("0,20\n1,-5", "", "f:2: rate '-5': expected a rate of 0 or more in Mbit/s"),
        ("-1,20", "", "f:1: '-1': expected a time in s, or with a unit, a date"),
        ("0,20,1,101", "", "f:1: loss '101': expected a share of 0 to 100 in %"),
        ("time,loss_rate\n0,1.5", "", "f:2: loss '1.5': expected a share of 0 to 1, or of 0 to"),
        ("0,10\n1,93400000", "", "f:2: rate 93400000 Mbit/s: expected 0.001 to 1000000 Mbit/s; "),
        ("0,0.0001", "", "f:1: rate 0.0001 Mbit/s: expected 0.001 to 1000000 Mbit/s, or 0 for an"),
        ("0,10,1e9", "", "f:1: delay 1000000000 ms: expected 0 to 60000 ms"),
        ("time,delay,jitter\n0,5,8", "", "f:2: jitter 8 ms: expected 0 to the link's delay, 5 ms"),
        ("time,jitter\n0,20", "", "link n1 -> n2: jitter 20 ms: expected 0 to the link's delay, "),
        ("2024-02-30,5", "", "f:1: '2024-02-30': day is out of range"),
        ("01/03/2024 12:00,5", "", "f:1: '01/03/2024 12:00': expected a time in s, or with a unit"),
        ("0,1\n1,2", "from=9", "from=9: expected a time before the last row, 1"),
        ("time,rate\n0,1", "step=1s", "step=1s: expected rows without times"),
        ("1\n2", "unit=Mbit/s step=0s", "step=0s: expected a time above 0"),
        ("1\n2", "step=1s from=first", "from=first: expected rows with times"),
        ("1\n2", "unit=furlongs step=1s", "unit=furlongs: expected a unit of rates, times or"),
        ("0,1", "unit=ms", "unit=ms: expected a column with a delay"),
        ("time,rate_kbps\n0,1", "unit=Mbit/s", "unit=Mbit/s: expected kbps, as the column's"),
        ("0,1", "unit=mahimahi", "f: unit=mahimahi: expected a time in ms per line"),
        ("0,1", "unit=", "unit=: expected unit=UNIT once"),
        ("10\n20\n30", "", "f: one number per line: expected unit=mahimahi if these are times of"),
        ("\n".join(["20"] * 50), "", "f: one number per line: expected unit=mahimahi"),
        ("10.5\n20", "", "f: one number per line: expected unit=mahimahi"),
        ("5\n4", "unit=mahimahi", "f:2: 4 after 5: expected times that do not fall"),
        ("1\n2\nx", "unit=mahimahi", "f:3: x: expected mahimahi's whole milliseconds"),
        ("1\n86400001", "unit=mahimahi", "f:2: 86400001: expected up to 86400000 ms, a day"),
        ("0", "unit=mahimahi", "f:1: 0: expected a last time of 1 ms or more"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_line(text, hints, message):
    with pytest.raises(FaultError) as refused:
        read(text, hints)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "hints", "places"),
    [
        ("time,rate,delay\n0,5,3\n1,x,-4\nz,5,3\n0,inf,2", "",
         ["f:3: rate", "f:3: delay", "f:5: rate", "f:4: 'z'", "f:5: 0 s after 1 s"]),
        ("time,loss\n,1\n1,2\n,3", "", ["f:2: no time", "f:4: no time"]),
        ("0,1\n" * 9, "", [f"f:{line}: 0 s after 0 s" for line in range(2, 7)] + ["and 3 more"]),
        ("5\nx\n3", "unit=mahimahi", ["f:2: x", "f:3: 3 after 5"]),
    ],
)  # fmt: skip
def test_all_problems_of_a_file_are_told_at_once(text, hints, places):
    with pytest.raises(FaultError) as refused:
        read(text, hints)
    told = str(refused.value).replace("link; unit", "link, unit").split("; ")
    assert len(told) == len(places)
    assert all(map(str.startswith, told, places)), told


def test_all_problems_of_steps_and_of_states_are_told_at_once():
    with pytest.raises(FaultError, match=r"rate 0\.0001 Mbit/s: .*; steps: loss 101 %: "):
        parse("trace n1 n2 0s:0.0001Mbit/s,1s:5Mbit/s:5ms:101%", TOPOLOGY)
    with pytest.raises(FaultError) as refused:
        parse("availability n1 f", TOPOLOGY, lambda _: "time,state\n0,maybe\n5,on\n4,perhaps")
    assert [text[:4] for text in str(refused.value).split("; ")] == ["f:2:", "f:4:", "f:4:"]


@pytest.mark.parametrize(
    ("times_ms", "wanted"),
    [
        ([1], "0s:12Mbit/s"),  # one packet in every ms, as mahimahi repeats it
        (range(1, 1002, 50), "0s:240kbit/s,900ms:356.4356435643564kbit/s"),  # 3 in 101 ms
        ([*range(1, 101), 300], "0s:12Mbit/s,100ms:120kbit/s"),  # none in 101..200
        ([*range(1, 101), *[101] * 50, 200], "0s:12Mbit/s,100ms:6.12Mbit/s"),
    ],
)
def test_the_last_mahimahi_window_is_never_a_short_one_and_an_empty_one_has_a_packet(
    times_ms, wanted
):
    assert steps("\n".join(map(str, times_ms)), name="cell.up") == wanted


@pytest.mark.parametrize(
    ("text", "hints", "wanted"),
    [
        ("time,state\n0,on\n5,off\n9,on", "", "0s:on,5s:off,9s:on"),
        ("\ufefftime;online\r\n0;true\r\n1,5;False", "", "0s:on,1.5s:off"),
        ("time,n1,n2\n0,1,0\n5,0,1", "", "0s:on,5s:off"),
        ("site,time,state\nn1,0,up\nn2,0,down\nn1,4,down", "", "0s:on,4s:off"),
        ("client,start,end\nn1,5,10\nn1,10,12\nn2,3,4", "", "0s:off,5s:on,12s:off"),
        ("start,end\n2024-03-01T12:00:00,2024-03-01T12:10:00", "", "0s:on,600s:off"),
        ("1\n0\n1", "step=10 s", "0s:on,10s:off,20s:on"),
        ("up\ndown\nup", "step=2 s", "0s:on,2s:off,4s:on"),
        ("on\n1\n0", "step=2 s", "0s:on,2s:off"),
        ("timestamp,status\n1709294400,online\n1709294460,offline", "", "0s:on,60s:off"),
        ("time,state\n100,on\n200,off", "from=150", "0s:on,50s:off"),
        ("5,off\n9,off\n12,on", "", "5s:off,12s:on"),
        ("start,end\n5,5", "", "0s:off"),
        ("start,end\n0,5", "from=2", "0s:on,3s:off"),
        # sites of a file have one start
        (
            "client_id,start,end\nn2,1709294400,1709294410\nn1,1709294405,1709294407",
            "",
            "0s:off,5s:on,7s:off",
        ),
        ("time,node,state\n12:00:00,n2,off\n12:00:09,n1,off", "", "9s:off"),
    ],
)
def test_a_file_says_when_a_site_is_available(text, hints, wanted):
    fault = parse(f"availability n1 f {hints}", TOPOLOGY, lambda _: text)
    assert write(fault) == f"availability n1 {wanted} blackhole"
    assert parse(write(fault), TOPOLOGY) == fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,state\n0,maybe", "f:2: 'maybe': expected on or off, up or down, 1 or 0"),
        ("time,state\n0,", "f:2: '': expected on or off"),
        ("time,n2\n0,1", "f:1: columns time,n2: expected a column state or n1"),
        ("time,state\n5,off\n5,on", "f:3: 5 s after 5 s: expected times that grow"),
        ("site,time,state\nn2,5,off", "f: no row for n1"),
        ("site,start,end\nn1,5,", "f:2: '': expected a time in s"),
        ("site,start,end\nn1,5,3", "f:2: 3 s after 5 s: expected times that grow"),
        ("1,2,3", "f:1: expected time,state, or a header row"),
    ],
)
def test_a_file_without_availability_is_refused(text, message):
    with pytest.raises(FaultError) as refused:
        parse("availability n1 f", TOPOLOGY, lambda _: text)
    assert str(refused.value).startswith(message)


@given(st.text('0123456789,.;:\t \n-timerates"#|%Z', max_size=60))
def test_any_text_is_a_trace_or_refused(text):
    for verb in ("trace n1 n2 f", "availability n1 f"):
        try:
            fault = parse(verb, TOPOLOGY, lambda _: text)
        except FaultError:
            continue
        assert parse(write(fault), TOPOLOGY) == fault


def test_figures_show_a_trace_s_values_and_outages():
    fault = read("time,rate,delay\n0,10,5\n8,0,\n16,30,10\n32,30,10")
    assert list(trace_notes.draw(fault)) == [
        "rate   ▁▁▁▁▁xxxxxx█████████████████████  10 Mbit/s to 30 Mbit/s, down for 8 s in 48 s",
        "delay  ▁▁▁▁▁▁▁▁▁▁▃█████████████████████  5 ms to 10 ms in 48 s",
    ]
    fault = parse("availability n1 0s:on,16s:off every 32 s", TOPOLOGY)
    assert list(trace_notes.draw(fault)) == [f"on     {'█' * 16}{'x' * 16}  50% of 32 s"]


def test_notes_name_what_was_not_read_and_steps_after_the_end():
    entries = [
        Entry(2.0, read("time,rate,who\n0,1,a\n5,2,b\n9,3,c")),
        Entry(0.0, read("0,1\n5,2", "for 4 s")),
        Entry(0.0, parse("availability n1 f", TOPOLOGY, lambda _: "0,off\n30,on")),
        Entry(0.0, parse("outage n1 n2", TOPOLOGY)),
        Entry(12.0, parse("outage n1 n2 for 20 s", TOPOLOGY)),
        Entry(12.0, read("0,1\n5,2")),
    ]
    assert list(trace_notes.list_notes(entries, {"stop.time": 10.0, "limits.run": 60.0})) == [
        "trace n1 n2: f: columns that are not read: who",
        "trace n1 n2: 1 of 3 steps would come after stop.time, 10 s",
        "trace n1 n2: 1 of 2 steps would come after its end, 4 s",
        "availability n1: 1 of 2 steps would come after stop.time, 10 s",
        "outage at 12 s: would come after stop.time, 10 s",
        "trace n1 n2: would come after stop.time, 10 s",
    ]
