import inspect
import random
import re
import subprocess
import sys
import tracemalloc
from collections import Counter
from importlib import resources
from statistics import median
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from trunkline.topologies import (
    Link,
    TopologyError,
    explicit,
    find_builders,
    full_mesh,
    internet2,
    star,
)
from trunkline.topologies.link_options import draw_n1, draw_n2
from trunkline.topologies.rates.matrix import load_matrix


def rng(seed: int = 1) -> random.Random:
    return random.Random(seed)


THREE = {"ireland": "aws:eu-west-1", "stockholm": "aws:eu-north-1", "iowa": "gcp:us-central1"}

# --- found by name, checked by signature


def test_builders_are_found_by_the_names_of_their_files():
    assert list(find_builders()) == sorted(find_builders())
    assert {"explicit", "file", "full_mesh", "internet2", "racks", "star"} <= {*find_builders()}


@pytest.mark.parametrize("name", find_builders())
def test_a_builders_options_are_keyword_only_and_typed(name):
    module = find_builders()[name]
    first, *options = inspect.signature(module.build).parameters.values()
    hints = get_type_hints(module.build)
    assert first.name == "rng"
    assert options
    for option in options:
        assert option.kind is option.KEYWORD_ONLY
        TypeAdapter(hints[option.name])
    assert module.__doc__


@pytest.mark.parametrize("name", ["full_mesh", "internet2", "racks", "star"])
def test_a_builder_needs_no_option_and_repeats_itself_by_seed(name):
    build = find_builders()[name].build
    assert build(rng(7)) == build(rng(7))
    assert build(rng(7)).name == name


