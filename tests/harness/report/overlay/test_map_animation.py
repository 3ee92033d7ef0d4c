"""The animated map of a run."""

import io

import numpy as np
import pytest
from PIL import Image

from trunkline.agents.events import event_reading
from trunkline.agents.events.fault_events import FaultEnded, FaultStarted, LinkChanged
from trunkline.harness.commands import main
from trunkline.harness.config.paths import SCENARIOS
from trunkline.harness.record.history import History
from trunkline.harness.report.overlay import map_animation
from trunkline.harness.scenario.loading import load, parse, resolve

DATA = SCENARIOS.parent / "tests" / "data"
STAR = """
topology: {builder: star, sites: 200}
workload: {kind: synthetic, model: 1 kB}
scheme: {name: allreduce}
stop: {rounds: 1}
"""

OUTAGE = (
    FaultStarted(
        2_000_000_000, "runner", 0, "outage", "outage oslo kyiv", ("oslo -> kyiv", "kyiv -> oslo")
    ),
    LinkChanged(2_000_000_001, "runner", "oslo", "kyiv", 8.0, 10.0, 0.0, 0.0, ("blackhole",)),
    LinkChanged(2_000_000_002, "runner", "kyiv", "oslo", 8.0, 10.0, 0.0, 0.0, ("blackhole",)),
    LinkChanged(3_000_000_000, "runner", "oslo", "kyiv", 8.0, 10.0, 0.0, 0.0, ()),
    LinkChanged(3_000_000_001, "runner", "kyiv", "oslo", 8.0, 10.0, 0.0, 0.0, ()),
    FaultEnded(3_000_000_002, "runner", 0),
)


STEPS = 40
"""Fewer frames than those of users; each takes long to draw and to read."""


@pytest.fixture(scope="module")
def frames() -> list[np.ndarray]:
    scenario = load(DATA / "three_sites.yaml")
    lines = (DATA / "three_sites.jsonl").read_text().splitlines()
    events = sorted((*event_reading.read(lines), *OUTAGE), key=lambda event: event.t_ns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_animation, "STEPS", STEPS)
        shown = map_animation.render(scenario, History.of(events))
    with Image.open(io.BytesIO(shown)) as picture:
        assert picture.size == (map_animation.WIDTH, map_animation.HEIGHT)
        found = []
        for number in range(picture.n_frames):
            picture.seek(number)
            found.append(np.asarray(picture.convert("RGB")).astype(np.int16))
    return found


def count(frame: np.ndarray, colour: str) -> int:
    """How many pixels have about this colour."""
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return int((np.abs(frame - wanted).max(axis=2) <= 6).sum())


def test_links_pass_behind_the_names_of_sites(monkeypatch):
    scenario = load(DATA / "three_sites.yaml")
    lines = (DATA / "three_sites.jsonl").read_text().splitlines()
    drawn = []
    monkeypatch.setattr(
        map_animation.Axes, "text",
        lambda axes, *place, _real=map_animation.Axes.text, **look: (
            drawn.append((place[2], look)) or _real(axes, *place, **look)
        ),
    )  # fmt: skip
    monkeypatch.setattr(map_animation, "STEPS", 2)
    map_animation.render(scenario, History.of(event_reading.read(lines)))
    names = {text: look for text, look in drawn if text in scenario.topology.site_names}
    assert len(names) == 3
    for look in names.values():
        assert look["zorder"] > 3 and look["path_effects"]


def test_a_frame_shows_each_step_and_the_bar_grows(frames):
    assert len(frames) == STEPS
    filled = [count(frame[-20:], map_animation.plots.BLUE) for frame in frames]
    assert filled == sorted(filled)
    assert filled[-1] > STEPS / 2.4 * filled[0]


def test_a_fault_is_named_and_its_link_is_cut_only_while_it_is_active(frames):
    named = [count(frame[45:67], map_animation.CUT) > 0 for frame in frames]
    cut = [count(frame[80:-60], map_animation.CUT) > 0 for frame in frames]
    assert any(cut)
    assert not all(named)
    assert all(name for name, link in zip(named, cut, strict=True) if link)


def test_long_faults_are_named_in_full_and_slowed_links_are_marked(monkeypatch):
    scenario = load(DATA / "three_sites.yaml")
    lines = (DATA / "three_sites.jsonl").read_text().splitlines()
    text = "setlink oslo kyiv both rate=2Mbit/s delay=40ms jitter=3ms loss=0.5% for 2 s"
    slow = (
        FaultStarted(10_000_000, "runner", 0, "setlink", text, ("oslo -> kyiv",)),
        LinkChanged(10_000_001, "runner", "oslo", "kyiv", 2.0, 40.0, 3.0, 0.5, ()),
    )
    events = sorted((*event_reading.read(lines), *slow), key=lambda event: event.t_ns)
    said, styles = [], []
    monkeypatch.setattr(map_animation, "STEPS", 2)
    monkeypatch.setattr(
        map_animation.Text, "set_text",
        lambda self, new, _real=map_animation.Text.set_text: (said.append(new), _real(self, new)),
    )  # fmt: skip
    monkeypatch.setattr(
        map_animation.PathCollection, "set_linestyle",
        lambda self, new, _real=map_animation.PathCollection.set_linestyle: (
            styles.append(new), _real(self, new)
        ),
    )  # fmt: skip
    map_animation.render(scenario, History.of(events))
    assert text in said
    assert "slowed" in said
    links = [(link.src, link.dst) for link in scenario.topology.links]
    marked = [n for n, style in enumerate(styles[-1]) if style == map_animation.SLOWED_DASHES]
    assert marked == [links.index(("oslo", "kyiv"))]


def test_loads_change_the_colours_of_links(frames):
    strongest = map_animation.LEVEL_COLOURS[-1]
    busy = [count(frame[80:-60], strongest) for frame in frames]
    assert min(busy) < max(busy)


def test_a_map_has_its_limits_and_needs_a_run(tmp_path, capsys):
    scenario = parse(STAR, "star.yaml")
    with pytest.raises(map_animation.TooLargeError, match="expected at most 100 and 1000"):
        map_animation.render(scenario, History.of(()))
    (tmp_path / "resolved.yaml").write_text(resolve(load(DATA / "three_sites.yaml")))
    (tmp_path / "events.jsonl").touch()
    assert main.main(["report", str(tmp_path), "--gif"]) == 64
    assert "nothing happened in this run" in capsys.readouterr().err
