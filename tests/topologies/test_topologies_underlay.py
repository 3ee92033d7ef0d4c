"""Routers, the overlay of paths through them, and access links."""

import random
from itertools import permutations

import pytest

from trunkline.topologies import Link, Site, Topology, TopologyError, explicit, file, internet2
from trunkline.topologies.rates.access import AccessLink, add_access_links, attach_sites


def both(src: str, dst: str, rate_mbps: float = 50.0, delay_ms: float = 10.0) -> list[Link]:
    return [Link(a, b, rate_mbps, delay_ms) for a, b in ((src, dst), (dst, src))]


def network(
    links: list[Link], routers: str, sites: str = "abc", pairs: tuple[tuple[str, str], ...] = ()
) -> Topology:
    return Topology("test", tuple(map(Site, sites)), tuple(links), tuple(routers), pairs)


# a - r - q - b, and c at q.
TREE = network(
    [*both("a", "r"), *both("r", "q", 20.0, 5.0), *both("q", "b"), *both("q", "c")], "rq"
)


def test_routers_have_ranks_after_the_sites() -> None:
    assert TREE.site_names == ("a", "b", "c")
    assert TREE.node_names == ("a", "b", "c", "r", "q")
    assert TREE.rank("r") == 3
    assert TREE.neighbours("q") == ("b", "c", "r")


def test_an_overlay_link_is_the_path_of_two_sites() -> None:
    overlay = TREE.overlay
    assert overlay.routers == ()
    assert overlay.neighbours("a") == ("b", "c")
    assert TREE.path("a", "b") == ("a", "r", "q", "b")
    link = overlay.link("a", "b")
    assert (link.rate_mbps, link.delay_ms, link.loss_percent) == (20.0, 25.0, 0.0)
    assert link.queue_bytes == TREE.queue_bytes(TREE.link("r", "q"))
    assert overlay.link("b", "c").rate_mbps == 50.0
    assert TREE.overlay_paths()["a", "c"] == (("a", "r"), ("r", "q"), ("q", "c"))


def test_without_routers_the_links_are_the_overlay() -> None:
    plain = Topology("plain", (Site("a"), Site("b")), tuple(both("a", "b")))
    assert plain.overlay is plain
    assert plain.overlay_paths() is None


def test_losses_of_a_path_add_up_as_probabilities() -> None:
    links = [
        Link("a", "r", 10.0, 2.0, 1.0, 10.0),
        Link("r", "a", 10.0),
        Link("r", "b", 10.0, 2.0, 0.5, 20.0),
        Link("b", "r", 10.0),
    ]
    link = network(links, "r", "ab").overlay.link("a", "b")
    assert link.loss_percent == pytest.approx(28.0)
    assert link.jitter_ms == 1.5


def test_sites_do_not_forward_where_there_are_routers() -> None:
    # The way over c would be shorter.
    links = [*both("a", "c", delay_ms=1), *both("c", "b", delay_ms=1)]
    links += [*both("a", "r"), *both("r", "b"), *both("r", "c")]
    assert network(links, "r").path("a", "b") == ("a", "r", "b")
    with pytest.raises(
        TopologyError, match=r"b cannot be reached from a through routers: add .* or give pairs"
    ):
        network([*both("a", "c"), *both("c", "b"), *both("c", "r")], "r")


def test_the_overlay_may_connect_some_pairs_only() -> None:
    chosen = network(list(TREE.links), "rq", pairs=(("a", "b"), ("c", "a")))
    assert chosen.overlay.neighbours("a") == ("b", "c")
    assert chosen.overlay.neighbours("b") == ("a",)
    for pairs, text in (
        ((("a", "r"),), "pair 'r': expected one of a, b, c"),
        ((("a", "b"), ("b", "a")), "given twice"),
        ((("a", "a"),), "pair a - a: expected two sites"),
        ((("a", "b"),), "pairs: c cannot be reached from a; add pairs"),
    ):
        with pytest.raises(TopologyError, match=text):
            network(list(TREE.links), "rq", pairs=pairs)


def test_without_routers_pairs_choose_connections_and_sites_forward() -> None:
    mesh = network(
        [*both("a", "b"), *both("b", "c"), *both("a", "c")], "", pairs=(("a", "b"), ("b", "c"))
    )
    assert mesh.overlay.neighbours("a") == ("b",)
    line = network([*both("a", "b"), *both("b", "c")], "", pairs=(("a", "b"), ("c", "a")))
    assert line.overlay_paths()["a", "c"] == (("a", "b"), ("b", "c"))
    assert line.overlay.link("a", "c").delay_ms == 20.0
    again = explicit.build(random.Random(), **explicit.options(line))
    assert again.pairs == line.pairs
    narrow = add_access_links(line, [AccessLink(5.0, 5.0, ("a",))])
    assert narrow.overlay.neighbours("a") == ("b", "c")


STAR = Topology(
    "star",
    tuple(map(Site, ("hub", "phone", "tablet"))),
    (*both("hub", "phone"), *both("hub", "tablet")),
)


def test_a_star_whose_clients_alone_have_access_links_keeps_its_connections() -> None:
    found = add_access_links(STAR, [AccessLink(5.0, 20.0, ("phone", "tablet"), 3.0)])
    assert found.overlay.neighbours("phone") == ("hub",)
    assert found.path("phone", "hub") == ("phone", "phone-gw", "hub")
    assert found.overlay.link("phone", "hub").delay_ms == 13.0
    # Packets of both, which no connection needs, cross the hub, as without access links.
    assert found.path("phone", "tablet") == ("phone", "phone-gw", "hub", "tablet-gw", "tablet")


