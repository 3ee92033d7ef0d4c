"""Names on the map of a run's page."""

import math
import random
import re
from itertools import permutations
from typing import Any

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from three_sites import history

from trunkline.harness.report.overlay import overlay_section
from trunkline.harness.report.overlay.map_labels import (
    Name,
    are_apart,
    name_nodes,
    place_names,
)
from trunkline.harness.report.overlay.site_layout import place_sites
from trunkline.topologies import file
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology


def build(**options: Any) -> Topology:
    return file.build(random.Random(1), file="os3e", **options)


def test_a_name_stands_above_its_dot_or_below_it_in_the_lower_half() -> None:
    names = [Name("a", (100.0, 50.0), 9, 13, 0.62), Name("b", (100.0, 350.0), 9, 13, 0.62, True)]
    high, low = (label for label in place_names(names, 900, 400) if label)
    assert (high.x, high.anchor, low.x, low.anchor) == (100.0, "middle", 100.0, "middle")
    assert high.y < 50
    assert low.y > 350


def test_names_of_neighbours_give_way_to_each_other() -> None:
    names = [Name("a-long-name", (100.0 + 30 * n, 50.0), 9, 13, 0.62) for n in range(3)]
    labels = place_names(names, 900, 400)
    assert all(labels)
    assert are_apart(labels, names)


def test_a_name_at_the_edge_is_not_cut() -> None:
    (label,) = place_names([Name("a-long-name", (12.0, 50.0), 9, 13, 0.62)], 900, 400)
    assert label is not None
    assert label.box[0] >= 0


def test_a_router_between_sites_without_room_has_no_name_and_the_sites_have() -> None:
    sites = [
        Name("site", (100.0 + dx, 100.0 + dy), 9, 13, 0.62)
        for dx in (-25, 0, 25)
        for dy in (-20, 0, 20)
        if (dx, dy) != (0, 0)
    ]
    router = Name("router-with-a-name", (100.0, 100.0), 5, 11.5, 0.56, needed=False)
    labels = place_names([*sites, router], 200, 200)
    assert all(labels[:-1])
    assert labels[-1] is None


@pytest.mark.parametrize(
    "options",
    [
        {"sites": ["chicago", "seattle"], "sites_per_node": 3, "hub": "chicago-1"},
        {"sites": ["chicago", "new-york", "boston", "miami"]},
        {},
    ],
)
def test_names_on_the_map_of_a_real_network_cover_nothing(options: dict[str, Any]) -> None:
    topology = build(**options)
    found, _ = place_sites(topology, 752, 312, 74)
    at = {name: (x + 104, y + 64) for name, (x, y) in zip(topology.node_names, found, strict=True)}
    names = name_nodes(topology, at, 960, 440)
    assert set(topology.site_names) <= names.labels.keys()
    assert are_apart(list(names.labels.values()), [])
    assert names.left_out <= 4
    assert not names.is_small


@pytest.mark.parametrize("options", [{}, {"sites": ["chicago", "new-york", "seattle", "miami"]}])
def test_names_of_a_wide_font_cover_no_dot_on_the_map_of_a_page(
    options: dict[str, Any],
) -> None:
    topology = build(**options)
    drawn = "".join(
        map(str, overlay_section.draw_overlay(topology, [0.0] * len(topology.links), None,
                                              history(), "x"))
    )  # fmt: skip
    dots = {(float(x), float(y)): float(r) for x, y, r in re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', drawn)}  # fmt: skip
    names = re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" class="(place|tick)( \w+)?"[^>]*>([^<]+)<', drawn
    )
    assert len(names) > 20
    for x, y, kind, anchor, text in names:
        bold = kind == "place"
        properties = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
        size = 13.0 if bold else 11.5
        wide = TextPath((0, 0), text, size=size, prop=properties).get_extents().width
        left = float(x) - {" middle": wide / 2, " end": wide}.get(anchor, 0.0)
        for (cx, cy), radius in dots.items():
            beside = max(left - cx, cx - left - wide, 0.0)
            above = max(float(y) - 0.73 * size - cy, cy - float(y), 0.0)
            assert math.hypot(beside, above) > radius, text


def test_a_narrow_window_has_a_whole_map_if_few_sites_are_far_apart() -> None:
    sites = [Site("east"), Site("north"), Site("west")]
    links = [Link(a.name, b.name, 10.0, 5.0) for a, b in permutations(sites, 2)]
    topology = Topology("three", tuple(sites), tuple(links))
    far = {"east": (700.0, 100.0), "north": (300.0, 80.0), "west": (100.0, 300.0)}
    near = {"east": (12.0, 10.0), "north": (10.0, 12.0), "west": (10.0, 10.0)}
    assert name_nodes(topology, far, 960, 440).is_small
    assert not name_nodes(topology, near, 960, 440).is_small


def test_a_map_is_no_higher_than_its_sites_need() -> None:
    delays = {("a", "b"): 100.0, ("a", "c"): 55.0, ("b", "c"): 60.0}
    links = [Link(*ends, 10.0, ms) for pair, ms in delays.items() for ends in (pair, pair[::-1])]
    flat = Topology("flat", tuple(map(Site, "abc")), tuple(links))
    drawn = "".join(map(str, overlay_section.draw_overlay(flat, [0.0] * 6, None, history(), "x")))
    (height,) = re.findall(r'viewBox="0 0 960 ([\d.]+)"', drawn)
    places = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', drawn)]
    assert min(places) == pytest.approx(64)
    assert max(places) == pytest.approx(float(height) - 64)
    assert float(height) < 560


def test_a_name_stands_beside_its_dot_and_further_away_where_it_is_larger() -> None:
    topology = Topology("two", (Site("rome"), Site("oslo")), tuple(
        Link(*ends, 10.0, 5.0) for ends in (("rome", "oslo"), ("oslo", "rome"))
    ))  # fmt: skip
    names = name_nodes(topology, {"rome": (200.0, 80.0), "oslo": (700.0, 330.0)}, 960, 440)
    above, below = names.labels["rome"], names.labels["oslo"]
    assert names.is_small
    assert 80 - 18 < above.y < 80 - 9
    assert 330 + 18 < below.y < 330 + 30
    assert above.shift[1] < 0 < below.shift[1]
