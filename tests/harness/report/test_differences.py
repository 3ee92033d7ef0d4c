"""What differs between runs, on the page that compares them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from trunkline.harness.report.pages.comparison.differences import RunInputs, write_section
from trunkline.harness.report.pages.markup import join
from trunkline.harness.scenario.loading import parse, resolve


def list_rows(*each: RunInputs) -> list[list[str]]:
    """The cells of the table."""
    text = str(join(write_section(each))).replace("&gt;", ">").replace("&#x27;", "'")
    rows = re.findall("<tr>(.*?)</tr>", text)[1:]
    cells = (re.findall("<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows)
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in cells]


def make(**links: Mapping[str, str]) -> RunInputs:
    return RunInputs(
        {"scheme.plan": "ring"}, {}, {f"{n[0]} -> {n[1]}": v for n, v in links.items()}
    )


def test_links_of_which_the_same_differs_are_one_row() -> None:
    near, far = {"rate": "20 Mbit/s", "delay": "10 ms"}, {"rate": "20 Mbit/s", "delay": "80 ms"}
    first, second = make(ab=near, ba=near, ac=near), make(ab=far, ba=far, ac=near)
    assert list_rows(first, second) == [
        ["topology.links: delay of a -> b and 1 other", "10 ms", "80 ms"]
    ]
    assert second.list_differences(first) == ["topology"]
    other = make(ab={**near, "rate": "9 Mbit/s"}, ba=near, ac=near)
    assert list_rows(first, other) == [["topology.links: rate of a -> b", "20 Mbit/s", "9 Mbit/s"]]


def test_links_and_sites_that_only_one_run_has_differ() -> None:
    link = {"rate": "20 Mbit/s"}
    first, second = make(ab=link, ba=link), make(ab=link, ba=link, ac=link, ca=link)
    assert list_rows(first, second) == [["topology.links: a -> c and 1 other", "-", "there"]]
    two, three = (
        RunInputs({"topology.sites.a": ""}, {}),
        RunInputs({f"topology.sites.{name}": "" for name in "acd"}, {}),
    )
    assert list_rows(two, three) == [["topology.sites: c and 1 other", "-", "there"]]
    assert three.list_differences(two) == ["topology"]


def test_long_values_that_differ_at_their_end_differ() -> None:
    start = "x" * 300
    (row,) = list_rows(*(RunInputs({"timeline": start + end}, {}) for end in "ab"))
    assert row[0] == "timeline"
    assert row[1] != row[2]
    assert [re.fullmatch("x+… #[0-9a-f]{6}", value) is not None for value in row[1:]] == [True] * 2


def test_queues_that_differ_are_one_row_after_the_others() -> None:
    """Queues follow from rates and delays: each link may have another."""
    delays = {"ab": "10 ms", "ba": "10 ms", "ac": "20 ms"}
    small, large, less = {"queue": "62.5 kB"}, {"queue": "250 kB"}, {"queue": "9 kB"}
    first = make(**{n: {"delay": each, **small} for n, each in delays.items()})
    slow = {"delay": "80 ms"}
    second = make(ab={**slow, **large}, ba={**slow, **less}, ac={"delay": "1 s"})
    assert list_rows(first, second) == [
        ["topology.links: delay of a -> b and 1 other", "10 ms", "80 ms"],
        ["topology.links: delay of a -> c", "20 ms", "1 s"],
        ["topology.links: queue of a -> b and 2 others", "62.5 kB", "9 kB to 250 kB"],
    ]
    without = make(**{n: {"delay": each} for n, each in delays.items()})
    assert list_rows(first, without) == [
        ["topology.links: queue of a -> b and 2 others", "62.5 kB", "-"]
    ]


def test_entries_of_a_timeline_are_rows() -> None:
    cut, stop = "{at: 2 s, do: outage n1 n2 for 1 s}", "{at: 3 s, do: pause n1 for 1 s}"
    lists = f"[{cut}, {stop}, {stop}]", f"[{cut}]", "[]"
    runs = [RunInputs.of_texts(f"{{name: a, timeline: {each}}}", {}) for each in lists]
    assert list_rows(*runs) == [
        ["timeline: outage n1 n2 for 1 s at 2 s", "there", "there", "-"],
        ["timeline: pause n1 for 1 s at 3 s", "2 times", "-", "-"],
    ]
    assert runs[0].list_differences(runs[2]) == ["timeline"]


@pytest.mark.parametrize(
    ("key", "values", "where"),
    [
        ("delays", ("10 ms", "80 ms"), "topology.links: delay of n1 -> n2 and 5 others"),
        ("loss", ("0 %", "1 %"), "topology.links: loss of n1 -> n2 and 5 others"),
        ("sites", ("3", "4"), "topology.links: n1 -> n4 and 5 others"),
    ],
)
def test_networks_of_one_builder_that_differ_say_in_what(
    key: str, values: tuple[str, str], where: str
) -> None:
    """Of a whole scenario, as a run keeps it."""
    text = """
topology: {builder: full_mesh, sites: 3, rates: 20 Mbit/s, delays: 20 ms, loss: 0 %}
workload: {kind: synthetic, model: 1 kB}
scheme: {policy: bsp, plan: ring}
stop: {tasks: 2}
"""
    inputs = [
        RunInputs.of_texts(resolve(parse(text, "s.yaml", (f"topology.{key}={value}",))), {})
        for value in values
    ]
    rows = {row[0]: row[1:] for row in list_rows(*inputs)}
    assert rows[where] == (["-", "there"] if key == "sites" else list(values))


def test_a_key_of_the_scenario_that_the_environment_has_too_is_one_row() -> None:
    one, other = (RunInputs({"seed": n}, {"seed": n, "kernel": n}) for n in "12")
    assert list_rows(one, other) == [["seed", "1", "2"], ["kernel", "1", "2"]]
