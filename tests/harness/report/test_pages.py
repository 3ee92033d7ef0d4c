"""Report pages say what the run folder says, whole, safely and in one file."""

import base64
import hashlib
import html
import json
import math
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from three_sites import LOG, SCENARIO, SITES, TOPOLOGY, added, altered, history

from trunkline.agents.events.causes import Asked
from trunkline.agents.events.event import Event
from trunkline.agents.events.event_writing import to_line
from trunkline.agents.events.round_events import (
    ComputeFinished,
    ComputeStarted,
    Ready,
    WorkerFinished,
)
from trunkline.agents.events.run_events import Stopping
from trunkline.agents.events.task_events import Contributed, Sent
from trunkline.harness.checks.verdict import Check, Verdict
from trunkline.harness.record.history import History
from trunkline.harness.report import outputs
from trunkline.harness.report.faults import fault_table
from trunkline.harness.report.faults.fault_layout import describe_span
from trunkline.harness.report.overlay import overlay_section, site_layout
from trunkline.harness.report.overlay.link_load import compute_loads
from trunkline.harness.report.pages import (
    charts,
    frame,
    markup,
    run_page,
    sites_section,
)
from trunkline.harness.report.pages.charts import Frame, Scale
from trunkline.harness.report.pages.comparison import common_faults
from trunkline.harness.report.pages.comparison.comparison_page import Cells
from trunkline.harness.report.pages.comparison.differences import RunInputs, write_warning
from trunkline.harness.report.pages.comparison.means_section import Mean, Metric, write_section
from trunkline.harness.report.pages.gantt_section import MAX_BARS, draw_gantt
from trunkline.harness.report.pages.markup import tag
from trunkline.harness.scenario.header import make_header
from trunkline.harness.scenario.loading import load, parse
from trunkline.topologies import explicit, file, full_mesh, internet2
from trunkline.topologies.links import Link
from trunkline.topologies.model import Site, Topology
from trunkline.topologies.rates import matrix
from trunkline.topologies.rates.regions import find_region

NASTY = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'"


ALONE = """
topology: {builder: full_mesh, sites: 2, rates: 10 Mbit/s}
workload: {kind: synthetic, model: 1 kB}
scheme: {policy: bsp, plan: ring}
stop: {rounds: 3}
"""


