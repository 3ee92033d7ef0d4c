import pickle
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.topologies import Link, LinkOverride, Site, Topology, TopologyError
from trunkline.topologies.links import list_choices

A, B, C, D = "a", "b", "c", "d"


def topology(*links: Link, sites: str = "abcd") -> Topology:
    return Topology("test", tuple(Site(name) for name in sites), links)


def both(src: str, dst: str, delay_ms: float = 10.0, rate_mbps: float = 50.0) -> list[Link]:
    return [Link(src, dst, rate_mbps, delay_ms), Link(dst, src, rate_mbps, delay_ms)]


LINE = topology(*both(A, B), *both(B, C), *both(C, D))


def test_rank_is_the_index_in_sites():
    assert LINE.site_names == (A, B, C, D)
    assert [LINE.rank(name) for name in "abcd"] == [0, 1, 2, 3]


def test_neighbours_are_in_rank_order():
    star = topology(*both(A, D), *both(A, C), *both(A, B))
    assert star.neighbours(A) == (B, C, D)
    assert star.neighbours(C) == (A,)


def test_rates_and_delays_have_one_entry_per_direction():
    pair = topology(Link(A, B, 20, 5), Link(B, A, 30, 7), sites="ab")
    assert pair.rates_mbps() == {(A, B): 20, (B, A): 30}
    assert pair.delays_ms() == {(A, B): 5, (B, A): 7}
    assert pair.link(B, A) == Link(B, A, 30, 7)


def test_a_path_follows_a_line_from_end_to_end():
    assert LINE.path(A, D) == (A, B, C, D)
    assert LINE.path(D, A) == (D, C, B, A)
    assert LINE.path(A, A) == (A,)
    assert LINE.next_hops(B) == {A: A, C: C, D: C}


def test_a_direct_link_wins_over_a_faster_way_round():
    slow = topology(*both(A, B, 100), *both(A, C, 1), *both(C, B, 1), sites="abc")
    assert slow.path(A, B) == (A, B)


def test_the_smaller_delay_wins_over_fewer_hops():
    ring = topology(*both(A, B, 50), *both(B, D, 50), *both(A, C, 10), *both(C, D, 10))
    assert ring.path(A, D) == (A, C, D)


def test_fewer_hops_win_among_equal_delays():
    sites = "abcde"
    detour = topology(
        *both(A, B, 10), *both(B, C, 5), *both(C, "e", 5), *both(A, D, 10), *both(D, "e", 10),
        sites=sites,
    )  # fmt: skip
    assert detour.path(A, "e") == (A, D, "e")


def test_the_lower_rank_wins_among_equal_delays_and_hops():
    square = topology(*both(A, C), *both(C, D), *both(A, B), *both(B, D))
    assert square.path(A, D) == (A, B, D)
    assert square.path(D, A) == (D, B, A)


def test_forward_and_return_paths_use_their_own_directions_delays():
    links = (
        Link(A, B, 1, 1), Link(B, A, 1, 9), Link(B, D, 1, 1), Link(D, B, 1, 9),
        Link(A, C, 1, 5), Link(C, A, 1, 5), Link(C, D, 1, 5), Link(D, C, 1, 5),
    )  # fmt: skip
    assert topology(*links).path(A, D) == (A, B, D)
    assert topology(*links).path(D, A) == (D, C, A)


def test_the_default_queue_is_one_bandwidth_delay_product_of_the_round_trip():
    pair = topology(Link(A, B, 100, 30), Link(B, A, 10, 20), sites="ab")
    assert pair.queue_bytes(pair.link(A, B)) == 625_000  # 100 Mbit/s x 50 ms
    assert pair.queue_bytes(pair.link(B, A)) == 65_536  # 62,500 bytes would be less


def test_a_link_keeps_a_queue_of_its_own():
    pair = topology(Link(A, B, 100, 30, queue_bytes=5000), Link(B, A, 10, 20), sites="ab")
    assert pair.queue_bytes(pair.link(A, B)) == 5000


def test_the_default_queue_of_the_slowest_link_is_what_drains_in_time():
    pair = topology(Link(A, B, 0.001), Link(B, A, 0.01), sites="ab")
    assert pair.queue_bytes(pair.link(A, B)) == 33_750  # 125 bytes/s x 270 s
    assert pair.queue_bytes(pair.link(B, A)) == 65_536


def test_an_override_changes_one_direction():
    changed = LINE.with_overrides([LinkOverride("a -> b", rate_mbps=20.0, loss_percent=1.0)])
    assert changed.link(A, B) == Link(A, B, 20.0, 10.0, loss_percent=1.0)
    assert changed.link(B, A) == LINE.link(B, A)
    assert [(link.src, link.dst) for link in changed.links] == [
        (link.src, link.dst) for link in LINE.links
    ]


