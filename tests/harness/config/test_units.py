"""Quantities: every unit, every refusal, and a round trip for any number."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.config import units
from trunkline.harness.config.units import (
    RATE_MBPS,
    SHARE_PERCENT,
    SIZE_BYTES,
    TIME_MS,
    TIME_S,
    QuantityError,
)
from trunkline.harness.faults import fault_syntax
from trunkline.harness.faults.recorded import traces
from trunkline.topologies.formats import csv_file

RATES = "expected a rate such as 50 Mbit/s (units: bit/s, kbit/s, Mbit/s, Gbit/s)"
TIMES = "expected a time such as 50 s (units: us, ms, s, min, h)"
SIZES = "expected a size such as 256 KiB (units: B, kB, MB, GB, KiB, MiB, GiB)"
SHARES = "expected a share such as 0.02 % (units: %)"


@pytest.mark.parametrize(
    ("text", "dimension", "number"),
    [
        ("50 Mbit/s", RATE_MBPS, 50.0),
        ("1.5 Gbit/s", RATE_MBPS, 1500.0),
        ("800 kbit/s", RATE_MBPS, 0.8),
        ("1 bit/s", RATE_MBPS, 1e-6),
        ("30 ms", TIME_MS, 30.0),
        ("150 us", TIME_MS, 0.15),
        ("1 s", TIME_MS, 1000.0),
        ("50 s", TIME_S, 50.0),
        ("3 min", TIME_S, 180.0),
        ("2 h", TIME_S, 7200.0),
        ("100 ms", TIME_S, 0.1),
        ("180 MB", SIZE_BYTES, 180_000_000),
        ("256 KiB", SIZE_BYTES, 262_144),
        ("1.5 kB", SIZE_BYTES, 1500),
        ("7 B", SIZE_BYTES, 7),
        ("0.02 %", SHARE_PERCENT, 0.02),
        ("80%", SHARE_PERCENT, 80.0),
        ("1e3 MB", SIZE_BYTES, 10**9),
        (0, TIME_MS, 0.0),
        (0.0, SIZE_BYTES, 0),
    ],
)
def test_a_quantity_is_read_in_the_unit_of_its_python_name(text, dimension, number):
    read = units.parse(text, dimension)
    assert read == number
    assert type(read) is (int if dimension.whole else float)


@pytest.mark.parametrize(
    ("value", "dimension", "message"),
    [
        (50, RATE_MBPS, f"a unit is missing: {RATES}"),
        (0.02, SHARE_PERCENT, f"a unit is missing: {SHARES}"),
        ("50", TIME_S, f"a unit is missing: {TIMES}"),
        ("50 Mbps", RATE_MBPS, f"unknown unit Mbps: did you mean Mbit/s? {RATES}"),
        ("50 mbit/s", RATE_MBPS, f"unknown unit mbit/s: did you mean Mbit/s? {RATES}"),
        ("50 MB/s", RATE_MBPS, f"unknown unit MB/s: did you mean 400 Mbit/s? {RATES}"),
        ("5 MBps", RATE_MBPS, f"unknown unit MBps: did you mean 40 Mbit/s? {RATES}"),
        ("5 mbit", RATE_MBPS, f"unknown unit mbit: did you mean 5 Mbit/s? {RATES}"),
        ("1 MiB/s", RATE_MBPS, f"unknown unit MiB/s: did you mean 8.388608 Mbit/s? {RATES}"),
        ("5 MBPS", RATE_MBPS, f"unknown unit MBPS: {RATES}"),
        ("50 sec", TIME_S, f"unknown unit sec: did you mean s? {TIMES}"),
        ("50 parsecs", TIME_S, f"unknown unit parsecs: {TIMES}"),
        ("256 kb", SIZE_BYTES, f"unknown unit kb: did you mean kB? {SIZES}"),
        ("30 ms", SIZE_BYTES, f"unknown unit ms: {SIZES}"),
        ("-5 s", TIME_S, "expected a time of 0 or more"),
        ("0.1 KiB", SIZE_BYTES, "this is 102.4 bytes: expected a whole number of bytes"),
        ("1e19 B", SIZE_BYTES, "expected a size up to 1000000000 GB"),
        ("1e999999999999 s", TIME_S, "expected a time up to 1000000000000000000 s"),
        ("fast", RATE_MBPS, RATES),
        ("", RATE_MBPS, RATES),
        ("1,5 Gbit/s", RATE_MBPS, RATES),
        (True, TIME_S, TIMES),
        (None, TIME_S, TIMES),
        ([1], TIME_S, TIMES),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(value, dimension, message):
    with pytest.raises(QuantityError) as refused:
        units.parse(value, dimension)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("number", "dimension", "text"),
    [
        (50.0, RATE_MBPS, "50 Mbit/s"),
        (1500.0, RATE_MBPS, "1.5 Gbit/s"),
        (53.37, RATE_MBPS, "53.37 Mbit/s"),
        (0.0, TIME_MS, "0 ms"),
        (1e-7, TIME_MS, "0.0001 us"),
        (64.0655, TIME_MS, "64.0655 ms"),
        (600.0, TIME_S, "600 s"),
        (0.1, TIME_S, "100 ms"),
        (65_536, SIZE_BYTES, "64 KiB"),
        (50_000_000, SIZE_BYTES, "50 MB"),
        (65_537, SIZE_BYTES, "65.537 kB"),
        (52.281, TIME_MS, "52.281 ms"),
        (100.0, TIME_S, "100 s"),
        (80.0, SHARE_PERCENT, "80 %"),
    ],
)
def test_a_number_is_written_exactly_and_readably(number, dimension, text):
    assert units.render(number, dimension) == text


@given(st.floats(0, 1e15, allow_subnormal=False), st.sampled_from(units.DIMENSIONS))
def test_any_number_is_read_back_exactly_and_matches_the_pattern_for_editors(number, dimension):
    value = int(number) if dimension.whole else number
    text = units.render(value, dimension)
    assert units.parse(text, dimension) == value
    assert re.match(dimension.pattern, text)


@pytest.mark.parametrize(
    ("name", "key", "dimension"),
    [
        ("rate_mbps", "rate", RATE_MBPS),
        ("delay_ms", "delay", TIME_MS),
        ("compute_s", "compute", TIME_S),
        ("model_bytes", "model", SIZE_BYTES),
        ("loss_percent", "loss", SHARE_PERCENT),
        ("p", "p", None),
        ("split", "split", None),
        ("_ms", "_ms", None),
    ],
)
def test_a_python_name_gives_the_key_and_the_unit(name, key, dimension):
    assert units.split_name(name) == (key, dimension)


@pytest.mark.parametrize(
    ("unit", "mbps"),
    [("Mbit/s", 5), ("Mbit", 5), ("mbit", 5), ("Mbps", 5), ("mbps", 5), ("MBit/s", 5), ("M", 5),
     ("MB/s", 40), ("MBps", 40), ("MByte/s", 40), ("KB/s", 0.04), ("Mibit/s", 5.24288)],
)  # fmt: skip
def test_a_unit_of_rates_has_one_meaning_in_scenarios_at_the_prompt_and_in_files(unit, mbps):
    network = csv_file.read_edges(f"src,dst,rate\na,b,5 {unit}\n")
    assert network.edges[0].values.rate_mbps == pytest.approx(mbps)
    rows = f"time,rate\n0,5 {unit}\n"
    assert traces.read(rows, "f")[0][0].rate_mbps == pytest.approx(mbps)
    hinted = traces.read("time,rate\n0,5\n", "f", traces.Reading(unit=unit))
    assert hinted[0][0].rate_mbps == pytest.approx(mbps)
    named = traces.read(f"time,rate ({unit})\n0,5\n", "f")
    assert named[0][0].rate_mbps == pytest.approx(mbps)
    for read in (lambda: units.parse(f"5 {unit}", RATE_MBPS), lambda: _set_rate(f"5{unit}")):
        try:
            assert read() == mbps == 5
        except ValueError as error:
            meant = re.search(r"did you mean ([^?]*)\?", str(error))[1]
            meant = f"5 {meant}" if " " not in meant else meant
            assert units.parse(meant, RATE_MBPS) == pytest.approx(mbps)


def _set_rate(text):
    return fault_syntax.parse(f"setlink a b rate={text}").rate_mbps
