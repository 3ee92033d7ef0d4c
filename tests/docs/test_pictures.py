"""The pictures of the README: ways on the map, and frames of a moving picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pictures
import pytest

from trunkline.harness.live.live_view import View
from trunkline.harness.scenario.loading import load


def test_the_shortest_way_passes_north_and_is_cut_at_the_date_line():
    (way,) = pictures._list_great_circle((50.0, -30.0), (50.0, 30.0))
    assert way[0] == pytest.approx((-30, 50)) and way[-1] == pytest.approx((30, 50))
    assert max(latitude for _, latitude in way) == pytest.approx(54.0, abs=0.1)
    west, east = pictures._list_great_circle((0.0, 170.0), (0.0, -170.0))
    assert west[-1][0] == pytest.approx(180, abs=1) and east[0][0] == pytest.approx(-180, abs=1)


def test_the_map_has_every_site_of_the_scenario():
    scenario = load(pictures.ROOT / "scenarios" / "quickstart.yaml")
    assert set(scenario.topology.site_names) == set(pictures.PLACES)


def test_a_moving_picture_shows_one_frame_after_the_other():
    view = View(load(pictures.ROOT / "scenarios" / "outage.yaml"), lambda: 0.0)
    frames = [pictures._draw_frame(view, number) for number in range(3)]
    made = pictures._animate(frames)
    shown = ElementTree.fromstring(made).findall("{http://www.w3.org/2000/svg}g")
    delays = [each.attrib["style"] for each in shown]
    assert delays == [f"animation-delay:{delay}s" for delay in ("-1.5", "-1", "-0.5")]
    assert all("outage" in "".join(each.itertext()) for each in shown)