def test_an_override_changes_both_directions_and_the_later_one_wins():
    changed = LINE.with_overrides(
        [LinkOverride("a<->b", delay_ms=1.0), LinkOverride(" b -> a ", delay_ms=2.0)]
    )
    assert (changed.link(A, B).delay_ms, changed.link(B, A).delay_ms) == (1.0, 2.0)


def test_an_override_can_set_every_value():
    new = LinkOverride("a -> b", 1.0, 2.0, 0.5, 3.0, 4000)
    assert LINE.with_overrides([new]).link(A, B) == Link(A, B, 1.0, 2.0, 0.5, 3.0, 4000)


def test_a_topology_survives_pickling_and_hashing():
    assert pickle.loads(pickle.dumps(LINE)) == LINE
    assert hash(pickle.loads(pickle.dumps(LINE))) == hash(LINE)
    assert pickle.loads(pickle.dumps(LINE)).path(A, D) == (A, B, C, D)


PAIR = both(A, B)
NAMES = "expected 1 to 32 of a-z, 0-9 and '-', the first not '-'"
VALUES = "expected a name that tables can hold: no number, nan, null, none, inf, true or false"


@pytest.mark.parametrize(
    ("sites", "links", "message"),
    [
        (["a"], [], "sites: 1: expected 2 or more"),
        (["a", "a"], [], "site 'a': named twice"),
        (["a", "New-York"], [], f"site 'New-York': {NAMES}"),
        (["a", "-b"], [], f"site '-b': {NAMES}"),
        (["a", "b" * 33], [], f"site '{'b' * 33}': {NAMES}"),
        (["a", ""], [], f"site '': {NAMES}"),
        (
            ["a", "runner"],
            [],
            "site 'runner': expected any but controller, backup and runner, which events name",
        ),
        (["a", "01"], [], f"site '01': {VALUES}"),
        (["1e5", "b"], [], f"site '1e5': {VALUES}"),
        (["nan", "b"], [], f"site 'nan': {VALUES}"),
        (["null", "b"], [], f"site 'null': {VALUES}"),
        (
            ["a", "b"],
            [Link(A, B, 1)] * 50_001,
            "50001 directed links: expected 50000 or fewer, a full mesh of 224 sites",
        ),
        (["a", "b\n"], [], f"site 'b\\n': {NAMES}"),
        (["a", "b"], both(A, C), "link a -> c: site 'c': expected one of a, b"),
        (["a", "b"], [*PAIR, Link(A, A, 1)], "link a -> a: a site has no link to itself"),
        (["a", "b"], [*PAIR, Link(A, B, 1)], "link a -> b: given twice"),
        (
            ["a", "b"],
            [Link(A, B, 1)],
            "link a -> b: has no reverse; every link needs both directions",
        ),
        (["a", "b", "c"], PAIR, "links: c cannot be reached from a; add links"),
        (
            ["a", "b", "c", "d"],
            [*PAIR, *both(C, D)],
            "links: c, d cannot be reached from a; add links",
        ),
    ],
)
def test_an_impossible_overlay_is_refused_with_its_reason(sites, links, message):
    with pytest.raises(TopologyError) as error:
        Topology("test", tuple(map(Site, sites)), tuple(links))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate_mbps": 0.0}, "rate 0 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"rate_mbps": -5.0}, "rate -5 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"rate_mbps": float("inf")}, "rate inf Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"rate_mbps": float("nan")}, "rate nan Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"rate_mbps": 0.0001}, "rate 0.0001 Mbit/s: expected 0.001 to 1000000 Mbit/s"),
        ({"delay_ms": 60001.0}, "delay 60001 ms: expected 0 to 60000 ms"),
        ({"delay_ms": -1.0}, "delay -1 ms: expected 0 to 60000 ms"),
        ({"delay_ms": float("nan")}, "delay nan ms: expected 0 to 60000 ms"),
        ({"jitter_ms": 11.0}, "jitter 11 ms: expected 0 to the link's delay, 10 ms"),
        ({"jitter_ms": -1.0}, "jitter -1 ms: expected 0 to 2000 ms"),
        ({"jitter_ms": 3000.0, "delay_ms": 5000.0}, "jitter 3000 ms: expected 0 to 2000 ms"),
        ({"loss_percent": -0.1}, "loss -0.1 %: expected 0 to 100 %"),
        ({"loss_percent": 101.0}, "loss 101 %: expected 0 to 100 %"),
        ({"loss_percent": 100.0}, "loss 100 %: expected below 100 %; an outage stops a link"),
        (
            {"queue_bytes": 1513},
            "queue 1513 B: expected 1514 (one packet) to 1687500000, "
            "what drains in 270 s at 50 Mbit/s",
        ),
        (
            {"queue_bytes": 1_687_500_001},
            "queue 1687500001 B: expected 1514 (one packet) to 1687500000, "
            "what drains in 270 s at 50 Mbit/s",
        ),
    ],
)
def test_an_impossible_value_is_refused_with_link_value_and_range(values, message):
    with pytest.raises(TopologyError) as error:
        LINE.with_overrides([LinkOverride("a -> b", **values)])
    assert str(error.value) == f"link a -> b: {message}"
    assert error.value.key == next(iter(values))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LINE.rank("x"), "site 'x': expected one of a, b, c, d"),
        (lambda: LINE.neighbours("x"), "site 'x': expected one of a, b, c, d"),
        (lambda: LINE.next_hops("x"), "site 'x': expected one of a, b, c, d"),
        (lambda: LINE.path(A, "x"), "site 'x': expected one of a, b, c, d"),
        (lambda: LINE.link("x", A), "site 'x': expected one of a, b, c, d"),
        (lambda: LINE.link(A, C), "link a -> c: does not exist; a has links to b"),
        (
            lambda: LINE.with_overrides([LinkOverride("b <-> d", rate_mbps=1.0)]),
            "link b -> d: does not exist; b has links to a, c",
        ),
        (
            lambda: LINE.with_overrides([LinkOverride("a to b", rate_mbps=1.0)]),
            "link 'a to b': expected 'a -> b' for one direction, 'a <-> b' for both",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_what_exists(call, message):
    with pytest.raises(TopologyError) as error:
        call()
    assert str(error.value) == message


@st.composite
def overlays(draw: st.DrawFn) -> Topology:
    """Random connected overlays with few distinct delays, so that ties are common."""
    size = draw(st.integers(2, 12))
    rng = random.Random(draw(st.integers(0, 2**32)))
    delay = draw(st.sampled_from([lambda: 0.0, lambda: rng.choice((0.1, 0.2, 0.3)), rng.random]))
    names = [f"s{index}" for index in range(size)]
    edges = {(rng.randrange(index), index) for index in range(1, size)}
    for _ in range(draw(st.integers(0, 2 * size))):
        edges.add(tuple(sorted(rng.sample(range(size), 2))))
    links = [
        Link(names[src], names[dst], 10.0, delay())
        for one, other in sorted(edges)
        for src, dst in ((one, other), (other, one))
    ]
    return Topology("random", tuple(map(Site, names)), tuple(links))


@given(overlays())
def test_every_path_is_loop_free_and_follows_links_and_next_hops(overlay):
    for src in overlay.site_names:
        assert overlay.next_hops(src).keys() == set(overlay.site_names) - {src}
        for dst in overlay.site_names:
            path = overlay.path(src, dst)
            assert (path[0], path[-1]) == (src, dst)
            assert len(set(path)) == len(path)
            for here, there in pairwise(path):
                assert there in overlay.neighbours(here)
                assert overlay.next_hops(here)[dst] == there


@given(overlays())
def test_a_direct_link_is_always_the_path(overlay):
    for link in overlay.links:
        assert overlay.path(link.src, link.dst) == (link.src, link.dst)


@given(overlays())
def test_no_path_is_beaten_by_an_exhaustive_search_unless_it_ends_in_a_direct_link(overlay):
    delays = overlay.delays_ms()
    best = {(a, b): (0.0 if a == b else delays.get((a, b), float("inf")))
            for a in overlay.site_names for b in overlay.site_names}  # fmt: skip
    for via in overlay.site_names:
        for src in overlay.site_names:
            for dst in overlay.site_names:
                best[src, dst] = min(best[src, dst], best[src, via] + best[via, dst])
    for src in overlay.site_names:
        for dst in overlay.site_names:
            path = overlay.path(src, dst)
            for here, following in pairwise(path[:-1]):
                cost = delays[here, following] + best[following, dst]
                assert cost == pytest.approx(best[here, dst])


@given(overlays())
def test_the_same_overlay_gives_the_same_paths_whatever_was_asked_before(overlay):
    again = Topology(overlay.name, overlay.sites, overlay.links)
    ends = [(src, dst) for src in overlay.site_names for dst in overlay.site_names]
    asked = {pair: overlay.path(*pair) for pair in ends}
    assert {pair: again.path(*pair) for pair in reversed(ends)} == asked


def test_an_unknown_name_is_answered_with_the_first_that_resembles_it_and_some_others() -> None:
    names = [f"site-{n}" for n in range(60)]
    said = list_choices(names, "Sita-1")
    assert said.startswith("did you mean site-1? expected one of site-0, site-1, site-2, ")
    assert said.endswith(", site-39 and 20 more")
    assert list_choices(["rome", "oslo"], "kyiv") == "expected one of rome, oslo"
