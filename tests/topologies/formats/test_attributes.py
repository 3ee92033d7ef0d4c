"""What attributes mean, in the words and units of other programs."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.topologies import TopologyError
from trunkline.topologies.formats.attributes import flatten, read_link
from trunkline.topologies.formats.quantities import PERCENT, QUEUE, RATE, SHARE, TIME, read_quantity

# --- words and units


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"bw": 10}, {"rate_mbps": 10.0}),
        ({"Bandwidth": "1Gbps"}, {"rate_mbps": 1000.0}),
        ({"bandwidth_mbps": 100}, {"rate_mbps": 100.0}),
        ({"Bandwidth (Gbit/s)": "2.5"}, {"rate_mbps": 2500.0}),
        ({"capacityGbps": 40}, {"rate_mbps": 40_000.0}),
        ({"bandwidth": 1000, "bandwidth_unit": "kbps"}, {"rate_mbps": 1.0}),
        ({"latency": 4, "Latency Units": "us"}, {"delay_ms": 0.004}),
        ({"capacity": "100 Mbit"}, {"rate_mbps": 100.0}),
        ({"link_speed": "10G"}, {"rate_mbps": 10_000.0}),
        ({"speed": "8 MB/s"}, {"rate_mbps": 64.0}),
        ({"latency": "80 ms"}, {"delay_ms": 80.0}),
        ({"latency": 80}, {"delay_ms": 80.0}),
        ({"delay_us": 250}, {"delay_ms": 0.25}),
        ({"Latency [s]": "0.125"}, {"delay_ms": 125.0}),
        ({"latencyMs": 3.5}, {"delay_ms": 3.5}),
        ({"rtt": "18 ms"}, {"delay_ms": 9.0}),
        ({"distance": 1000}, {"delay_ms": 5.003}),
        ({"length_m": 500_000}, {"delay_ms": 2.502}),
        ({"length": "100 mi"}, {"delay_ms": 0.805}),
        ({"jitter": "2 ms"}, {"jitter_ms": 2.0}),
        ({"loss": 0.5}, {"loss_percent": 0.5}),
        ({"loss": "1 %"}, {"loss_percent": 1.0}),
        ({"packet_loss": 0.1}, {"loss_percent": 10.0}),
        ({"packet_loss": "2%"}, {"loss_percent": 2.0}),
        ({"packet_loss_percent": 2}, {"loss_percent": 2.0}),
        ({"Packet Loss (%)": 2}, {"loss_percent": 2.0}),
        ({"packetLoss%": 2}, {"loss_percent": 2.0}),
        ({"loss [%]": 2}, {"loss_percent": 2.0}),
        ({"lossRate": "1e-2"}, {"loss_percent": 1.0}),
        ({"queue": "100 kB"}, {"queue_bytes": 100_000}),
        ({"queue": 64_000}, {"queue_bytes": 64_000}),
        ({"queue": "100 packets"}, {"queue_bytes": 151_400}),
        ({"queue_packets": 10}, {"queue_bytes": 15_140}),
        ({"max_queue_size": 50}, {"queue_bytes": 75_700}),
        ({"buffer_kb": 64}, {"queue_bytes": 64_000}),
        ({"LinkSpeed": "622", "LinkSpeedUnits": "M"}, {"rate_mbps": 622.0}),
        ({"LinkSpeedRaw": 1e10, "LinkSpeed": "10", "LinkSpeedUnits": "G"}, {"rate_mbps": 10_000.0}),
    ],
)  # fmt: skip
def test_the_words_and_units_of_other_programs_are_read(attributes, found):
    read = read_link(attributes)
    known = {key: getattr(read, key) for key in read.origins}
    assert (known, read.unused) == (found, ())


def test_a_delay_wins_over_a_distance_and_what_is_not_used_is_named():
    read = read_link({"distance": 1000, "latency": "7 ms", "weight": 3, "cost": 2, "color": "red"})
    assert (read.delay_ms, read.origins["delay_ms"]) == (7.0, "latency")
    assert read.unused == (("distance", "1000"), ("weight", "3"), ("cost", "2"))
    assert read_link({"note": "about 5 ms"}).unused == ()
    assert read_link({"note": "5 ms", "mtu": 1400}).unused == (("note", "5 ms"), ("mtu", "1400"))
    assert read_link({"weight": 1.0, "id": "e7", "Type": "Undirected"}).unused == ()
    same = read_link({"bw": 5, "rate": "5 Mbit/s"})
    assert (same.rate_mbps, same.unused) == (5.0, ())
    other = read_link({"bw": 7, "rate": "5 Mbit/s"})
    assert (other.rate_mbps, other.unused) == (5.0, (("bw", "7"),))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"bw": "fast"}, "bw 'fast': expected a rate above 0 in Mbit/s, or with a unit (bit/s, "
         "kbit/s, Mbit/s, Gbit/s)"),
        ({"latency": "-5 ms"}, "latency '-5 ms': expected a time of 0 or more in ms, or with a "
         "unit (us, ms, s)"),
        ({"packet_loss": 5}, "packet_loss '5': expected a share of 0 to 1, or of 0 to 100 with %"),
        ({"loss": 101}, "loss '101': expected a share of 0 to 100 in %, or with a unit (%)"),
        ({"queue": "big"}, "queue 'big': expected a queue above 0 in B, or with a unit (B, kB, MB, "
         "KiB, MiB, packets)"),
        ({"distance": "far"}, "distance 'far': expected a length of 0 or more in km, or with a "
         "unit (m, km)"),
        ({"bw": "1e999999999 Gbps"}, "bw '1e999999999 Gbps': expected a rate above 0 up to 1e+18 "
         "in Mbit/s, or with a unit (bit/s, kbit/s, Mbit/s, Gbit/s)"),
        ({"queue": "1e400"}, "queue '1e400': expected a queue above 0 up to 1e+18 in B, or with a "
         "unit (B, kB, MB, KiB, MiB, packets)"),
        ({"rtt": "nan", "loss": "inf"}, "rtt 'nan': expected a time of 0 or more in ms, or with a "
         "unit (us, ms, s)\nloss 'inf': expected a share of 0 to 100 in %, or with a unit (%)"),
        ({"delay": 5, "rtt": 6}, "expected either a delay or an rtt"),
        ({"bw": 5, "bw_unit": "ms"}, "bw has bw_unit 'ms': expected a unit such as Mbit/s"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_attribute_and_what_is_allowed(attributes, message):
    with pytest.raises(TopologyError) as refused:
        read_link(attributes)
    assert str(refused.value) == message


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20) | st.floats() | st.none()))
def test_any_attributes_are_read_or_refused_by_a_topology_error(attributes):
    with contextlib.suppress(TopologyError):
        read_link(attributes)


@pytest.mark.parametrize("unit", [RATE, TIME, PERCENT, SHARE, QUEUE], ids=lambda unit: unit.name)
def test_other_spellings_of_a_unit_have_its_size(unit):
    for name, size in unit.sizes.items():
        assert read_quantity(f"1{name}", unit) == float(size)
    spelled = {"10 gbps": 10_000.0, "1 Mb/s": 1.0, "5 Kbps": 0.005, "8 Mibit": 8.388608,
               "1 kilobit": 0.001, "1 gigabit/s": 1000.0, "2 MBps": 16.0, "100 megabits": 100.0,
               "1 tbps": 1e6, "20 Mbit/sec": 20.0, "5 MBit/s": 5.0, "5 Mbps": 5.0,
               "5 mbps": 5.0, "5 GBIT": 5000.0, "1 MByte/s": 8.0}  # fmt: skip
    if unit is RATE:
        assert RATE.find_size("MBPS") is None  # both are usual
        assert {text: read_quantity(text, RATE) for text in spelled} == pytest.approx(spelled)


@pytest.mark.parametrize(
    ("nested", "flat"),
    [
        ({"data": {"latency": "80 ms"}}, {"latency": "80 ms"}),
        ({"a": {"b": {"bw": 5}}, "queue": []}, {"bw": 5}),
        ({"latency": {"ms": 80}, "rtt": {"mean": 3}}, {"latency ms": 80, "rtt mean": 3}),
        ({"bw": {"value": 5, "unit": "Gbit/s"}, "loss": {"value": 1}},
         {"bw": "5 Gbit/s", "loss": "1 "}),
        ({"data": {"bw": 5}, "bw": 7}, {"bw": 7, "data bw": 5}),
        ({"qos": [{"bw": 5}], "cuts": [{"loss": 1}, {"loss": 2}]},
         {"bw": 5, "cuts[0] loss": 1, "cuts[1] loss": 2}),
        ({"bw": [1, 2], "loss": [3]}, {"bw": "[1, 2]", "loss": 3}),
    ],
)  # fmt: skip
def test_attributes_in_attributes_have_a_name_of_their_own(nested, flat):
    assert flatten(nested) == flat


def test_attributes_that_are_nested_too_deeply_are_a_text():
    deep = {"bw": 5}
    for _ in range(500):
        deep = {"a": deep}
    assert list(flatten(deep)) == ["a"]


def test_inner_attributes_are_read_or_named():
    read = read_link(flatten({"data": {"latency": {"us": 80}, "bw": 5}, "bw": 7}))
    assert (read.rate_mbps, read.delay_ms, read.unused) == (7.0, 0.08, (("data bw", "5"),))