class Page(HTMLParser):
    """What a browser makes of a page: its elements, and the text of each kind of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(re.sub(r'<span class="whole">([^<]*)</span>', r"\1", text))
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in markup.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, name: str) -> Iterator[dict[str, str | None]]:
        return (attributes for tag, attributes in self.elements if tag == name)

    def text(self, name: str) -> str:
        return "".join(self.texts.get(name, ()))


def page(folder: Path, log: str, scenario: str) -> Page:
    """The page of a run folder with this log and scenario."""
    (folder / "resolved.yaml").write_text(scenario + "outputs: {plots: false}\n")
    (folder / "scenario.yaml").write_text(scenario)
    (folder / "events.jsonl").write_text(log)
    outputs.build(folder)
    return Page((folder / "report.html").read_text())


@pytest.fixture
def plain(tmp_path: Path) -> Page:
    return page(tmp_path, LOG.read_text(), SCENARIO.read_text())


def test_a_page_says_how_similar_updates_were_and_who_was_excluded(
    plain: Page, tmp_path: Path
) -> None:
    lines = history(
        added(500, "kyiv", "compared", task=0, similarity=0.25),
        added(700, "controller", "site_excluded", worker="kyiv"),
    ).events
    log = b"".join(map(to_line, lines)).decode()
    found = page(tmp_path, log, SCENARIO.read_text())
    assert {"similarity", "excluded (s)"} <= set(found.texts["th"])
    assert {"0.25", "0.70"} <= set(found.texts["td"])
    assert "similarity" not in plain.texts["th"]


def test_a_page_says_the_verdict_and_has_every_part(plain: Page) -> None:
    assert plain.text("h1") == "three"
    assert "✓ pass" in plain.text("span")
    assert plain.texts["h2"] == [
        "Summary", "Task times", "Lost time", "Timeline", "Network", "Rates",
        "Accuracy", "Sites", "Checks", "Scenario", "Files",
    ]  # fmt: skip


def test_a_page_says_when_bytes_count_as_sent_in_links_over_time(plain: Page) -> None:
    said = [text for texts in plain.texts.values() for text in texts if run_page.ASSUMED in text]
    assert len(said) == 1


def test_a_page_explains_an_abandoned_task(plain: Page) -> None:
    said = "s were expected. Task 2 was abandoned: it exceeded its budget of 1.98 s."
    assert re.search(
        r"Task 2 \([a-z, ]+; [\d.]+ to [\d.]+ s\) ran for 2\.000 s, and all of it was lost; ",
        plain.text("p"),
    )
    assert said in plain.text("p")


def test_a_page_says_that_expected_times_leave_out_losses(plain: Page, tmp_path: Path) -> None:
    assert "without losses" not in plain.text("small")
    scenario = SCENARIO.read_text()
    assert "delay: 10 ms}" in scenario
    lossy = page(tmp_path, LOG.read_text(), scenario.replace("10 ms}", "10 ms, loss: 1 %}"))
    assert "without losses" in lossy.text("small")
    assert "The estimate does not count these losses." in lossy.text("p")


def test_a_page_loads_nothing_and_its_links_lead_somewhere(plain: Page) -> None:
    anchors = [found["id"] for _, found in plain.elements if "id" in found]
    assert len(anchors) == len(set(anchors))
    for _, found in plain.elements:
        assert not found.keys() & {"src", "srcset", "action", "data", "xlink:href"}
    hrefs = [str(found["href"]) for found in plain.all("a")]
    assert {href[1:] for href in hrefs if href.startswith("#")} <= set(anchors)
    assert not [href for href in hrefs if re.match(r"[a-z]+:|/", href)]
    assert "url(http" not in plain.text("style") and "@import" not in plain.text("style")


def test_pictures_have_words_and_headings_have_an_order(plain: Page) -> None:
    pictures = [found for found in plain.all("svg") if "aria-hidden" not in found]
    assert len(pictures) >= 6
    for picture in pictures:
        assert picture["role"] == "img" and len(str(picture["aria-label"])) > 20
    levels = [int(name[1]) for name, _ in plain.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    assert [found["lang"] for found in plain.all("html")] == ["en"]


def test_paper_has_what_is_folded_or_says_where_it_is(plain: Page, tmp_path, monkeypatch) -> None:
    assert len(list(plain.all("summary"))) == 5
    assert not [found for found in plain.all("summary") if "data-file" in found]
    monkeypatch.setattr(run_page, "MAX_PRINTED_ROWS", 2)
    monkeypatch.setattr(frame, "PRINTED_ROWS", 2)
    long = page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    assert [found.get("data-file") for found in long.all("summary")] == [
        "tables/tasks.csv", None, None, None, None
    ]  # fmt: skip


def test_of_many_sites_those_that_others_waited_for_have_a_row(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sites_section, "MOST_SITES", 2)
    monkeypatch.setattr(sites_section, "CHOSEN", 2)
    monkeypatch.setattr(sites_section, "BUSIEST", 0)
    shown = page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    workers = pd.read_csv(tmp_path / "tables/workers.csv").set_index("site")
    busy_s = (workers["compute_s"] + workers["sync_s"]).sort_values(ascending=False)
    chosen = {*busy_s.index[:2]}
    assert "2 of 3 sites have a row" in shown.text("p")
    heads = shown.texts["th"]
    assert {site for site in workers.index if site in heads} == chosen
    assert [each for each in heads if each in sites_section.SHARES] == [
        "least",
        "10 %",
        "median",
        "90 %",
        "most",
    ]
    in_timeline = [each for each in shown.texts["text"] if each in workers.index]
    assert in_timeline.count(busy_s.index[2]) < in_timeline.count(busy_s.index[0])


def test_the_middle_of_a_star_has_a_row_although_it_computes_least(monkeypatch) -> None:
    monkeypatch.setattr(sites_section, "MOST_SITES", 2)
    monkeypatch.setattr(sites_section, "CHOSEN", 2)
    monkeypatch.setattr(sites_section, "BUSIEST", 1)
    frame = pd.DataFrame(
        {
            "site": ["n1", "n2", "n3"],
            "compute_s": [1.0, 3.0, 2.0],
            "sync_s": 0.0,
            "bytes_sent": [9, 3, 3],
            "bytes_received": [9, 3, 3],
        }
    )
    data = SimpleNamespace(
        scenario=parse(ALONE.replace("sites: 2", "sites: 3"), "x.yaml"),
        tables={"workers": frame},
        history=SimpleNamespace(faults=()),
    )
    assert sites_section.choose_sites(data) == ("n1", "n2")


def test_quantiles_and_rows_count_rounds_alone_alike(monkeypatch) -> None:
    monkeypatch.setattr(sites_section, "MOST_SITES", 1)
    monkeypatch.setattr(sites_section, "CHOSEN", 1)
    zeros = dict.fromkeys((*sites_section.TIMES, *sites_section.SIZES), 0.0)
    rows = [
        {"site": name, "rounds": 3, "rounds_alone": 4, "similarity": None, "excluded_s": None}
        | zeros
        for name in ("n1", "n2")
    ]
    data = SimpleNamespace(
        scenario=parse(ALONE, "x.yaml"),
        tables={"workers": pd.DataFrame(rows)},
        history=SimpleNamespace(faults=()),
    )
    written = Page("".join(map(str, sites_section.write_sites(data))))
    assert [text for text in written.texts["td"] if text in ("3", "7")] == ["7"] * 6


def test_delays_in_one_direction_are_distances_from_left_to_right() -> None:
    """Two continents of three sites: 5 ms within, 80 ms between."""
    names = ("w1", "e1", "w2", "e2", "w3", "e3")
    links = [
        Link(src, dst, 100.0, 5.0 if src[0] == dst[0] else 80.0)
        for src in names
        for dst in names
        if src != dst
    ]
    topology = Topology("t", tuple(map(Site, names)), tuple(links))
    places, meaning = site_layout.place_sites(topology, 700.0, 400.0, 50.0)
    assert meaning == "Distances from left to right approximate delays."
    for x, name in zip([x for x, _ in places], names, strict=True):
        assert x < 150 if name[0] == "w" else x > 550
    assert min(math.dist(a, b) for a in places for b in places if a != b) > 45


def test_nothing_that_a_user_or_a_program_says_becomes_markup(tmp_path: Path) -> None:
    scenario = SCENARIO.read_text() + f"description: {json.dumps(NASTY)}\n# {NASTY}\n"
    fault = {"fault": 0, "verb": "kill", "text": NASTY, "targets": [NASTY]}
    log = [json.loads(line) for line in LOG.read_text().splitlines()]
    for change in (
        added(300, "runner", "fault_started", **fault),
        added(4300, "rome", "agent_failed", reason=NASTY + "\x1b[31m\u202e\ud800"),
        altered("run_started", {"policy": NASTY}),
    ):
        log = change(log)
    made = page(tmp_path, "".join(json.dumps(line) + "\n" for line in log), scenario)
    scripts = list(made.all("script"))
    assert [found.get("type") for found in scripts] == ["application/json", None]
    assert not list(made.all("img"))
    assert not [key for _, found in made.elements for key in found if key.startswith("on")]
    assert NASTY in made.text("pre")
    assert NASTY in made.text("p")
    assert any(f"rome gave up: {NASTY}\ufffd[31m\ufffd\ufffd" in text for text in made.texts["li"])


def test_a_log_that_cannot_be_read_still_makes_a_page_that_says_so(tmp_path: Path) -> None:
    made = page(tmp_path, LOG.read_text()[:-50], SCENARIO.read_text())
    assert "the log is readable: events.jsonl:96: cut off" in made.text("li")
    assert {"Summary", "Checks", "Scenario"} <= set(made.texts["h2"])
    made = page(tmp_path, "garbage", SCENARIO.read_text())
    assert "the log is readable: events.jsonl:1: " in made.text("li")


def test_the_script_that_a_page_carries_is_the_one_that_it_allows(plain: Page) -> None:
    policy = next(str(f["content"]) for f in plain.all("meta") if "http-equiv" in f)
    digest = base64.b64encode(hashlib.sha256(plain.texts["script"][-1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("cost tasks 3 (1.500 s) and 4", "(1.500 s)"),
        ("tasks 3 (1.500 s), 4", "(1.500 s),"),
        ("1.227 s (61 %", "1.227 s|(61 %"),
        ("the link (n1 -> n2)", "(n1 -&gt; n2)"),
    ],
)
def test_a_quantity_keeps_its_brackets(text: str, whole: str) -> None:
    found = re.findall('<span class="whole">(.*?)</span>', markup.keep_together(text))
    assert found == whole.split("|")


@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no chromium here")
def test_in_a_browser_the_slider_comes_to_life(tmp_path: Path) -> None:
    page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    shown = subprocess.run(
        [*command, profile, (tmp_path / "report.html").as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    controls = next(f for f in Page(shown.stdout).all("div") if f.get("class") == "controls")
    assert "hidden" not in controls


def test_loads_are_payload_over_what_the_rate_lets_pass() -> None:
    found = compute_loads(history(), TOPOLOGY, 46)
    assert found.step_s == pytest.approx(0.1)
    assert found.links[:2] == (("oslo", "rome"), ("oslo", "kyiv"))
    moved = found.share * 8e6 / 8 * found.step_s
    sent: dict[tuple[str, str], int] = {}
    for task in history().tasks:
        for event in task.all(Sent):
            sent[event.site, event.dst] = sent.get((event.site, event.dst), 0) + event.bytes
    by_link = dict(zip(found.links, moved.sum(axis=0), strict=True))
    assert {ends: round(size) for ends, size in by_link.items() if size} == sent
    assert not found.cut.any()


def test_a_link_is_cut_in_every_step_that_saw_it_cut() -> None:
    values = {"rate_mbps": 8.0, "delay_ms": 10.0, "jitter_ms": 0.0, "loss_percent": 0.0}
    ends = {"src": "oslo", "dst": "kyiv"}
    disturbed = history(
        added(1050, "runner", "link_changed", **ends, **values, cuts=["blackhole"]),
        added(1250, "runner", "link_changed", **ends, **values, cuts=[]),
    )
    found = compute_loads(disturbed, TOPOLOGY, 46)
    steps, links = np.nonzero(found.cut)
    assert list(steps) == [10, 11, 12]
    assert {found.links[link] for link in links} == {("oslo", "kyiv")}
    assert found.cuts_s == {("oslo", "kyiv"): [(1.05, 1.25)]}


def test_the_strip_of_links_paints_a_cut_for_its_time_and_not_whole_steps() -> None:
    found = compute_loads(history(), TOPOLOGY, 46)
    found = replace(found, cuts_s={found.links[0]: [(1.05, 1.25)]})
    found.cut[10:13, 0] = True
    made = str(overlay_section.draw_strip(found, [9] * len(found.links), "virtual", ""))
    path = re.search(r'd="M([0-9.]+) [0-9.]+h([0-9.]+)v[^"]*" class="level-cut"', made)
    row = re.search(r'd="M([0-9.]+) 6h([0-9.]+)v[^"]*" class="level-0"', made)
    assert path is not None
    assert row is not None
    left, per_s = float(row[1]), float(row[2]) / (found.step_s * found.steps)
    assert float(path[1]) == pytest.approx(left + 1.05 * per_s, abs=0.01)
    assert float(path[2]) == pytest.approx(0.2 * per_s, abs=0.01)


def test_the_strip_of_links_names_a_cut_in_its_legend_only_if_it_shows_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = compute_loads(history(), TOPOLOGY, 46)
    found.cut[10:13, 0] = True
    found = replace(found, cuts_s={found.links[0]: [(1.05, 1.25)]})
    sizes = [1, *[9] * (len(found.links) - 1)]  # the link that was cut carried least
    for most, shown in ((len(sizes), True), (2, False)):
        monkeypatch.setattr(overlay_section, "STRIP_LINKS", most)
        made = str(overlay_section.draw_strip(found, sizes, "virtual", ""))
        assert ("cut by a fault</li>" in made) == shown
        assert ("Of these, a fault cut 1 for some time." in made) != shown


def test_sites_on_the_map_have_the_colour_of_what_they_do() -> None:
    fault = {"fault": 0, "verb": "pause", "text": "pause kyiv", "targets": ["kyiv"]}
    paused = history(
        added(1000, "runner", "fault_started", **fault),
        added(2000, "runner", "fault_ended", fault=0),
    )
    loads = compute_loads(paused, TOPOLOGY, 46)
    shown = overlay_section.encode_activity(paused, SITES, loads)
    kyiv = "".join(row[SITES.index("kyiv")] for row in shown)
    assert kyiv[10:20] == "x" * 10
    assert "x" not in kyiv[:10] + kyiv[20:]
    silent = History.of([e for e in history().events if not (e.site == "oslo" and has_phase(e))])
    rows = overlay_section.encode_activity(silent, SITES, loads)
    oslo = "".join(row[SITES.index("oslo")] for row in rows)
    assert {*oslo} == {"s", "-"}  # as for a server: it has a part in tasks, and no phases


def has_phase(event: Event) -> bool:
    return isinstance(event, ComputeStarted | Ready | Contributed)


@given(st.text())
def test_any_text_comes_out_of_markup_as_it_went_in(text: str) -> None:
    made = Page(tag("p", text, title=text))
    clean = markup.UNFIT.sub("\ufffd", text)
    assert made.text("p") == clean.replace("\r\n", "\n") or "\r" in clean
    assert next(made.all("p"))["title"] == clean


@given(st.integers(2, 12), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_sites_lie_within_the_map_and_apart(count: int, random: object) -> None:
    names = [f"s{number}" for number in range(count)]
    delays = {frozenset((a, b)): random.uniform(1, 200) for a in names for b in names if a < b}  # type: ignore[attr-defined]
    links = tuple(
        Link(a, b, 1.0, delays[frozenset((a, b))]) for a in names for b in names if a != b
    )
    topology = Topology("t", tuple(map(Site, names)), links)
    places, _ = site_layout.place_sites(topology, 700.0, 400.0, 50.0)
    assert places == site_layout.place_sites(topology, 700.0, 400.0, 50.0)[0]
    assert all(-0.1 <= x <= 700.1 and -0.1 <= y <= 400.1 for x, y in places)
    gaps = [np.hypot(a[0] - b[0], a[1] - b[1]) for n, a in enumerate(places) for b in places[:n]]
    assert min(gaps) > 15


def test_sites_that_are_equally_far_from_each_other_lie_on_a_circle() -> None:
    places, meaning = site_layout.place_sites(TOPOLOGY, 200.0, 200.0, 10.0)
    assert meaning.startswith("Positions have no meaning")
    assert places[0] == (100.0, 0.0)


def test_sites_in_known_regions_lie_as_on_a_map_of_the_world() -> None:
    regions = (
        "aws:ap-northeast-1",
        "gcp:us-west1-a",
        "gcp:us-east1",
        "aws:sa-east-1",
        "aws:eu-west-1",
    )
    sites = tuple(Site(region[4:], region) for region in regions)
    links = tuple(Link(a.name, b.name, 1.0, 1.0) for a in sites for b in sites if a != b)
    topology = Topology("world", sites, links)
    assert site_layout.has_regions(topology)
    (tokyo, west, east, brazil, ireland), meaning = site_layout.place_sites(topology, 700, 400, 50)
    assert meaning == "Sites stand where their regions are."
    assert tokyo[0] < west[0] < east[0] < brazil[0] < ireland[0]  # the Atlantic is narrower
    assert ireland[1] < west[1] < tokyo[1] < brazil[1]
    assert not site_layout.has_regions(
        Topology("x", (*sites[:4], Site("eu-west-1", "aws:nowhere")), links)
    )


def test_nodes_of_a_network_with_coordinates_stand_there() -> None:
    nodes = "".join(
        f'node [ id {n} label "{name}" Latitude {lat} Longitude {lon} ] '
        for n, (name, lat, lon) in enumerate(
            [("Helsinki", 60.2, 24.9), ("Reykjavik", 64.1, -21.9), ("Copenhagen", 55.7, 12.6)]
        )
    )
    edges = "".join(f"edge [ source {a} target {b} rate 9 ] " for a, b in ((0, 1), (1, 2), (2, 0)))
    made = file.build(
        random.Random(1), file="x.gml", read=lambda name: f"graph [ {nodes} {edges} ]"
    )
    again = explicit.build(random.Random(1), **explicit.options(made))
    places, words = site_layout.place_sites(again, 600, 400, 20)
    (helsinki, reykjavik, copenhagen) = places
    assert words == "Sites stand at their coordinates."
    assert reykjavik[0] < copenhagen[0] < helsinki[0]
    assert reykjavik[1] < helsinki[1] < copenhagen[1]


@pytest.mark.parametrize(
    "network",
    [
        "builder: file, file: os3e, rate_factor: 0.001, sites: [seattle, new-york, miami]",
        "builder: file, file: os3e, rate_factor: 0.001, access: [{up: 9 Mbit/s, down: 9 Mbit/s}]",
        "builder: full_mesh, sites: [aws:us-east-1, aws:eu-west-1], access: "
        "[{up: 9 Mbit/s, down: 9 Mbit/s}]",
    ],
)
def test_gateways_stand_at_their_sites_on_the_map(network: str) -> None:
    text = f"topology: {{{network}}}\nworkload: synthetic\nscheme: ps-bsp\nstop: {{rounds: 1}}\n"
    topology = parse(text, "x.yaml").topology
    assert site_layout.has_regions(topology)
    at = dict(
        zip(topology.node_names, site_layout.place_sites(topology, 800, 440, 0)[0], strict=True)
    )
    assert all(at[name] == at[f"{name}-gw"] for name in topology.site_names)
    at = dict(
        zip(topology.node_names, site_layout.place_sites(topology, 800, 440, 74)[0], strict=True)
    )
    gaps = {name: math.dist(at[name], at[f"{name}-gw"]) for name in topology.site_names}
    assert all(10 < gap < 30 for gap in gaps.values())


def test_sites_of_one_node_stand_around_their_gateway_on_the_map() -> None:
    topology = file.build(
        random.Random(1), file="os3e", sites=["seattle", "miami"], sites_per_node=4
    )
    found, meaning = site_layout.place_sites(topology, 800, 440, 74)
    at = dict(zip(topology.node_names, found, strict=True))
    assert meaning == "Sites stand at their coordinates."
    assert min(math.dist(a, b) for a, b in combinations(found, 2)) > 10
    near = {math.dist(at["miami-gw"], at[f"miami-{n}"]) for n in range(1, 5)}
    assert max(near) < 200 < math.dist(at["miami-gw"], at["seattle-gw"])


@pytest.mark.parametrize("name", ["intercloud", "skyplane"])
def test_every_measured_region_has_coordinates(name: str) -> None:
    assert not [
        region for region in matrix.load_matrix(name).regions if find_region(region) is None
    ]


def test_near_bars_become_one_and_short_ones_stay_visible() -> None:
    spans = [(0.0, 1.0), (1.2, 2.0), (5.0, 5.0)]
    assert charts.merge(spans, 0.5, 0.3) == [(0.0, 2.0), (5.0, 5.3)]
    assert charts.merge(spans, 0.0, 0.3) == [(0.0, 1.0), (1.2, 2.0), (5.0, 5.3)]


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e6))
def test_ticks_are_within_the_scale_and_few(low: float, size: float) -> None:
    ticks = charts.Scale(low, low + size, 0, 100).ticks(6)
    assert len(ticks) <= 8
    assert all(low - size * 1e-6 <= tick <= low + size * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize(
    "scale", [Scale(0.855, 1.5, 420, 300), Scale(0.8, 1.6, 420, 300, log=True)]
)
def test_an_axis_has_two_ticks_at_least(scale: Scale) -> None:
    assert len(scale.ticks(3)) >= 2


def test_an_axis_of_whole_numbers_has_no_tick_between_them() -> None:
    drawn = Frame(Scale(0, 1, 0, 100), Scale(0, 3, 330, 24)).draw_axes("s", "tasks", whole_y=True)
    assert re.findall('class="tick end">([0-9.]+)</text>', drawn) == ["0", "1", "2", "3"]


def test_short_folds_are_printed_and_long_ones_name_their_file() -> None:
    rows = [[str(number)] for number in range(11)]
    for count, named in ((10, False), (11, True)):
        table = markup.make_table(["n"], rows[:count], "x")
        assert ('data-file="x.csv"' in frame.fold("numbers", table, file="x.csv")) is named
    assert "data-file" not in frame.fold("text", tag("pre", "a\n" * 30), file="log/")
    assert "data-file" in frame.fold("text", tag("pre", "a\n" * 31), file="log/")


def test_a_long_run_of_many_sites_makes_a_page_of_bounded_size() -> None:
    """60 sites, 400 tasks: more bars than a page has room for."""
    names = tuple(f"site{number}" for number in range(60))
    events = []
    for task in range(400):
        for number, site in enumerate(names):
            t_ns = task * 10**9 + number
            events += [ComputeStarted(t_ns, site, task), ComputeFinished(t_ns + 10**8, site, task)]
    shown = str(draw_gantt(History.of(events), names, "virtual"))
    assert len(shown) < 60 * MAX_BARS
    assert "are drawn as one" in shown


def test_the_chart_of_a_run_with_a_warm_up_says_where_it_ends() -> None:
    shown = str(draw_gantt(history(), SITES, "virtual", 1.51))
    assert 'The warm-up ended at <span class="whole">1.51 s.</span>' in shown
    assert f"{charts.WARM_UP}</li>" in shown
    assert "warm-up" not in str(draw_gantt(history(), SITES, "virtual"))


def test_the_caption_says_what_thin_lines_below_rows_show_if_there_are_any() -> None:
    words = "The thin line below a row shows help with tasks of other sites."
    assert words in str(draw_gantt(history(), SITES, "virtual"))
    left = WorkerFinished(4 * 10**9, "kyiv", 1)
    done = History.of([ComputeStarted(0, "kyiv", 0), left, *history().all(Stopping)])
    words = "The thin line below a row shows that all rounds of the site are done."
    shown = str(draw_gantt(done, SITES, "virtual"))
    assert words in shown
    assert "upper half" not in shown
    alone = History.of([ComputeStarted(0, "kyiv", 0), ComputeFinished(10**9, "kyiv", 0)])
    assert "thin line" not in str(draw_gantt(alone, SITES, "virtual"))


def test_links_that_carried_nothing_have_no_chart_over_time() -> None:
    found = compute_loads(History.of([]), TOPOLOGY, 10)
    assert overlay_section.draw_strip(found, [0] * len(found.links), "virtual", "") is None


def test_a_narrow_window_shows_the_values_of_the_environment() -> None:
    """Their names may be sentences: these need several lines there."""
    _, narrow = frame.STYLE.split("@media (max-width: 40rem)", 1)
    assert '[aria-label="environment"] th { white-space: normal; }' in narrow


WARM = ("seed: 1", "seed: 1\nwarm_up: {time: 1.6 s}")
"""The second of three tasks began at 1.51 s."""


def test_the_page_of_a_run_marks_its_warm_up_and_leaves_it_out_of_sentences(tmp_path: Path) -> None:
    made = page(tmp_path, LOG.read_text(), SCENARIO.read_text().replace(*WARM))
    assert "warm-up of 1.6 s" in made.text("p")
    assert "0 of 1 tasks were completed. The numbers leave out the 2 tasks" in made.text(
        "figcaption"
    )
    assert "These numbers are of the whole run, the warm-up included." in made.texts["p"]
    assert "In numbers: 3 tasks, 2 of the warm-up" in made.texts["summary"]
    classes = [found.get("class") for found in made.all("path")]
    assert classes.count("fill-warm-up") == 6  # task times and ratios, sites, links, accuracy, loss


def test_runs_with_a_warm_up_have_thin_lines_in_it_and_distributions_without_it(
    tmp_path: Path,
) -> None:
    made = compared(tmp_path, WARM)
    lines = [found["class"] for found in made.all("path") if "line" in (found.get("class") or "")]
    plain = [line for line in lines if line in ("line stroke-blue", "line stroke-orange")]
    assert "line thin stroke-orange" in lines
    assert "line thin stroke-blue" not in lines
    assert made.text("figcaption").count("Tasks of the warm-up are left out.") == 1
    assert made.texts["li"].count(charts.WARM_UP) == 1
    assert plain.count("line stroke-blue") > plain.count("line stroke-orange")


def compared(folder: Path, *changes: tuple[str, str]) -> Page:
    """The page of the good run and of runs whose scenario has something else instead."""
    runs = []
    for number, (old, new) in enumerate((("", ""), *changes)):
        run_dir = folder / str(number)
        run_dir.mkdir()
        assert old in SCENARIO.read_text()
        text = SCENARIO.read_text().replace(old, new) + "outputs: {plots: false}\n"
        (run_dir / "resolved.yaml").write_text(text)
        header = to_line(make_header(load(run_dir / "resolved.yaml")))
        _, *lines = LOG.read_bytes().splitlines(keepends=True)
        (run_dir / "events.jsonl").write_bytes(b"".join([header, *lines]))
        runs.append(run_dir)
    outputs.compare(runs, folder / "page.html")
    return Page((folder / "page.html").read_text())


def test_runs_stand_beside_each_other_under_what_tells_them_apart(tmp_path: Path) -> None:
    made = compared(tmp_path, ("seed: 1", "seed: 2"), ("seed: 1", "seed: 3"))
    assert made.texts["h2"] == ["Runs", "Task times", "Progress", "Accuracy", "What differs"]
    assert [text for text in made.texts["th"] if text.startswith("1: ")] == ["1: seed 1"]
    assert "ended: its time of 4.4 s has passed; policy, plan: preduce, h.py; tasks: " in made.text(
        "p"
    )
    rows = made.texts["td"]
    assert rows[-3:] == ["1", "2", "3"]


def test_runs_that_are_no_equals_say_so_above_the_pictures_in_the_table_and_in_legends(
    tmp_path: Path,
) -> None:
    asked = str(Asked())
    text, targets = "outage oslo rome both blackhole", ["oslo -> rome", "rome -> oslo"]
    outage = {"fault": 0, "verb": "outage", "text": text, "targets": targets}
    values = {"rate_mbps": 8.0, "delay_ms": 10.0, "jitter_ms": 0.0, "loss_percent": 0.0}
    made = compared(tmp_path, ("seed: 1", "seed: 2\nclock: real"))
    assert not [text for text in made.texts["li"] if "by hand" in text]
    log = [json.loads(line) for line in (tmp_path / "1" / "events.jsonl").read_text().splitlines()]
    for change in (
        added(500, "runner", "fault_started", **outage, asked=True),
        *(
            added(t_ms, "runner", "link_changed", src=src, dst=dst, **values, cuts=cuts)
            for t_ms, cuts in ((500, ["blackhole"]), (4400, []))
            for src, dst in (("oslo", "rome"), ("rome", "oslo"))
        ),
        added(4400, "runner", "fault_ended", fault=0),
        *(
            added(4440, who, "timers_late", seconds=0.0, of_s=4.4)
            for who in ("oslo", "rome", "kyiv", "controller")
        ),
        altered("stopping", {"cause": asdict(Asked())}),
        altered("run_finished", {"cause": asdict(Asked())}),
    ):
        log = change(log)
    (tmp_path / "1" / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log))
    (tmp_path / "1" / "report.html").touch()
    outputs.compare([tmp_path / "0", tmp_path / "1"], tmp_path / "page.html")
    found = re.findall(r'href="([^#"][^"]*)"', (tmp_path / "page.html").read_text())
    assert found[-1] == "1/report.html"
    made = Page((tmp_path / "page.html").read_text())
    name = "2: seed 2 (by hand, real clock)"
    by_hand = "by hand: outage oslo rome both blackhole at 0.290 s; run ended at 4.190 s"
    by_hand += " (0.210 s later in tables)"
    words = (tmp_path / "page.html").read_text()
    assert words.index("Run 2: by hand: outage oslo") < words.index("<svg")
    assert f"Run 2: {by_hand}" in made.texts["li"]
    assert "Run 2: differs from run 1 in: seed, clock" in made.texts["li"]
    assert made.texts["li"].count(name) == 3
    assert made.texts["a"].count(name) == 1
    outputs.build(tmp_path / "1")
    alone = Page((tmp_path / "1" / "report.html").read_text())
    assert "outage oslo rome both blackhole, by hand" in alone.texts["td"]
    assert f"Why it ended: {asked}; {by_hand}" in alone.texts["p"]
    for name in ("page.html", "1/report.html"):
        assert '<span class="whole">0.290 s;</span>' in (tmp_path / name).read_text()
    assert made.texts["td"][-1 - made.texts["td"][::-1].index(asked) :][1:3] == ["2", "seed, clock"]


def test_faults_that_all_runs_have_are_named_above_and_in_the_chart_of_progress(
    tmp_path: Path,
) -> None:
    compared(tmp_path, ("seed: 1", "seed: 2"))
    folders = [tmp_path / "0", tmp_path / "1"]
    outage = {"verb": "outage", "targets": ["oslo -> rome"], "text": "outage oslo rome for 1 s"}
    for number, folder in enumerate(folders):
        log = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        log = added(500, "runner", "fault_started", **outage, fault=0, asked=False)(log)
        also = {**outage, "text": "outage oslo rome for 9 s"}
        log = added(900 + number, "runner", "fault_started", **also, fault=1, asked=False)(log)
        log = added(1500 + number, "runner", "fault_ended", fault=0)(log)
        (folder / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log))
        shutil.copy(folder / "resolved.yaml", folder / "scenario.yaml")
    histories = [outputs.read(folder).history for folder in folders]
    (fault,) = common_faults.find(histories)
    assert fault.end_ns == histories[1].faults[0].end_ns
    cells = Cells("three", ["seed", "trials"], [["1", "1"], ["2", "1"]], ["seed"], 2)
    outputs.compare(folders, tmp_path / "page.html", cells, ["1", "2"])
    text = (tmp_path / "page.html").read_text()
    span = describe_span(fault, fault_table.find_timeline_start_ns(histories[0]))
    assert span == "at 290 ms (0.500 s to 1.501 s of the run)"
    assert f"Fault in all: outage oslo rome for 1 s, {span}." in Page(text).text("p")
    progress = text.partition("Completed tasks of every run over time")[2].partition("</svg>")[0]
    assert "0: outage oslo rome for 1 s" in progress
    assert progress.count("fill-band") == 1
    assert "for 9 s" not in progress


def test_a_file_of_ones_own_is_a_difference_of_its_own_where_its_text_is() -> None:
    ours = {"commit": "1", "host.cpus": "2"}
    first, edited, other = (
        RunInputs({"scheme.plan": plan, f"code.{plan}": text}, ours)
        for plan, text in (("a.py", "1"), ("a.py", "2"), ("b.py", "1"))
    )
    assert edited.list_differences(first) == ["own files"]
    assert other.list_differences(first) == ["scheme"]
    elsewhere = RunInputs({}, {"commit": "2", "host.cpus": "4"})
    assert elsewhere.list_differences(RunInputs({}, ours)) == ["code", "machine"]


def test_what_a_comparison_varies_and_its_consequences_are_no_reason_for_a_warning(
    plain: Page, tmp_path: Path
) -> None:
    data = dict.fromkeys(("1", "2"), outputs.read(tmp_path))
    near, far = (
        RunInputs({"topology.delays": ms, "failover.timeout": ms}, {"overrides": ms})
        for ms in ("10 ms", "99 ms")
    )
    givens = {"1": near, "2": far}
    assert far.list_differences(near) == ["topology", "failover"]
    assert write_warning(data, givens, ["topology.delays"]) is None
    assert "Run 2: differs from run 1 in: topology" in str(write_warning(data, givens, ["scheme"]))


def test_the_shadow_of_what_can_be_scrolled_is_also_on_code_and_seen_through_a_chart(
    plain: Page,
) -> None:
    (rule,) = re.findall(r"\.scroll > svg \{[^}]*\}", plain.text("style"))
    assert rule == ".scroll > svg { mix-blend-mode: var(--blend); }"
    assert ".scroll, pre { --back: var(--paper); overflow-x: auto;" in plain.text("style")
    (wide,) = re.findall(r"\.scroll:has\(> table\) \{([^}]*)\}", plain.text("style"))
    # A table that lacks a few pixels takes them from the margin: no shadow would show there.
    assert {"width: fit-content", "min-width: 100%", "max-width: calc(50% + 50vw - 1.5rem)"} == {
        *wide.strip(" ;").split("; ")
    }
    pairs = pairwise(plain.elements)
    assert [(a, b) for (a, of_a), (b, _) in pairs if of_a.get("class") == "scroll" and b == "svg"]


def test_a_warning_has_the_outcome_of_each_check(plain: Page, tmp_path: Path) -> None:
    found = outputs.read(tmp_path)
    checks = [Check("hosts", "unknown", "slow", "hosts", 1), Check("bytes", "fail", "few", "b", 1)]
    data = {"1": replace(found, verdict=Verdict.of(checks))}
    warning = str(write_warning(data, {"1": RunInputs.of(found)}, []))
    assert "Run 1: unknown: hosts: slow" in warning
    assert "Run 1: fail: bytes: few" in warning


def test_means_stand_above_the_cells_and_these_above_the_first_trial_of_each(
    tmp_path: Path,
) -> None:
    page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    rows = [["crew", "3", "1.50 ± 0.10", "7", "1"], ["ring", "3: 2 pass, 1 fail", "3", "7", "1"]]
    heads = ["scheme.plan", "trials", "task time, s", "bound, s", "sent, MB"]
    nan = math.nan
    means = [Mean("CREW", 1.5, 1.4, 1.6, (1.4, 1.6)), Mean("ring", nan, nan, nan, ())]
    means += [Mean("torch", nan, nan, nan, (), passed=3)]
    means += [Mean("later", nan, nan, nan, (), ended=False)]
    means += [Mean("cut", 2.0, nan, nan, (2.0,), planned=4)]
    remarks, metrics = [f"fail: {NASTY}"], [Metric("task time (s)", means)]
    cells = Cells("three", heads, rows, ["scheme.plan"], 6, remarks, metrics * 2, missing=3)
    cells = replace(cells, problems=[("fail: ring seed 3: few", "runs/ring 3/1"), ("error: a", "")])
    outputs.compare([tmp_path], tmp_path / "page.html", cells, ["CREW"])
    text = (tmp_path / "page.html").read_text()
    assert '<li>fail: ring seed 3: few: <a href="runs/ring%203/1/report.html">' in text
    assert "<li>error: a</li>" in text
    made = Page((tmp_path / "page.html").read_text())
    assert made.texts["h1"] == ["Comparison of three"]
    assert made.texts["h2"][:3] == ["Means", "Table of means", "First trial"]
    what = "2 variants, 6 trials, of which 3 have not ended. After the means, the first trial of "
    assert f"{what}1 variant." in made.text("p")
    assert "The runs so far: 3 sites, " in made.text("p") and "All runs" not in made.text("p")
    colours = (
        "Each variant has the same colour in all pictures of this page, and in those of plots/."
    )
    assert made.texts["p"].count(colours) == 1
    legend = "mean of the trials that passed, with its 95 % interval"
    assert made.texts["li"].count(legend) == 1
    names = ["CREW", "ring", "torch", "later", "cut"]
    assert [text for text in made.texts["text"] if text in names] == names * 2
    words = ["1.50 ± 0.10", "no trial passed", "no task time", "no trial has ended"]
    assert made.texts["tspan"] == [*words, "2 (1 trial)"] * 2
    assert "mean task time (s)" in made.texts["text"]
    assert made.texts["td"][:4] == ["3", "1.50 ±\N{NO-BREAK SPACE}0.10", *rows[1][1:3]]
    assert "The same in all: bound, s: 7; sent, MB: 1." in made.text("p")
    assert "1: CREW" in made.texts["a"]
    assert f"fail: {NASTY}" in made.text("li")


def test_a_comparison_says_what_it_compares_and_by_which_command(tmp_path: Path) -> None:
    page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    command = "trunkline compare three.yaml --set 'timeline=[]' --vary scheme.plan=crew,ring"
    long = "[{at: 5 s, do: outage oslo rome for 6 s}, {at: 14 s, do: pause kiev for 3 s}]"
    heads = ["timeline", "trials", "rounds per worker"]
    cells = Cells("three", heads, [["[]", "1", "9"], [long, "1", "8"]], ["timeline"], 2)
    cells = replace(cells, command=command)
    outputs.compare([tmp_path], tmp_path / "page.html", cells, ["[]"])
    text = (tmp_path / "page.html").read_text()
    made = Page(text)
    assert re.sub("<[^>]*>", "", text).count(html.escape(command)) == 1
    assert '<span class="whole">--set</span>' in text  # in one piece
    assert "a model of 1 MB" in made.text("p")
    assert "3 sites, 6 directed links" in made.text("p")
    assert "seed" not in made.text("p")
    assert SCENARIO.read_text() in made.texts["pre"]
    note = "this is when the last task begins"
    assert note not in made.text("p")
    by_tasks = SCENARIO.read_text().replace("time: 4.4 s}", "tasks: 3}")
    (tmp_path / "resolved.yaml").write_text(by_tasks)
    outputs.compare([tmp_path], tmp_path / "tasks.html", cells, ["[]"])
    assert note in Page((tmp_path / "tasks.html").read_text()).text("p")
    assert f'<span title="{long}">{long[:39]}…</span>' in text


def test_what_differs_between_runs_is_not_said_of_all(tmp_path: Path) -> None:
    compared(tmp_path, ("seed: 1", "seed: 2\nclock: real"))
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        shutil.copy(folder / "resolved.yaml", folder / "scenario.yaml")
    cells = Cells("three", ["clock", "trials"], [["virtual", "1"], ["real", "1"]], ["clock"], 2)
    outputs.compare(folders, tmp_path / "page.html", cells, ["virtual", "real"])
    made = Page((tmp_path / "page.html").read_text())
    (said,) = (words for words in made.texts["p"] if words.startswith("All runs: "))
    assert "policy preduce" in said
    assert "clock" not in said
    files = [words for words in made.texts["summary"] if words.startswith("The file of run ")]
    assert len(files) == 2


def test_equal_trials_of_a_page_are_seen_below_each_other() -> None:
    metrics = [Metric("task time (s)", [Mean("crew", 1.0, 1.0, 1.0, (1.0,) * 5)])]
    made = "".join(map(str, write_section(metrics)))
    dots = re.search(r'<path d="([^"]*)" class="dots small', made.rpartition("</ul>")[2])
    assert dots is not None
    assert len(set(re.findall(r"M[\d.]+ [\d.]+", dots[1]))) == 5


def test_a_chart_of_means_says_which_variant_s_ratio_is_1() -> None:
    means = [Mean("crew", 1.0, 0.9, 1.1, (1.0,), ratio="1")]
    means += [Mean("ring", 2.0, 1.9, 2.1, (2.0,), ratio="2.00")]
    for reference, said in (("crew", True), ("", False)):
        made = "".join(map(str, write_section([Metric("task time (s)", means)], False, reference)))
        assert ("Ratios are taken trial by trial; 1 is crew." in made) == said
    assert "; ratio 2.00</tspan>" in made


def test_marks_of_expected_times_and_bounds_cover_no_mean_and_no_text() -> None:
    """In a narrow window, they are larger (`style.css`)."""
    mean = Mean("crew", 1.0, 0.9, 1.1, (1.0,), estimate=1.0, bound=1.0)
    made = "".join(map(str, write_section([Metric("task time (s)", [mean])])))
    chart = made.rpartition("</ul>")[2]
    at = {float(y) for y in re.findall(r'<g transform="translate\([\d.]+ ([\d.]+)\)">', chart)}
    dot, _ = re.findall(r'd="M[\d.]+ ([\d.]+)h0" class="dots stroke-blue"', chart)
    (trial,) = re.findall(r'd="M[\d.]+ ([\d.]+)h0" class="dots small', chart)
    (text,) = re.findall(r'<text x="48" y="([\d.]+)">crew', chart)
    (mark,) = at
    scale = 1.6
    assert ".fits .mark { transform: scale(1.6); }" in frame.STYLE
    assert float(text) + 4 < mark - 5 * scale
    assert mark + 5 * scale < float(dot) - 7.6  # the radius of a dot of 6 pixels there
    assert float(dot) + 7.6 < float(trial) + 6 - 3.8


def test_a_long_name_of_a_variant_leaves_room_for_its_numbers() -> None:
    mean = Mean("x" * 90, 1.0, 0.9, 1.1, (1.0, 1.0, 1.0), ratio="1")
    made = "".join(map(str, write_section([Metric("task time (s)", [mean])])))
    name, numbers = re.findall(r'<text x="48"[^>]*>(x+…)<tspan[^>]*>([^<]*)<', made)[0]
    assert numbers == "1.00 ± 0.10; ratio 1"
    assert (len(name) + len(numbers)) * charts.NARROW_LETTER + 24 + 48 < charts.WIDTH


def test_a_matrix_of_links_is_as_wide_as_its_cells() -> None:
    """Else a shadow says that there is more to scroll, where nothing is."""
    names = [f"n{n}" for n in range(9)]
    links = tuple(Link(a, b, 1.0, 1.0) for a in names for b in names if a != b)
    topology = Topology("t", tuple(map(Site, names)), links)
    picture, _ = overlay_section._draw_matrix(topology, [0.5] * len(links))
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) ', str(picture))
    last = max(float(x) for x in re.findall(r'<rect x="([\d.]+)"', str(picture)))
    assert last + 36 <= float(width) <= last + 50
    (least,) = re.findall(r"min-width:([\d.]+)rem", str(picture))
    assert float(least) * 16 < 380  # all of it is seen in a window of 420 pixels


def test_the_shadow_of_what_can_be_scrolled_ends_before_its_edges() -> None:
    """A line of it would be seen where nothing is hidden, if heights are no whole pixels."""
    shadows = re.findall(r"var\(--shade\), transparent\) \w+ / (.*?) no-repeat", frame.STYLE)
    assert shadows == ["1rem calc(100% - 4px)"] * 2


def test_a_logarithmic_axis_of_a_page_says_so() -> None:
    for most, more in ((2.0, ""), (90.0, ", logarithmic axis")):
        means = [Mean("crew", 1.0, 0.9, 1.1, (1.0,)), Mean("ring", most, most, most, (most,))]
        made = "".join(map(str, write_section([Metric("task time (s)", means)])))
        assert f">mean task time (s){more}<" in made


@given(
    st.floats(0, 2 * math.pi),
    st.lists(st.tuples(st.floats(0.2, 0.8), st.floats(-20, 20)), max_size=2),
)
@example(0.0, [(0.5, 30.0)])
@example(1.0, [(0.38, 28.0)])
def test_a_link_passes_by_other_sites(turn: float, beside: list[tuple[float, float]]) -> None:
    along, right = (
        np.array([math.cos(turn), math.sin(turn)]),
        np.array([-math.sin(turn), math.cos(turn)]),
    )
    a, b = (100.0, 100.0), tuple(np.array([100.0, 100.0]) + 600 * along)
    nodes = [tuple(100.0 + 600 * share * along + off * right) for share, off in beside]
    control, (tip, *rest) = site_layout.bend_link(a, b, [a, b, *nodes])
    t = np.linspace(0, 1, 200)[:, None]
    curve = (1 - t) ** 2 * np.array(a) + 2 * t * (1 - t) * np.array(control) + t**2 * np.array(b)
    assert (np.array(control) - np.array(a)) @ right > 0  # to the right, as all links
    if len(nodes) < 2:
        assert all(np.hypot(*(curve - np.array(node)).T).min() > 9 for node in nodes)
    if not nodes:
        assert site_layout.bend_link(a, b) == (control, (tip, *rest))


def test_a_map_has_colours_on_paper() -> None:
    printed = frame.STYLE.rpartition("@media print")[2]
    for outcome in ("pass", "unknown", "fail"):
        colour = re.search(rf"\.map \.is-{outcome} {{ background: (#\w+); }}", printed)
        assert colour is not None
        assert colour[1] != "#fff"


def test_a_variant_has_one_colour_in_all_pictures_and_marks_beside_its_mean(tmp_path: Path) -> None:
    page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    means = [
        Mean("ring", 2.0, 1.9, 2.1, (1.9, 2.1), estimate=1.8, bound=0.5),
        Mean("crew", 1.5, 1.4, 1.6, (1.4, 1.6)),
    ]
    rows = [["ring", "2"], ["crew", "2"]]
    metrics = [Metric("task time (s)", means)]
    cells = Cells("three", ["scheme.plan", "trials"], rows, ["scheme.plan"], 4, (), metrics)
    cells = replace(cells, names=["ring", "crew"])
    outputs.compare([tmp_path], tmp_path / "page.html", cells, ["crew"])  # ring's first run is lost
    made = (tmp_path / "page.html").read_text()
    drawn, times = (re.search(f'<section id="{name}".*?</section>', made, re.DOTALL)
                    for name in ("means", "times"))  # fmt: skip
    assert drawn is not None
    assert times is not None
    assert re.findall(r'class="dots (stroke-\w+)"', drawn[0])[-2:] == [
        "stroke-blue",
        "stroke-orange",
    ]
    assert set(re.findall(r'class="line (stroke-\w+)"', times[0])) == {"stroke-orange"}
    crosses, ticks = (drawn[0].count(shape) for shape in charts.MARKS.values())
    assert (crosses, ticks) == (2, 2)  # each in the legend and beside one mean
    for said in ("expected: estimate plus latency", "lower bound: no plan could be faster"):
        assert said in made
    assert {'class="fits"' in svg for svg in re.findall("<svg[^>]*aria-label[^>]*>", made)} == {
        True
    }


@pytest.mark.parametrize("trials", [(1.02, 1.42), (-1.0, 3.44)])
def test_means_have_an_axis_from_0_and_an_arrow_where_it_cuts_an_interval(
    trials: tuple[float, float],
) -> None:
    metrics = [Metric("task time (s)", [Mean("crew", 1.22, -1.3, 3.8, trials)])]
    made = "".join(map(str, write_section(metrics)))
    numbers = [float(text) for text in re.findall(r'class="tick middle">([^<]*)<', made)]
    path = re.search(r'<path d="(M[^"]*)" class="line', made)
    assert path is not None
    cut = min(trials) > 0
    assert (min(numbers) >= 0, "l6 5" in path[1], "goes on below 0" in made) == (cut,) * 3
    assert "same colour" not in made


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("queues on n4 -> n1.", ["n4 -&gt; n1."]),
        ("a-b -> c, d -> e -> f", ["a-b -&gt; c,", "d -&gt; e -&gt; f"]),
        ("n1 carried 2.774 MB in 1,000 s: 80 %", ["2.774 MB", "1,000 s:", "80 %"]),
        ("2 sites, 3 senders, 4 Bytes", []),
        ("1.82 (1.62 to 2.04)", ["(1.62 to 2.04)"]),
        ("(an outage for 3 s).", ["3 s)."]),
        ("tasks 3 (1.500 s), [n1 -> n2]", ["(1.500 s),", "[n1 -&gt; n2]"]),
        ("0.75 ± 0.021", ["0.75 ± 0.021"]),
        ("<b> -> <i>", ["&lt;b&gt; -&gt; &lt;i&gt;"]),
    ],
)
def test_no_line_breaks_within_a_link_a_quantity_or_an_interval(
    text: str, whole: list[str]
) -> None:
    made = markup.keep_together(text)
    assert re.findall('<span class="whole">([^<]*)</span>', made) == whole
    assert re.sub("</?span[^>]*>", "", made) == markup.escape(text)
    assert made in markup.make_table(["what"], [[text]], "x")


def test_means_of_one_scenario_have_its_name_and_are_compared_with_nothing(tmp_path: Path) -> None:
    page(tmp_path, LOG.read_text(), SCENARIO.read_text())
    heads = ["scenario", "trials", "task time, s"]
    cells = Cells("three", heads, [["three", "100", "1.5"]], [], 100)
    outputs.compare([tmp_path], tmp_path / "page.html", cells, ["three"])
    made = Page((tmp_path / "page.html").read_text())
    assert "100 trials. After the means, the first trial." in made.texts["p"]
    assert "1: three" in made.texts["a"]
    assert "relative to run 1" not in made.texts["th"]
    assert "ratio" not in made.text("p")
    assert "What differs" not in made.texts["h2"]


def test_runs_that_are_alike_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    made = compared(tmp_path, ("", ""))
    assert f"2: {tmp_path.name}/1" in made.texts["th"]
    assert "Nothing: the scenarios, the hosts and the versions are the same." in made.text("p")


@pytest.mark.parametrize(
    ("build", "sites", "shape"),
    [
        (full_mesh.build, 6, "Map"),  # 30 links
        (full_mesh.build, 7, "Matrix"),  # 42 links
        (internet2.build, 12, "Map"),  # more links than that, but few of all pairs
    ],
)
def test_a_dense_overlay_of_many_links_is_a_matrix(build, sites, shape) -> None:
    topology = build(random.Random(1), sites=sites)
    shares = [0.5] * len(topology.links)
    drawn = "".join(map(str, overlay_section.draw_overlay(topology, shares, None, history(), "x")))
    assert re.search(r'aria-label="(Map|Matrix) of', drawn)[1] == shape


def test_on_a_map_each_link_has_its_ends_and_each_site_a_rule_that_shows_its_links_alone() -> None:
    shares = [0.5] * len(TOPOLOGY.links)
    (drawn,) = overlay_section.draw_overlay(TOPOLOGY, shares, None, history(), "x")
    page = Page(str(drawn))
    ends = [entry["data-ends"] for entry in page.all("g") if "data-ends" in entry]
    assert ends == ["0 1", "0 2", "1 0", "1 2", "2 0", "2 1"]
    assert [entry["data-site"] for entry in page.all("g") if "data-site" in entry] == [*"012"]
    assert re.findall(r'data-site="(\d)".*?:not\(\[data-ends~="(\d)"', page.text("style")) == [
        ("0", "0"),
        ("1", "1"),
        ("2", "2"),
    ]


def test_the_caption_says_when_agents_exited_that_the_chart_does_not_show() -> None:
    late = history(altered("run_finished", {"t_ns": 9 * 10**9}))
    words = 'Not shown: agents exited until <span class="whole">9.0 s.</span>'
    assert words in str(draw_gantt(late, TOPOLOGY.site_names, "virtual"))
    assert "Not shown" not in str(draw_gantt(history(), TOPOLOGY.site_names, "virtual"))
