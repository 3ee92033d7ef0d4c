"""What the kernel is told about a link, as numbers."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.harness.network import shaping
from trunkline.harness.network.interface import NetworkError
from trunkline.harness.network.netlink import CHANGE, CREATE, REPLACE, attribute, attributes
from trunkline.topologies.links import Link

LINK = Link("a", "b", 50.0, 10.0, jitter_ms=0.5, loss_percent=1.0, queue_bytes=100_000)


def test_netem_gets_the_rate_in_bytes_and_times_in_nanoseconds():
    options = shaping.netem_options(LINK, seed=7)
    _, limit, loss, gap, duplicate, jitter = struct.unpack_from("=6I", options)
    assert (limit, loss, gap, duplicate, jitter) == (2**31 - 1, 42949673, 0, 0, 0)
    assert attributes(options, 24) == {
        6: struct.pack("=IiIi", 6_250_000, 0, 0, 0),
        10: struct.pack("=q", 10_000_000),
        11: struct.pack("=q", 500_000),
        14: struct.pack("=Q", 7),
    }


def test_a_change_leaves_the_random_generator_where_it_is():
    assert 14 not in attributes(shaping.netem_options(LINK), 24)


def test_rates_beyond_32_bits_of_bytes_per_second_are_told_in_64():
    fast = replace(LINK, rate_mbps=40_000.0)
    options = attributes(shaping.netem_options(fast), 24)
    assert struct.unpack_from("=I", options[6]) == (2**32 - 1,)
    assert struct.unpack("=Q", options[8]) == (5_000_000_000,)
    assert struct.unpack("=Q", attributes(shaping.police_options(fast, 3))[8]) == (5_000_000_000,)
    assert struct.unpack("=Q", attributes(shaping.bucket_options(fast, 1514))[4]) == (
        5_000_000_000,
    )


def test_the_policer_is_as_deep_as_the_queue_takes_to_drain():
    parameters = attributes(shaping.police_options(replace(LINK, rate_mbps=100.0), index=3))[1]
    index, action, _, depth_ticks, _ = struct.unpack_from("=IiIII", parameters)
    assert (index, action) == (3, 4)
    assert depth_ticks * 64 == 8_000_000  # 100 000 bytes at 100 Mbit/s, in ns


def test_the_longest_queue_of_every_rate_fits_the_policer():
    slowest = replace(LINK, rate_mbps=0.001, queue_bytes=33_750)
    rounded = replace(LINK, rate_mbps=0.001003, queue_bytes=33_851)  # 125.4 bytes/s, told as 125
    for link, drains_ns in ((slowest, 270 * 10**9), (rounded, 270_808_000_000)):
        parameters = attributes(shaping.police_options(link, index=3))[1]
        assert struct.unpack_from("=12xI", parameters) == (drains_ns // 64,)


def test_a_token_bucket_holds_two_packets_or_two_milliseconds():
    slow = attributes(shaping.bucket_options(replace(LINK, rate_mbps=5.0), 1514))
    fast = attributes(shaping.bucket_options(replace(LINK, rate_mbps=800.0), 1514))
    assert struct.unpack("=I", slow[6]) == (3028,)
    assert struct.unpack("=I", fast[6]) == (200_000,)
    assert struct.unpack_from("=24xI", slow[1]) == (100_000,)


def test_a_queue_that_a_token_bucket_cannot_hold_is_refused():
    with pytest.raises(NetworkError, match="expected up to 4294967295 without a policer"):
        shaping.bucket_options(replace(LINK, rate_mbps=1000.0, queue_bytes=2**32), 1514)


@pytest.mark.parametrize(
    ("loss_percent", "threshold"), [(0.0, 0), (0.02, 858993), (50.0, 2**31), (100.0, 2**32 - 1)]
)
def test_loss_is_a_share_of_32_bits(loss_percent, threshold):
    assert shaping.threshold(loss_percent) == threshold


def test_a_new_delay_leaves_the_queue_alone():
    (netem,) = shaping.RouterAndWire().change(LINK, replace(LINK, delay_ms=20.0), index=3)
    assert netem.flags == CHANGE


def test_a_new_rate_replaces_the_policer_and_changes_netem():
    police, netem = shaping.RouterAndWire().change(LINK, replace(LINK, rate_mbps=20.0), index=3)
    assert (police.flags, netem.flags) == (CREATE | REPLACE, CHANGE)


def test_a_token_bucket_refuses_what_it_cannot_do():
    with pytest.raises(
        NetworkError, match="link a -> b: delay, jitter, loss and the like need netem"
    ):
        shaping.TokenBucket(1500).change(LINK, LINK, index=3)


def test_every_direction_of_every_seed_has_random_numbers_of_its_own():
    seeds = {
        shaping.link_seed(seed, src, dst) for seed in (1, 2) for src in range(9) for dst in range(9)
    }
    assert len(seeds) == 2 * 81
    assert shaping.link_seed(1, 0, 1) == 660371098084610580


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=40)))
def test_attributes_survive_encoding(values):
    encoded = b"".join(attribute(kind, value) for kind, value in values.items())
    assert attributes(encoded) == values