def test_importing_every_builder_needs_nothing_but_the_standard_library():
    program = (
        "import sys; import topologies; topologies.find_builders();"
        "print(sorted({'mininet', 'numpy', 'pydantic', 'networkx'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- internet2


def test_internet2_has_the_papers_thirteen_edges_in_both_directions():
    built = internet2.build(rng())
    edges = {(link.src, link.dst) for link in built.links}
    paper = [
        ("n1", "n2"), ("n1", "n3"), ("n2", "n3"), ("n2", "n5"), ("n3", "n4"), ("n4", "n5"),
        ("n4", "n6"), ("n5", "n7"), ("n6", "n7"), ("n6", "n8"), ("n6", "n9"), ("n7", "n8"),
        ("n8", "n9"),
    ]  # fmt: skip
    assert built.site_names == ("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9")
    assert edges == set(paper) | {(dst, src) for src, dst in paper}
    assert len(built.links) == 26


@pytest.mark.parametrize(
    ("count", "edges", "last"),
    [(5, 6, {("n4", "n5")}), (8, 11, {("n7", "n8")}), (15, 25, {("n13", "n15"), ("n14", "n15")})],
)
def test_internet2_is_cut_off_or_goes_on_for_other_numbers_of_sites(count, edges, last):
    built = internet2.build(rng(), sites=count)
    pairs = [(link.src, link.dst) for link in built.links]
    assert (len(built.sites), len(pairs)) == (count, 2 * edges)
    assert last <= set(pairs)
    assert all(built.path("n1", site.name) for site in built.sites[1:])


def test_internet2_draws_each_directions_rate_and_has_the_papers_delay_and_loss():
    links = internet2.build(rng(1)).links
    assert links[0] == Link("n1", "n2", 38.13917295517416, 30.0, loss_percent=0.02)
    assert links[1] == Link("n2", "n1", 134.40355448652642, 30.0, loss_percent=0.02)
    assert all(20 <= link.rate_mbps <= 155 for link in links)
    assert len({link.rate_mbps for link in links}) == 26
    assert {(link.delay_ms, link.loss_percent) for link in links} == {(30.0, 0.02)}


def test_internet2_routes_between_its_far_ends_over_the_fewest_hops():
    assert internet2.build(rng()).path("n1", "n9") == ("n1", "n3", "n4", "n6", "n9")


def test_internet2_takes_other_names_and_every_other_option():
    built = internet2.build(
        rng(), sites=list("abcdefghi"), rates_mbps=50.0, delays_ms=(5.0, 10.0), jitter_ms=1.0,
        loss_percent=0.0, queue_bytes=100_000,
    )  # fmt: skip
    assert {link.rate_mbps for link in built.links} == {50.0}
    assert all(5 <= link.delay_ms <= 10 for link in built.links)
    assert {(x.jitter_ms, x.loss_percent, x.queue_bytes) for x in built.links} == {
        (1.0, 0.0, 100_000)
    }
    assert built.neighbours("f") == ("d", "g", "h", "i")


# --- star


def test_a_star_links_its_first_site_to_all_others():
    built = star.build(rng(), sites=4)
    assert [(link.src, link.dst) for link in built.links] == [
        ("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("n3", "n1"), ("n1", "n4"), ("n4", "n1"),
    ]  # fmt: skip
    assert built.links[0] == Link("n1", "n2", 100.0, 30.0)
    assert built.path("n2", "n4") == ("n2", "n1", "n4")


def test_a_stars_hub_can_be_any_site():
    built = star.build(rng(), sites=["a", "b", "c"], hub="c", rates_mbps=5.0)
    assert built.site_names == ("a", "b", "c")
    assert built.neighbours("c") == ("a", "b")
    assert built.neighbours("a") == ("c",)


# --- full_mesh


def test_a_full_mesh_links_every_ordered_pair():
    built = full_mesh.build(rng(), sites=3, rates_mbps=50.0)
    assert built.links == (
        Link("n1", "n2", 50.0, 30.0), Link("n1", "n3", 50.0, 30.0), Link("n2", "n1", 50.0, 30.0),
        Link("n2", "n3", 50.0, 30.0), Link("n3", "n1", 50.0, 30.0), Link("n3", "n2", 50.0, 30.0),
    )  # fmt: skip


def test_a_full_mesh_of_regions_has_their_measured_rates_and_half_their_round_trips():
    built = full_mesh.build(rng(), sites=THREE, rates_mbps="intercloud")
    assert [site.region for site in built.sites] == list(THREE.values())
    assert built.rates_mbps() == {
        ("ireland", "stockholm"): 166.25, ("ireland", "iowa"): 220.2,
        ("stockholm", "ireland"): 165.41, ("stockholm", "iowa"): 189.32,
        ("iowa", "ireland"): 67.9, ("iowa", "stockholm"): 56.83,
    }  # fmt: skip
    assert built.delays_ms() == {
        ("ireland", "stockholm"): 21.4585, ("ireland", "iowa"): 52.763,
        ("stockholm", "ireland"): 21.368, ("stockholm", "iowa"): 61.666,
        ("iowa", "ireland"): 52.281, ("iowa", "stockholm"): 61.91,
    }  # fmt: skip


def test_a_list_of_regions_names_its_sites():
    built = full_mesh.build(rng(), sites=list(THREE.values()), delays_ms="intercloud")
    assert built.site_names == ("aws-eu-west-1", "aws-eu-north-1", "gcp-us-central1")
    assert built.link("aws-eu-west-1", "gcp-us-central1").delay_ms == 52.763
    assert built.link("aws-eu-west-1", "gcp-us-central1").rate_mbps % 25 == 0


def test_skyplanes_regions_may_be_given_with_or_without_their_zone():
    sites = {"a": "gcp:us-east1", "b": "azure:eastus"}
    zoned = {"a": "gcp:us-east1-b", "b": "azure:eastus"}
    bare = full_mesh.build(rng(), sites=sites, rates_mbps="skyplane")
    assert bare.links == full_mesh.build(rng(), sites=zoned, rates_mbps="skyplane").links
    assert bare.link("a", "b") == Link("a", "b", 7005.7, 7.9655)


def test_measured_rates_take_other_delays():
    built = full_mesh.build(rng(), sites=THREE, rates_mbps="intercloud", delays_ms=5.0)
    assert set(built.delays_ms().values()) == {5.0}


def test_a_matrix_of_ones_own_sets_each_direction():
    built = full_mesh.build(
        rng(), sites=["a", "b"], rates_mbps={"a": {"b": 10.0}, "b": {"a": 20.0}},
        delays_ms={"a": {"b": 1.0}, "b": {"a": 2.0}},
    )  # fmt: skip
    assert built.links == (Link("a", "b", 10.0, 1.0), Link("b", "a", 20.0, 2.0))


def test_a_range_is_drawn_independently_for_each_direction():
    links = full_mesh.build(rng(), sites=8, rates_mbps=(20.0, 155.0), delays_ms=(1.0, 9.0)).links
    assert len({link.rate_mbps for link in links}) == len({link.delay_ms for link in links}) == 56
    assert all(20 <= link.rate_mbps <= 155 and 1 <= link.delay_ms <= 9 for link in links)


def test_drawing_delays_leaves_the_rates_of_a_seed_alone():
    assert (
        full_mesh.build(rng(3), delays_ms=(1.0, 9.0)).rates_mbps()
        == full_mesh.build(rng(3), delays_ms=30.0).rates_mbps()
    )


def test_a_range_may_come_as_a_list():
    build = full_mesh.build
    assert build(rng(), rates_mbps=[20.0, 30.0]) == build(rng(), rates_mbps=(20.0, 30.0))


def test_another_seed_gives_other_rates():
    assert full_mesh.build(rng(1)).links != full_mesh.build(rng(2)).links


def test_n2_draws_whole_multiples_of_25_from_a_normal_distribution_around_125():
    source = rng(5)
    draws = Counter(round(draw_n2(source) / 25) for _ in range(20_000))
    expected = {3: 0.0606, 4: 0.2417, 5: 0.3829, 6: 0.2417, 7: 0.0606}  # areas of N(5, 1)
    assert draws.keys() <= set(range(1, 11))
    for k, share in expected.items():
        assert draws[k] / 20_000 == pytest.approx(share, abs=0.012)  # over three deviations


def test_n1_draws_rates_that_were_measured_between_regions_of_ec2():
    source = rng(5)
    draws = [draw_n1(source) for _ in range(20_000)]
    rates = load_matrix("intercloud").rates_mbps
    measured = [
        rate
        for (src, dst), rate in rates.items()
        if src.startswith("aws:") and dst.startswith("aws:")
    ]
    assert len(measured) == 228
    assert set(draws) == set(measured)
    assert median(draws) == pytest.approx(median(measured), rel=0.05)
    assert set(full_mesh.build(rng(5), rates_mbps="n1").rates_mbps().values()) <= set(measured)


def test_n2_redraws_what_falls_outside():
    class Scripted(random.Random):
        samples = iter([0.4, 10.6, -3.0, 5.4])

        def normalvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
            assert (mu, sigma) == (5.0, 1.0)
            return next(self.samples)

    assert draw_n2(Scripted()) == 125.0


# --- explicit


def test_an_explicit_topology_is_taken_as_it_is():
    links = [Link("a", "b", 10.0, 1.0), Link("b", "a", 20.0, 2.0)]
    built = explicit.build(rng(), name="pair", sites=["a", "b"], links=links)
    assert (built.name, built.site_names, built.links) == ("pair", ("a", "b"), tuple(links))


@pytest.mark.parametrize(
    "built",
    [
        full_mesh.build(rng(), sites=THREE, rates_mbps="intercloud"),
        internet2.build(rng()),
        star.build(rng(), jitter_ms=1.5, queue_bytes=4000),
    ],
    ids=lambda built: built.name,
)
def test_a_topology_written_out_and_built_again_is_the_same(built):
    options = explicit.options(built)
    again = explicit.build(rng(), **options)
    assert (again.name, again.sites) == (built.name, built.sites)
    assert [again.queue_bytes(link) for link in again.links] == [
        built.queue_bytes(link) for link in built.links
    ]
    assert (again.rates_mbps(), again.delays_ms()) == (built.rates_mbps(), built.delays_ms())
    assert explicit.options(again) == options


# --- data


def test_the_measured_matrices_have_the_regions_and_pairs_that_their_page_says():
    intercloud, skyplane = load_matrix("intercloud"), load_matrix("skyplane")
    assert (len(intercloud.regions), len(intercloud.rates_mbps)) == (45, 1556)
    assert (len(skyplane.regions), len(skyplane.rates_mbps)) == (63, 3906)
    assert len(intercloud.round_trips_ms) == 1556
    assert len(skyplane.round_trips_ms) == 3906 - 366
    without = {r for pair in skyplane.rates_mbps.keys() - skyplane.round_trips_ms for r in pair
               if not any(r in known for known in skyplane.round_trips_ms)}  # fmt: skip
    assert without == {"aws:eu-west-3", "azure:eastus2", "azure:westus2"}


def sets_of_the_data_page() -> list[list[str]]:
    """Lines such as "  - without ... (29): `aws:` eu-west-1, ...; `gcp:` us-west1, ..."."""
    page = resources.files("trunkline.topologies").joinpath("data", "README.md").read_text()
    lists = re.findall(r"^  - with.*?: (`aws:` .*); (`gcp:` .*)$", page, flags=re.MULTILINE)
    return [
        [cloud[1:5] + region for cloud in clouds for region in cloud[7:].split(", ")]
        for clouds in lists
    ]


def test_the_large_sets_of_the_data_page_have_no_gaps():
    for regions in sets_of_the_data_page():
        built = full_mesh.build(rng(), sites=regions, rates_mbps="intercloud")
        assert len(built.links) == len(regions) * (len(regions) - 1)
    assert [len(regions) for regions in sets_of_the_data_page()] == [29, 24]


def test_an_empty_round_trip_is_taken_from_the_reverse_direction_but_a_rate_never():
    lopsided = type(load_matrix("skyplane"))(
        "lopsided", {("a", "b"): 10.0}, {("b", "a"): 8.0}, frozenset("ab")
    )
    assert lopsided.delays([("a", "b")]) == [4.0]
    with pytest.raises(TopologyError, match="'lopsided' has no rate for b -> a"):
        lopsided.rates([("a", "b"), ("b", "a")])


# --- refusals

AWS = ["aws:us-east-1", "aws:ap-northeast-1"]
KINDS = "a number, [low, high], a CSV file or a value for each link"


@pytest.mark.parametrize(
    ("build", "options", "key", "message"),
    [
        (full_mesh.build, {"sites": 1}, "sites", "sites: 1: expected 2 to 10000"),
        (full_mesh.build, {"sites": 10001}, "sites", "sites: 10001: expected 2 to 10000"),
        (full_mesh.build, {"sites": []}, "sites", "sites: 0: expected 2 to 10000"),
        (full_mesh.build, {"sites": ["a", "a"]}, "sites", "site 'a': named twice"),
        (
            full_mesh.build, {"sites": AWS, "rates_mbps": "intercloud"}, "rates_mbps",
            "'intercloud' has no rate for aws:us-east-1 -> aws:ap-northeast-1, aws:ap-northeast-1 "
            "-> aws:us-east-1: choose other regions (topologies/data/README.md lists sets without "
            "gaps), the matrix 'skyplane', which has all of them, or give the numbers explicitly",
        ),
        (
            full_mesh.build, {"sites": AWS, "delays_ms": "intercloud"}, "delays_ms",
            "'intercloud' has no round trip for aws:us-east-1 -> aws:ap-northeast-1, "
            "aws:ap-northeast-1 -> aws:us-east-1: choose other regions "
            "(topologies/data/README.md lists sets without gaps), the matrix 'skyplane', which has "
            "all of them, or give the numbers explicitly",
        ),
        (
            full_mesh.build,
            {"sites": ["aws:eu-west-3", "azure:eastus2", "azure:westus2"],
             "rates_mbps": "skyplane"},
            "delays_ms",
            "'skyplane' has no round trip for aws:eu-west-3 -> azure:eastus2, aws:eu-west-3 -> "
            "azure:westus2, azure:eastus2 -> aws:eu-west-3 and 3 more pairs: choose other regions "
            "(topologies/data/README.md lists sets without gaps), another matrix, or give the "
            "numbers explicitly",
        ),
        (
            full_mesh.build, {"sites": 3, "rates_mbps": "intercloud"}, "rates_mbps",
            "rates_mbps: 'intercloud' needs a measured region for every site; n1, n2, n3 have "
            "none: give sites as {name: 'aws:us-east-1', ...} or as a list of regions",
        ),
        (
            full_mesh.build, {"rates_mbps": "n3"}, "rates_mbps",
            f"rates_mbps: 'n3': expected one of n1, n2, intercloud, skyplane, {KINDS}",
        ),
        (
            full_mesh.build, {"delays_ms": "n2"}, "delays_ms",
            f"delays_ms: 'n2': expected one of intercloud, skyplane, {KINDS}",
        ),
        (
            full_mesh.build, {"rates_mbps": (155.0, 20.0)}, "rates_mbps",
            "rates_mbps: [155.0, 20.0]: expected [low, high], 0 <= low <= high",
        ),
        (
            full_mesh.build, {"rates_mbps": [1.0, 2.0, 3.0]}, "rates_mbps",
            "rates_mbps: [1.0, 2.0, 3.0]: expected [low, high], 0 <= low <= high",
        ),
        (
            full_mesh.build, {"delays_ms": (-1.0, 20.0)}, "delays_ms",
            "delays_ms: [-1.0, 20.0]: expected [low, high], 0 <= low <= high",
        ),
        (
            full_mesh.build, {"sites": ["a", "b"], "rates_mbps": {"a": {"b": 1.0}}}, "rates_mbps",
            "rates_mbps: no value for b -> a; give each link exactly one",
        ),
        (
            star.build,
            {"sites": ["a", "b"],
             "delays_ms": {"a": {"b": 1.0, "c": 1.0}, "b": {"a": 1.0}}},
            "delays_ms",
            "delays_ms: no such link: a -> c; give each link exactly one",
        ),
        (
            full_mesh.build, {"rates_mbps": 0.0}, "rates_mbps",
            "link n1 -> n2: rate 0 Mbit/s: expected 0.001 to 1000000 Mbit/s",
        ),
        (
            full_mesh.build, {"delays_ms": -1.0}, "delays_ms",
            "link n1 -> n2: delay -1 ms: expected 0 to 60000 ms",
        ),
        (
            full_mesh.build, {"loss_percent": 100.0}, "loss_percent",
            "link n1 -> n2: loss 100 %: expected below 100 %; an outage stops a link",
        ),
        (
            star.build, {"jitter_ms": 31.0}, "jitter_ms",
            "link n1 -> n2: jitter 31 ms: expected 0 to the link's delay, 30 ms",
        ),
        (
            star.build, {"queue_bytes": 100}, "queue_bytes",
            "link n1 -> n2: queue 100 B: expected 1514 (one packet) to 3375000000, "
            "what drains in 270 s at 100 Mbit/s",
        ),
        (star.build, {"sites": 3, "hub": "n9"}, "hub", "hub: 'n9': expected one of n1, n2, n3"),
        (star.build, {"sites": []}, "sites", "sites: 0: expected 2 to 10000"),
        (internet2.build, {"sites": 16}, "sites", "sites: 16: expected 5 to 15"),
        (
            explicit.build, {"sites": ["a", "b"], "links": []}, "links",
            "links: b cannot be reached from a; add links",
        ),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_with_its_name_value_and_what_is_allowed(
    build, options, key, message
):
    with pytest.raises(TopologyError) as error:
        build(rng(), **options)
    assert str(error.value) == message
    assert error.value.key == key


def test_an_unknown_region_is_refused_with_its_nearest_and_all_regions():
    with pytest.raises(TopologyError) as error:
        full_mesh.build(rng(), sites=["aws:us-east1", "aws:us-west-2"], rates_mbps="intercloud")
    message = str(error.value)
    assert message.startswith(
        "region 'aws:us-east1': not in 'intercloud'; nearest are aws:us-east-1, aws:us-west-1, "
    )
    assert message.endswith("gcp:us-west3, gcp:us-west4")
    assert error.value.key == "rates_mbps"


# --- properties

RATES = st.one_of(
    st.floats(0.1, 1e4), st.tuples(st.floats(0.1, 50), st.floats(50, 1e4)), st.just("n2")
)
DELAYS = st.one_of(st.floats(0, 1e3), st.tuples(st.floats(0, 50), st.floats(50, 1e3)))


@given(st.sampled_from([full_mesh, star]), st.integers(2, 9), RATES, DELAYS, st.integers())
def test_every_built_overlay_connects_every_pair_and_repeats_by_seed(
    module, sites, rates_mbps, delays_ms, seed
):
    options = {"sites": sites, "rates_mbps": rates_mbps, "delays_ms": delays_ms}
    built = module.build(random.Random(seed), **options)
    assert built == module.build(random.Random(seed), **options)
    assert len(built.links) == (sites * (sites - 1) if module is full_mesh else 2 * (sites - 1))
    for src in built.site_names:
        assert built.next_hops(src).keys() == set(built.site_names) - {src}


def test_a_mesh_that_is_too_large_is_refused_before_its_links_take_memory():
    tracemalloc.start()
    with pytest.raises(TopologyError, match="8997000 directed links: expected 50000 or fewer"):
        full_mesh.build(rng(), sites=3000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