@pytest.mark.parametrize(
    "plain",
    [file.build(random.Random(1), file="os3e"), internet2.build(random.Random(1))],
    ids=["os3e", "internet2"],
)
def test_any_one_site_of_a_sparse_network_may_have_an_access_link(plain: Topology) -> None:
    pairs = {(link.src, link.dst) for link in plain.links}
    for site in plain.site_names:
        found = add_access_links(plain, [AccessLink(5.0, 20.0, (site,))])
        assert {(link.src, link.dst) for link in found.overlay.links} == pairs
        for link in plain.links:
            assert found.path_delay_ms(link.src, link.dst) == link.delay_ms
        for src, dst in permutations(plain.site_names, 2):
            walked = found.path(src, dst)
            assert len(set(walked)) == len(walked)


@pytest.mark.parametrize(
    ("routers", "text"),
    [
        ("a", "named twice"),
        ("rr", "named twice"),
        (("controller",), "which events name"),
        ("R", "expected"),
    ],
)
def test_names_of_routers_are_checked(routers: str, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        network([*both("a", "b"), *both("b", "c")], routers)


def test_a_resolved_topology_with_routers_reads_back_the_same() -> None:
    for topology in (TREE, network(list(TREE.links), "rq", pairs=(("a", "b"), ("c", "a")))):
        again = explicit.build(random.Random(), **explicit.options(topology))
        assert (again.routers, again.pairs) == (topology.routers, topology.pairs)
        assert again.overlay.delays_ms() == topology.overlay.delays_ms()
        assert [link.rate_mbps for link in again.links] == [x.rate_mbps for x in topology.links]


MESH = Topology(
    "mesh",
    tuple(map(Site, "abc")),
    tuple(link for pair in ("ab", "bc", "ac") for link in both(*pair, rate_mbps=1000.0)),
)


def test_all_traffic_of_a_site_crosses_its_access_link() -> None:
    found = add_access_links(MESH, [AccessLink(10.0, 30.0, ("a",), 2.0)])
    assert found.routers == ("a-gw",)
    assert found.neighbours("a") == ("a-gw",)
    assert found.path("a", "b") == ("a", "a-gw", "b")
    assert found.path("b", "c") == ("b", "c")
    assert found.overlay.link("a", "b").rate_mbps == 10.0
    assert found.overlay.link("b", "a").rate_mbps == 30.0
    assert found.overlay.link("b", "a").delay_ms == 12.0
    assert found.overlay.link("b", "c").rate_mbps == 1000.0


def test_the_queue_of_an_access_link_holds_what_the_longest_round_trip_needs() -> None:
    found = add_access_links(MESH, [AccessLink(100.0, 300.0, ("a",), 2.0)])
    assert found.link("a", "a-gw").queue_bytes == 100 * 125 * 24
    assert found.link("a-gw", "a").queue_bytes == 300 * 125 * 24
    given = add_access_links(MESH, [AccessLink(100.0, 300.0, ("a",), queue_bytes=70_000)])
    assert given.link("a-gw", "a").queue_bytes == 70_000


def test_one_entry_may_be_for_all_other_sites() -> None:
    found = add_access_links(MESH, [AccessLink(10.0, 10.0, ("b",)), AccessLink(5.0, 5.0)])
    rates = {site: found.link(site, f"{site}-gw").rate_mbps for site in "abc"}
    assert rates == {"a": 5.0, "b": 10.0, "c": 5.0}
    assert found.path("a", "c") == ("a", "a-gw", "c-gw", "c")


def test_the_overlay_keeps_its_pairs() -> None:
    line = Topology("line", tuple(map(Site, "abc")), (*both("a", "b"), *both("b", "c")))
    found = add_access_links(line, [AccessLink(5.0, 5.0)])
    assert found.overlay.neighbours("a") == ("b",)
    assert add_access_links(line, []) is line


RING = Topology(
    "ring", tuple(map(Site, "abcd")), tuple(x for p in ("ab", "bc", "cd", "da") for x in both(*p))
)


def test_some_nodes_of_a_network_have_a_site_and_the_others_forward() -> None:
    found = attach_sites(RING, ["c", "a"])
    assert found.site_names == ("c", "a")
    assert found.routers == ("a-gw", "b", "c-gw", "d")
    assert found.path("c", "a") == ("c", "c-gw", "b", "a-gw", "a")
    assert found.overlay.neighbours("c") == ("a",)
    assert found.link("a", "a-gw").rate_mbps == 100.0
    assert found.overlay.link("a", "c").delay_ms == 20.0
    for names, text in ((["a", "x"], "'x': expected one of a, b"), (["a", "a"], "named twice")):
        with pytest.raises(TopologyError, match=text):
            attach_sites(RING, names)


def test_an_access_link_replaces_that_of_an_attached_site() -> None:
    found = add_access_links(attach_sites(RING, ["a", "c"]), [AccessLink(5.0, 6.0, ("a",))])
    assert found.routers == ("a-gw", "b", "c-gw", "d")
    assert found.overlay.link("a", "c").rate_mbps == 5.0
    assert found.overlay.link("c", "a").rate_mbps == 6.0


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([AccessLink(1, 1), AccessLink(2, 2)], "only one entry may be without sites"),
        ([AccessLink(1, 1, ("x",))], "site 'x': expected one of a, b, c"),
        ([AccessLink(1, 1, ("a",)), AccessLink(1, 1, ("a",))], "site 'a': named twice"),
        ([AccessLink(0.0, 1, ("a",))], "rate 0 Mbit/s"),
    ],
)
def test_wrong_access_links_are_refused(entries: list[AccessLink], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        add_access_links(MESH, entries)
