"""Algorithm 3 and the two bounds of a path queue, against what can be worked out by hand."""

import itertools

import pytest
from hypothesis import given
from overlays import overlays

from trunkline.agents.planning.auxiliary_paths import (
    Bounds,
    PathQueue,
    PathQueues,
    find_disjoint_paths,
)

KITE = {
    ("s", "t"): 50.0,
    ("s", "m"): 100.0,
    ("m", "t"): 40.0,
    ("s", "k"): 10.0,
    ("k", "m"): 100.0,
    ("k", "t"): 10.0,
    ("t", "s"): 1.0,
}
"""1 / rate: s -> t 0.02, s -> m -> t 0.035, s -> k -> t 0.2 and, through m, 0.135."""

DIRECT, BY_M, BY_K = ("s", "t"), ("s", "m", "t"), ("s", "k", "t")


def test_paths_are_found_by_delay_each_without_the_links_of_those_before():
    found = find_disjoint_paths([("s", "t"), ("t", "s"), ("m", "s"), ("t", "k")], KITE)
    assert found == {
        ("s", "t"): (DIRECT, BY_M, BY_K),  # k -> m -> t is faster, but m -> t is in use
        ("t", "s"): (("t", "s"),),
        ("m", "s"): (("m", "t", "s"),),
        ("t", "k"): (("t", "s", "k"),),
    }


def test_a_pair_that_nothing_connects_has_no_path():
    assert find_disjoint_paths([("t", "x"), ("m", "k")], {("s", "t"): 1.0, ("m", "t"): 1.0}) == {
        ("t", "x"): (),
        ("m", "k"): (),
    }


@given(overlays())
def test_no_two_paths_of_a_pair_share_a_link_and_none_is_faster_than_one_before(rates):
    sites = sorted({site for link in rates for site in link})
    for (src, dst), paths in find_disjoint_paths(itertools.permutations(sites, 2), rates).items():
        hops = [hop for path in paths for hop in itertools.pairwise(path)]
        assert len(set(hops)) == len(hops)
        assert set(hops) <= rates.keys()
        delays = [sum(1 / rates[hop] for hop in itertools.pairwise(path)) for path in paths]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(delays))
        for path in paths:
            assert (path[0], path[-1], len(set(path))) == (src, dst, len(path))


def path_queue(busy=2, length=1, others=(DIRECT, BY_M, BY_K), primary=DIRECT):
    return PathQueue(primary, Bounds(busy, length), others)


def sent(path_queue, items):
    """What goes at once, as (path, item)."""
    for item in items:
        path_queue.push(item, item)
    return [(path, item) for path, _, item in iter(path_queue.take_next, None)]


def test_chunks_take_the_primary_path_until_it_is_busy_and_then_the_fastest_free_one():
    full = path_queue()
    assert sent(full, range(7)) == [(DIRECT, 0), (DIRECT, 1), (DIRECT, 2), (BY_M, 3), (BY_K, 4)]
    assert [item for _, item in full.waiting] == [5, 6]


@pytest.mark.parametrize(("path", "item"), [(DIRECT, 1), (BY_M, 3), (BY_K, 4)])
def test_what_waits_takes_the_first_path_that_has_room_again(path, item):
    full = path_queue()
    sent(full, range(7))
    full.release(path, item)
    assert full.take_next() == (path, 5, 5)
    assert full.take_next() is None


def test_bounds_are_of_chunks_per_path():
    assert [path for path, _ in sent(path_queue(busy=0, length=2), range(9))] == [
        *[DIRECT],
        *[BY_M, BY_M],
        *[BY_K, BY_K],
    ]


def test_a_path_that_shares_a_link_with_the_primary_one_is_no_auxiliary_one():
    # The plan's edge goes by m, which the newest paths no longer have first.
    assert [path for path, _ in sent(path_queue(0, 1, primary=BY_M), range(9))] == [
        BY_M,
        DIRECT,
        BY_K,
    ]
    shared = (("s", "m", "k", "t"), BY_K)
    assert [path for path, _ in sent(path_queue(0, 1, shared, BY_M), range(9))] == [BY_M, BY_K]


def test_new_paths_hold_for_what_is_sent_next():
    switched = path_queue(busy=0)
    sent(switched, range(3))
    switched.others = (DIRECT, ("s", "m", "k", "t"))
    assert sent(switched, range(3, 9)) == [(("s", "m", "k", "t"), 3)]
    switched.release(BY_M, 1)  # of no concern any more
    assert switched.take_next() is None


def test_what_is_dropped_holds_no_place_and_only_what_waited_is_returned():
    full = path_queue()
    sent(full, range(8))
    assert full.drop(lambda item: item in (1, 3, 5, 6)) == [5, 6]
    assert sent(full, []) == [(DIRECT, 7)]
    full.release(BY_M, 3)
    assert sent(full, [8, 9]) == [(BY_M, 8)]


def test_an_item_that_is_unknown_on_a_path_is_no_matter():
    full = path_queue()
    full.release(BY_K, 17)
    sent(full, range(6))
    full.release(BY_M, 17)
    assert full.take_next() is None


def test_path_queues_send_on_as_soon_as_there_is_room_however_soon_that_is():
    went = []
    queues = PathQueues(
        Bounds(0, 1), lambda path, item: went.append((path, item)), {DIRECT: (DIRECT, BY_M)}
    )

    def left_at_once(path, item):
        went.append((path, item))
        queues.release(item)

    for item in range(4):
        queues.put(DIRECT, item, item)
    assert went == [(DIRECT, 0), (BY_M, 1)]
    queues.release(1)
    assert went[2:] == [(BY_M, 2)]
    queues.go = left_at_once
    for item in range(4, 5000):
        queues.put(DIRECT, item, item)
    queues.release(0)
    assert went[3:] == [(DIRECT, item) for item in range(3, 5000)]


def test_path_queues_of_different_edges_do_not_share_bounds_and_learn_new_paths():
    went = []
    queues = PathQueues(Bounds(0, 1), lambda path, item: went.append((path, item)))
    for item, edge in enumerate([DIRECT, DIRECT, BY_K, BY_K]):
        queues.put(edge, item, item)
    assert went == [(DIRECT, 0), (BY_K, 2)]
    queues.switch({("s", "t"): (DIRECT, BY_M, BY_K)})
    assert went[2:] == [(BY_M, 1), (DIRECT, 3)]
    assert queues.drop(lambda item: True) == []
    queues.release(1)  # it is forgotten
    queues.put(DIRECT, 5, 5)
    assert went[4:] == [(DIRECT, 5)]
